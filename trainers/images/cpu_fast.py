"""One training of one network, faster on CPUs: the same parameters, draws and steps, up to float rounding.

- Channels last: the values of a pixel are adjacent in memory.
- The stem and the 1x1 convolutions of the first cell, its only readers, are one convolution each.
- One kernel updates all parameters, and images are cropped for many steps at once.
- Convolutions are rearranged to fill the vector registers; the fastest form depends on the number of floats per
  register (`lanes`). Milliseconds, forward and backward on batches of 32, one thread, registers of 8 floats (AVX2):

  | channels, side | convolution | original | rearranged | registers of 8 | registers of 16 |
  |---|---|---|---|---|---|
  | 8, 28 | 3x3, 5x5 in 4 groups | 4.7, 10.1 | 2.5, 6.6 | one group, zeros elsewhere | pairs |
  | 8, 28 | 5x5 | 5.5 | 6.4 as pairs | original | pairs |
  | 16, 15 | 3x3, 5x5 in 4 groups | 2.1, 6.4 | 1.6, 4.8 | 2 groups of 8 | original |
  | 32, 8 | 3x3, 5x5 in 4 groups of 8 | 1.8, 2.8 | 2.2, 3.8 in 2 groups | original | original |
  | 16 and more to 16 and more | 1x1 | 0.42 to 0.76 | 0.25 to 0.52 | matrix product | original |
  | fewer | 1x1 | 0.6 to 1.1 | 0.6 to 1.4 | original | original |

  `paired_weight` explains pairs: a row of 28 pixels with 8 channels has the same memory as one of 14 pairs with 16.
  That takes 1.2 times the multiplications for 5x5 and, with 16 floats per register, twice the speed.
- Max pools of stride 1 that preserve the size. A maximum over 5x5 pixels is one of 5 rows of maxima of 5.
  - Without derivatives: the maximum over 5 neighbours comes from maxima over 2 and 4 of them, each a pass over all
    images that fills the registers. 100 images of 8 channels took 1.8 and 2.4 ms for 3x3 and 5x5; torch's pool, which
    reads 9 or 25 pixels in turn, 5.3 and 10.1.
  - With derivatives: torch's pool, which also finds the places of maxima, with a row of pixels as the channels. For 5x5
    it takes 2.7 ms, forward and backward on 32 images, instead of 3.9. For 3x3 it is not faster.
  - As in torch's pool, the first of equal values counts, row by row, so derivatives are the same; and any maximum over
    a NaN is NaN.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fmnas.search_spaces import Schedule
from fmnas.trainers.images.batches import Streams
from fmnas.trainers.images.model import CellModule, Network
from fmnas.trainers.images.network import replace_layers
from fmnas.trainers.images.training import Learner, TrainingContext, build_optimizer
from fmnas.trainers.split import IMAGE_SIZE

HEIGHT_DIM, WIDTH_DIM = 1, 2  # of images [B, H, W, C]
STEPS_AT_ONCE = 16
"""Steps whose images are cropped together."""


class FastMaxPool(nn.Module):
    """A max pool of size 3 or 5 and stride 1 that preserves height and width."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, C, H, W] to the same shape. With derivatives, C x W and C x H must be even."""
        if not torch.is_grad_enabled():
            return sliding_maximum(images, self.size)
        if self.size == 5:
            return separate_maximum(images, self.size)
        return functional.max_pool2d(images, self.size, stride=1, padding=self.size // 2)


def sliding_maximum(images: Tensor, size: int) -> Tensor:
    """The maxima over size x size pixels (3 or 5) of images [B, C, H, W], in the same shape."""
    values = images.permute(0, 2, 3, 1)
    for dimension in (WIDTH_DIM, HEIGHT_DIM):
        values = _slide(values, size, dimension)
    return values.permute(0, 3, 1, 2)


def separate_maximum(images: Tensor, size: int) -> Tensor:
    """The same, along the rows, then along the columns, with the derivatives of torch's pool."""
    batch, channels, height, width = images.shape
    columns = images.permute(0, 3, 2, 1).reshape(batch, width, height * channels)
    maxima = _pool(columns, size).view(batch, width, height, channels)
    rows = maxima.transpose(1, 2).reshape(batch, height, width * channels)
    return _pool(rows, size).view(batch, height, width, channels).permute(0, 3, 1, 2)


def _slide(values: Tensor, size: int, dimension: int) -> Tensor:
    """The maxima over `size` neighbours along a dimension, fewer at its ends."""
    length, reach = values.shape[dimension], size // 2
    single = functional.pad(values, [0, 0] * (3 - dimension) + [reach, reach], value=-torch.inf)
    maxima, count = single, 1  # over `count` neighbours
    while 2 * count < size:
        steps = maxima.shape[dimension] - count
        maxima = torch.maximum(maxima.narrow(dimension, 0, steps), maxima.narrow(dimension, count, steps))
        count *= 2
    return torch.maximum(maxima.narrow(dimension, 0, length), single.narrow(dimension, size - 1, length))


def _pool(lines: Tensor, size: int) -> Tensor:
    """The maxima over `size` neighbouring lines of [B, L, D], by torch's pool on images of height L and width 2.

    With a width of 1, torch would not recognise that the channels come last.
    """
    batch, length, numbers = lines.shape
    images = lines.view(batch, length, 2, numbers // 2).permute(0, 3, 1, 2)
    pooled = functional.max_pool2d(images, (size, 1), stride=1, padding=(size // 2, 0))
    return pooled.permute(0, 2, 3, 1).reshape(batch, length, numbers)


PAIRED_LANES = 16
"""Floats per register for which pairs of pixels are used."""


def rearrange(conv: nn.Conv2d, lanes: int) -> nn.Module:
    """The fastest form of a convolution that preserves the size; it shares the parameters of `conv`."""
    size, channels = conv.kernel_size[0], conv.in_channels
    if lanes >= PAIRED_LANES:
        return PairedConvolution(conv) if channels < lanes and (size == 5 or (size == 3 and conv.groups > 1)) else conv
    if size == 1:
        return PixelProduct(conv) if min(channels, conv.out_channels) >= 2 * lanes else conv
    groups = max(1, min(conv.groups, channels // lanes))
    return MergedConvolution(conv, groups) if groups < conv.groups else conv


class Convolution(nn.Module):
    """A layer with the weight and bias of a convolution, under the same names."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert conv.bias is not None
        self.weight, self.bias, self.groups = conv.weight, conv.bias, conv.groups


class MergedConvolution(Convolution):
    """A convolution whose groups are merged into fewer: more multiplications, by zeros, in fuller registers."""

    def __init__(self, conv: nn.Conv2d, groups: int) -> None:
        """groups: the remaining number; a divisor of the convolution's."""
        super().__init__(conv)
        self._remaining = groups

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, C, H, W] to the same shape."""
        weight = merged_weight(self.weight, self.groups, self._remaining)
        return functional.conv2d(images, weight, self.bias, padding=weight.shape[-1] // 2, groups=self._remaining)


class PairedConvolution(Convolution):
    """A convolution that preserves the size, on pairs of neighbouring pixels; unpaired for an odd width."""

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, C, H, W] to the same shape."""
        batch, channels, height, width = images.shape
        middle = self.weight.shape[-1] // 2
        if width % 2:
            return functional.conv2d(images, self.weight, self.bias, padding=middle, groups=self.groups)
        pairs = images.permute(0, 2, 3, 1).reshape(batch, height, width // 2, 2 * channels)
        weight, bias = paired_weight(self.weight, self.groups), self.bias.repeat(2)
        result = functional.conv2d(pairs.permute(0, 3, 1, 2), weight, bias, padding=(middle, 1))
        return result.permute(0, 2, 3, 1).reshape(batch, height, width, channels).permute(0, 3, 1, 2)


class PixelProduct(Convolution):
    """A 1x1 convolution as a matrix product, in which each pixel is a row."""

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, C, H, W] to images [B, D, H, W]."""
        pixels = functional.linear(images.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias)
        return pixels.permute(0, 3, 1, 2)


def paired_weight(weight: Tensor, groups: int) -> Tensor:
    """Convert the weight [D, C / groups, k, k] of a convolution (k 3 or 5) to that of the same convolution on pairs.

    The result is [2 D, 2 C, k, 3]. Output pixel 2 j + p, p 0 or 1, reads pixels 2 j + p - k // 2 to 2 j + p + k // 2:
    k of the 6 pixels of pairs j - 1, j, j + 1, from the (2 + p - k // 2)-th. The weights of the others are zero.
    """
    if groups > 1:
        weight = merged_weight(weight, groups, 1)
    out, inputs, size, _ = weight.shape
    first = 2 - size // 2
    both = [functional.pad(weight, (first + p, 6 - size - first - p)) for p in (0, 1)]  # [D, C, k, 6]
    places = torch.stack(both).view(2, out, inputs, size, 3, 2)
    return places.permute(0, 1, 5, 2, 3, 4).reshape(2 * out, 2 * inputs, size, 3)


def merged_weight(weight: Tensor, groups: int, remaining: int) -> Tensor:
    """Convert a weight [D, C / groups, k, k] to [D, C / remaining, k, k], for the same convolution in fewer groups.

    It has zeros for channels that were in a different group. remaining: a divisor of groups.
    """
    out, per_group, height, width = weight.shape
    together = groups // remaining
    blocks = weight.view(remaining, together, out // groups, 1, per_group, height, width)
    own = torch.eye(together, dtype=weight.dtype, device=weight.device).view(1, together, 1, together, 1, 1, 1)
    return (blocks * own).view(out, together * per_group, height, width)


def fused_convolutions(images: Tensor, first: nn.Conv2d, pixelwise: nn.Module) -> Tensor:
    """Two convolutions of images [B, 1, H, W] as one, of which the second is 1x1: [B, D, H, W].

    Both are linear, so the weights [D, C] of the second times those of the first [C, k x k] are those of the two.
    """
    assert first.bias is not None
    assert isinstance(pixelwise, nn.Conv2d)
    assert pixelwise.bias is not None
    outer, padding = pixelwise.weight.flatten(1), first.padding
    assert not isinstance(padding, str)
    weight = (outer @ first.weight.flatten(1)).view(-1, *first.weight.shape[1:])
    bias = torch.addmv(pixelwise.bias, outer, first.bias)
    return functional.conv2d(images, weight, bias, padding=padding)


class FastNetwork(nn.Module):
    """A fast form of a network of `build_network`; it shares the parameters and statistics, and changes the layers."""

    def __init__(self, network: Network, lanes: int | None = None) -> None:
        """lanes: floats per vector register; None: this machine's."""
        super().__init__()
        first = network.cells[0]
        lanes = lanes or (16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8)
        assert isinstance(first, CellModule)
        kept = {network.stem, *first.inputs}  # `forward` fuses them
        replace_layers(network, lambda layer: None if layer in kept else _faster(layer, lanes))
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, 1, 28, 28] to logits [B, 10]."""
        last = images.reshape(-1, IMAGE_SIZE, IMAGE_SIZE, 1).permute(
            0, 3, 1, 2
        )  # explicitly channels last, as there is one channel
        first = self.network.cells[0]
        assert isinstance(first, CellModule)
        a, b = (fused_convolutions(last, self.network.stem, conv) for conv in first.inputs)
        return self.network.behind_first_cell(*first.outputs(a, b))


def _faster(layer: nn.Module, lanes: int) -> nn.Module | None:
    """The faster form of a layer, or None."""
    if isinstance(layer, nn.MaxPool2d):
        assert isinstance(layer.kernel_size, int)
        return FastMaxPool(layer.kernel_size)
    if isinstance(layer, nn.ReLU):
        return nn.ReLU(inplace=True)
    return rearrange(layer, lanes) if isinstance(layer, nn.Conv2d) else None


def fast_learner(network: Network, schedule: Schedule, draws: Streams, context: TrainingContext) -> Learner:
    """A learner that equals `plain_learner` up to rounding; it changes the network."""
    optimizer = build_optimizer(network, schedule, fused=True)
    return Learner(FastNetwork(network), optimizer, draws, context, STEPS_AT_ONCE)
