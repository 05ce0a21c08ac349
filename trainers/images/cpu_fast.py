"""One training of one network on CPUs, faster: the same parameters, draws and steps, up to float rounding.

- Channels last: the values of a pixel lie side by side.
- The stem and the 1x1 convolutions of the first cell, which read nothing else, are one convolution each.
- One kernel updates all parameters, and images are cropped for many steps at once.
- Convolutions take the form that fills the vector registers. What is faster depends on how many floats a register holds
  (`lanes`). In milliseconds, forward and backward on batches of 32, one thread, registers of 8 (AVX2):

  | channels, side | convolution | as written | rearranged | registers of 8 | registers of 16 |
  |---|---|---|---|---|---|
  | 8, 28 | 3x3, 5x5 in 4 groups | 4.7, 10.1 | 2.5, 6.6 | one group, zeros elsewhere | pairs |
  | 8, 28 | 5x5 | 5.5 | 6.4 as pairs | as written | pairs |
  | 16, 15 | 3x3, 5x5 in 4 groups | 2.1, 6.4 | 1.6, 4.8 | 2 groups of 8 | as written |
  | 32, 8 | 3x3, 5x5 in 4 groups of 8 | 1.8, 2.8 | 2.2, 3.8 in 2 groups | as written | as written |
  | 16 and more to 16 and more | 1x1 | 0.42 to 0.76 | 0.25 to 0.52 | matrix product | as written |
  | fewer | 1x1 | 0.6 to 1.1 | 0.6 to 1.4 | as written | as written |

  Pairs are explained at `paired_weight`: with 8 channels a row of 28 pixels is, in the same memory, one of 14 pairs
  with 16. That takes 1.2 times the multiplications for 5x5 and, where a register holds 16 floats, twice the speed.
- Max pools of stride 1 that keep the size. A maximum over 5x5 pixels is one of 5 rows of maxima of 5.
  - Without derivatives: the maximum over 5 neighbours comes from maxima over 2 and 4 of them, each a pass over all
    images that fills the registers. 100 images of 8 channels took 1.8 and 2.4 ms for 3x3 and 5x5; torch's own pool,
    which looks at 9 or 25 pixels in turn, 5.3 and 10.1.
  - With them: torch's own pool, which finds the places of maxima, too, on a row of pixels in the place of the channels.
    For 5x5 it takes 2.7 ms, forward and backward on 32 images, instead of 3.9. For 3x3 it does not pay.
  - Among equal numbers the first counts, row by row, as in torch's own: the derivatives are the same. Where a number is
    NaN, so is every maximum over it.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fmnas.search_spaces import Schedule
from fmnas.trainers.images.batches import Streams
from fmnas.trainers.images.network import CellModule, Network, replace_layers
from fmnas.trainers.images.training import Learner, TrainingContext, build_optimizer
from fmnas.trainers.split import IMAGE_SIZE

HEIGHT_DIM, WIDTH_DIM = 1, 2  # of images [B, H, W, C]
STEPS_AT_ONCE = 16
"""For which images are cropped in one go."""


class FastMaxPool(nn.Module):
    """A max pool of stride 1 that keeps the size, 3 or 5."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W] to images [B, C, H, W]. With derivatives, C x W and C x H must be even."""
        if not torch.is_grad_enabled():
            return sliding_maximum(images, self.size)
        if self.size == 5:
            return separate_maximum(images, self.size)
        return functional.max_pool2d(images, self.size, stride=1, padding=self.size // 2)


def sliding_maximum(images: Tensor, size: int) -> Tensor:
    """The maxima over size x size pixels, 3 or 5: images [B, C, H, W] to images [B, C, H, W]."""
    values = images.permute(0, 2, 3, 1)
    for dimension in (WIDTH_DIM, HEIGHT_DIM):
        values = _slide(values, size, dimension)
    return values.permute(0, 3, 1, 2)


def separate_maximum(images: Tensor, size: int) -> Tensor:
    """The same, along the rows, then along the columns; derivatives go where those of torch's own pool go."""
    batch, channels, height, width = images.shape
    columns = images.permute(0, 3, 2, 1).reshape(batch, width, height * channels)
    along = _pool(columns, size).view(batch, width, height, channels)
    rows = along.transpose(1, 2).reshape(batch, height, width * channels)
    return _pool(rows, size).view(batch, height, width, channels).permute(0, 3, 1, 2)


def _slide(values: Tensor, size: int, dimension: int) -> Tensor:
    """The maximum over `size` neighbours along a dimension, fewer at its ends."""
    length, reach = values.shape[dimension], size // 2
    single = functional.pad(values, [0, 0] * (3 - dimension) + [reach, reach], value=-torch.inf)
    some, count = single, 1  # the maxima over so many neighbours
    while 2 * count < size:
        steps = some.shape[dimension] - count
        some = torch.maximum(some.narrow(dimension, 0, steps), some.narrow(dimension, count, steps))
        count *= 2
    return torch.maximum(some.narrow(dimension, 0, length), single.narrow(dimension, size - 1, length))


def _pool(lines: Tensor, size: int) -> Tensor:
    """The maximum over `size` neighbouring lines, for lines [B, L, D] of numbers.

    As images of height L and width 2: with a width of 1, torch would not see that the channels come last.
    """
    batch, length, numbers = lines.shape
    images = lines.view(batch, length, 2, numbers // 2).permute(0, 3, 1, 2)
    pooled = functional.max_pool2d(images, (size, 1), stride=1, padding=(size // 2, 0))
    return pooled.permute(0, 2, 3, 1).reshape(batch, length, numbers)


PAIRED_LANES = 16
"""Floats in the registers that pairs of pixels fill."""


def machine_lanes() -> int:
    """Floats in the widest vector registers that torch uses on this machine's CPU."""
    return 16 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 8


def rearranged(conv: nn.Conv2d, lanes: int) -> nn.Module:
    """A convolution that keeps the size, with the parameters of `conv` itself, in its fastest form."""
    size, channels = conv.kernel_size[0], conv.in_channels
    if lanes >= PAIRED_LANES:
        return PairedConvolution(conv) if channels < lanes and (size == 5 or (size == 3 and conv.groups > 1)) else conv
    if size == 1:
        return PixelProduct(conv) if min(channels, conv.out_channels) >= 2 * lanes else conv
    groups = max(1, min(conv.groups, channels // lanes))
    return MergedConvolution(conv, groups) if groups < conv.groups else conv


class Convolution(nn.Module):
    """One that takes over the weight and bias of a convolution, whose names they keep."""

    def __init__(self, conv: nn.Conv2d) -> None:
        super().__init__()
        assert conv.bias is not None
        self.weight, self.bias, self.groups = conv.weight, conv.bias, conv.groups


class MergedConvolution(Convolution):
    """A convolution whose groups are merged into fewer: more multiplications, by zeros, in fuller registers."""

    def __init__(self, conv: nn.Conv2d, groups: int) -> None:
        """groups: how many remain; it divides the convolution's."""
        super().__init__(conv)
        self._remaining = groups

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W] to images [B, C, H, W]."""
        weight = merged_weight(self.weight, self.groups, self._remaining)
        return functional.conv2d(images, weight, self.bias, padding=weight.shape[-1] // 2, groups=self._remaining)


class PairedConvolution(Convolution):
    """A convolution that keeps the size, on pairs of neighbouring pixels; images of an odd width take the usual way."""

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W] to images [B, C, H, W]."""
        batch, channels, height, width = images.shape
        middle = self.weight.shape[-1] // 2
        if width % 2:
            return functional.conv2d(images, self.weight, self.bias, padding=middle, groups=self.groups)
        pairs = images.permute(0, 2, 3, 1).reshape(batch, height, width // 2, 2 * channels)
        weight, bias = paired_weight(self.weight, self.groups), self.bias.repeat(2)
        result = functional.conv2d(pairs.permute(0, 3, 1, 2), weight, bias, padding=(middle, 1))
        return result.permute(0, 2, 3, 1).reshape(batch, height, width, channels).permute(0, 3, 1, 2)


class PixelProduct(Convolution):
    """A 1x1 convolution as one product of matrices, in which each pixel is a row."""

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, C, H, W] to images [B, D, H, W]."""
        pixels = functional.linear(images.permute(0, 2, 3, 1), self.weight.flatten(1), self.bias)
        return pixels.permute(0, 3, 1, 2)


def paired_weight(weight: Tensor, groups: int) -> Tensor:
    """From the weight [D, C / groups, k, k] of a convolution (k 3 or 5), that of the same convolution on pairs.

    It is [2 D, 2 C, k, 3]. Pixel 2 j + p of the result, p 0 or 1, reads pixels 2 j + p - k // 2 to 2 j + p + k // 2, so
    those among the 6 of pairs j - 1, j, j + 1 that begin with the (2 + p - k // 2)-th. The others get zeros.
    """
    if groups > 1:
        weight = merged_weight(weight, groups, 1)
    out, inputs, size, _ = weight.shape
    first = 2 - size // 2
    both = [functional.pad(weight, (first + p, 6 - size - first - p)) for p in (0, 1)]  # [D, C, k, 6]
    places = torch.stack(both).view(2, out, inputs, size, 3, 2)
    return places.permute(0, 1, 5, 2, 3, 4).reshape(2 * out, 2 * inputs, size, 3)


def merged_weight(weight: Tensor, groups: int, remaining: int) -> Tensor:
    """From a weight [D, C / groups, k, k], [D, C / remaining, k, k] of the same convolution in `remaining` groups.

    `remaining` divides `groups`. What it reads that was in another group, it multiplies by zero.
    """
    out, per_group, height, width = weight.shape
    together = groups // remaining
    blocks = weight.view(remaining, together, out // groups, 1, per_group, height, width)
    own = torch.eye(together, dtype=weight.dtype, device=weight.device).view(1, together, 1, together, 1, 1, 1)
    return (blocks * own).view(out, together * per_group, height, width)


def one_after_another(images: Tensor, first: nn.Conv2d, pixelwise: nn.Module) -> Tensor:
    """A convolution of images [B, 1, H, W] that keeps the size, then a 1x1 convolution, as one: [B, D, H, W].

    Both are linear, so the second's weights [D, C] times the first's [C, k x k] are those of the two together. Padding
    is of the images, which come before both.
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
    """Takes over a network of `build_network`, and its parameters and statistics with it."""

    def __init__(self, network: Network, lanes: int | None = None) -> None:
        """lanes: floats in the vector registers that it is for; None: this machine's."""
        super().__init__()
        first, lanes = network.cells[0], lanes or machine_lanes()
        assert isinstance(first, CellModule)
        kept = {network.stem, *first.inputs}  # `forward` makes one of them
        replace_layers(network, lambda layer: None if layer in kept else _faster(layer, lanes))
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 1, 28, 28] to logits [B, 10]."""
        last = images.reshape(-1, IMAGE_SIZE, IMAGE_SIZE, 1).permute(0, 3, 1, 2)  # with one channel, torch cannot tell
        first = self.network.cells[0]
        assert isinstance(first, CellModule)
        a, b = (one_after_another(last, self.network.stem, conv) for conv in first.inputs)
        return self.network.behind_first_cell(*first.outputs(a, b))


def _faster(layer: nn.Module, lanes: int) -> nn.Module | None:
    """The layer in its faster form; None if it has none."""
    if isinstance(layer, nn.MaxPool2d):
        assert isinstance(layer.kernel_size, int)
        return FastMaxPool(layer.kernel_size)
    if isinstance(layer, nn.ReLU):
        return nn.ReLU(inplace=True)
    return rearranged(layer, lanes) if isinstance(layer, nn.Conv2d) else None


def fast_learner(network: Network, schedule: Schedule, draws: Streams, context: TrainingContext) -> Learner:
    """A learner that equals `plain_learner` up to rounding; it takes the network over."""
    optimizer = build_optimizer(network, schedule, fused=True)
    return Learner(FastNetwork(network), optimizer, draws, context, STEPS_AT_ONCE)
