"""Networks of one cell as one network: what they compute, each with its own weights, in one program.

Images of S networks lie side by side as channels, those of the first network first: [B, S x C, H, W]. So

- a convolution with g groups becomes one with S x g groups,
- BatchNorm, ReLU, pools and sums, which treat each channel alone, stay as they are, on S x C channels,
- the fully connected layer becomes a product of S pairs of matrices.

All weights of all networks are one vector, so that an optimizer's step is a few operations whatever the cell. No weight
and no gradient of one network depends on another's numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fmnas.search_spaces import Cell
from fmnas.trainers.images.network import Network, replace_layers


class Stack:
    """Networks of the same cell, taken over as one.

    weights [N]: every parameter of every network; a leaf that gradients are taken of. Of each parameter, the networks'
    values follow each other. owner [N] int32: the number of the network that a weight belongs to.
    statistics: BatchNorm's running means and variances, [S x C] each, by name.
    """

    def __init__(self, networks: Sequence[Network], cell: Cell, device: torch.device) -> None:
        """networks: at least one, each of this cell."""
        self.seeds = len(networks)
        with torch.device("meta"):  # shapes alone: the numbers are `weights`
            self._network = StackedNetwork(cell, self.seeds)
        self._parts = {name: part.shape for name, part in self._network.named_parameters()}
        states = [network.state_dict() for network in networks]
        self.weights = torch.cat([_side_by_side(states, name).flatten() for name in self._parts])
        self.weights = self.weights.to(device).requires_grad_()
        numbers = torch.arange(self.seeds, dtype=torch.int32, device=device)
        counts = [shape.numel() for shape in self._parts.values()]
        self.owner = torch.cat([numbers.repeat_interleave(count // self.seeds) for count in counts])
        self.statistics = {name: _side_by_side(states, name).to(device) for name, _ in self._network.named_buffers()}

    def __call__(self, images: Tensor) -> Tensor:
        """Images [B, S, 28, 28], one of each network, to logits [S, B, 10]."""
        logits: Tensor = functional_call(self._network, {**dict(self.named_weights()), **self.statistics}, (images,))
        return logits

    def train(self, training: bool = True) -> None:
        """Whether BatchNorm takes the statistics of the batch (and learns them) or those that it has learned."""
        self._network.train(training)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters as the network takes them: parts of `weights`."""
        sizes = [shape.numel() for shape in self._parts.values()]
        for (name, shape), part in zip(self._parts.items(), self.weights.split(sizes), strict=True):
            yield name, part.view(shape)


class StackedNetwork(Network):
    """A `Network` on the images of several networks: [B, S, 28, 28] to logits [S, B, 10]."""

    def __init__(self, cell: Cell, seeds: int) -> None:
        super().__init__(cell)
        self._seeds = seeds
        replace_layers(self, partial(_wide, seeds=seeds))

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """The two outputs [B, S x C, H, W] of the last cell, network after network: [B, S x 2C, H, W]."""
        both = [part.unflatten(1, (self._seeds, -1)) for part in (a, b)]
        return torch.cat(both, dim=2).flatten(1, 2)


class StackedLinear(nn.Module):
    """A fully connected layer of each of S networks: [B, S x I] to [S, B, O]."""

    def __init__(self, layer: nn.Linear, seeds: int) -> None:
        super().__init__()
        self._shape = (seeds, layer.out_features, layer.in_features)
        self.weight = nn.Parameter(torch.empty(seeds * layer.out_features, layer.in_features))
        self.bias = nn.Parameter(torch.empty(seeds * layer.out_features))

    def forward(self, numbers: Tensor) -> Tensor:
        """Numbers [B, S x I] to [S, B, O]."""
        seeds, outputs, inputs = self._shape
        each = numbers.view(-1, seeds, inputs).transpose(0, 1)  # [S, B, I]
        weight = self.weight.view(self._shape).transpose(1, 2)
        return torch.baddbmm(self.bias.view(seeds, 1, outputs), each, weight)


def _side_by_side(states: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
    """A parameter or a statistic of all networks, one after the other along its first dimension."""
    return torch.cat([state[name] for state in states])


def _wide(layer: nn.Module, seeds: int) -> nn.Module | None:
    """The layer for `seeds` networks in the place of that for one; None if it serves them as it is."""
    if isinstance(layer, nn.Conv2d):
        size, padding = layer.kernel_size[0], layer.padding[0]
        assert isinstance(padding, int)
        inputs, outputs = seeds * layer.in_channels, seeds * layer.out_channels
        return nn.Conv2d(inputs, outputs, size, padding=padding, groups=seeds * layer.groups)
    if isinstance(layer, nn.BatchNorm2d):
        norm = nn.BatchNorm2d(seeds * layer.num_features, layer.eps, layer.momentum)
        norm.num_batches_tracked = None  # it decides nothing here, and counting costs an operation a layer
        return norm
    if isinstance(layer, nn.Linear):
        return StackedLinear(layer, seeds)
    if isinstance(layer, nn.ReLU):
        return nn.ReLU(inplace=True)  # behind BatchNorm, whose derivative needs its input alone
    return None
