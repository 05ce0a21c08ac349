"""The network: a stem, three cells, a classifier (BO-FM paper, Sec. 5.3 and Supp. D.2); and its FLOPs.

| part | input | output |
|---|---|---|
| stem: conv 3x3 | B x 1 x 28 x 28 | B x 16 x 28 x 28 |
| cell 1, both inputs are the stem's output | 16 channels | twice B x 8 x 28 x 28 |
| max pool 2x2, stride 2, padding 1; cell 2 | B x 8 x 15 x 15 | twice B x 16 x 15 x 15 |
| max pool 2x2, stride 2, padding 1; cell 3 | B x 16 x 8 x 8 | twice B x 32 x 8 x 8 |
| max pool 2x2, stride 2; concatenation | B x 32 x 8 x 8 | B x 64 x 4 x 4 |
| conv 1x1, ReLU, BatchNorm | B x 64 x 4 x 4 | B x 32 x 4 x 4 |
| fully connected | B x 512 | B x 10 |

A cell's first output, the state `cell.output`, is S(-1) of the next cell; its second, S4, is S(0).
Every convolution has a bias. The largest cell has 279,226 parameters and 35,137,024 multiply-adds per image.

FLOPs per image, by two conventions:

| layer | torch (its FLOP counter) | pthflops (in the paper) |
|---|---|---|
| convolution | 2 per multiply-add | 1 per multiply-add, 1 per output for the bias |
| fully connected | 2 per multiply-add | 1 per multiply-add |
| BatchNorm, ReLU | 0 | 2 per element, each |
| max pool k x k | 0 | k^2 - 1 per output |
| sum of two operations | 0 | 1 per element |
| the largest cell's network | 70,274,048 | 35,720,464 |
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fmnas.search_spaces import Cell, largest_cell
from fmnas.trainers.problem import FlopsConvention
from fmnas.trainers.split import CLASSES, IMAGE_SIZE

STEM_CHANNELS = 16
CELL_CHANNELS = (8, 16, 32)
SEPARABLE_GROUPS = 4  # "separable" convolutions are grouped ones


class Network(nn.Module):
    """The network of a cell, without the states that reach no output.

    Weights are torch's defaults; `build_network` returns a network to train.
    """

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        widths = (STEM_CHANNELS, *CELL_CHANNELS)
        self.stem = nn.Conv2d(1, STEM_CHANNELS, 3, padding=1)
        self.cells = nn.ModuleList(CellModule(cell, a, b) for a, b in pairwise(widths))
        self.reduction: nn.Module = nn.Conv2d(2 * CELL_CHANNELS[-1], CELL_CHANNELS[-1], 1)
        self.norm = nn.BatchNorm2d(CELL_CHANNELS[-1])
        self.classifier = nn.Linear(CELL_CHANNELS[-1] * 4 * 4, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 1, 28, 28] to logits [B, 10]."""
        stem = self.stem(images)
        return self.behind_first_cell(*self.cells[0](stem, stem))

    def behind_first_cell(self, a: Tensor, b: Tensor) -> Tensor:
        """The outputs [B, 8, 28, 28] of the first cell to logits [B, 10]."""
        for cell in self.cells[1:]:
            a, b = cell(*(functional.max_pool2d(x, 2, stride=2, padding=1) for x in (a, b)))
        x = self.join(functional.max_pool2d(a, 2), functional.max_pool2d(b, 2))
        x = self.norm(functional.relu(self.reduction(x)))
        logits: Tensor = self.classifier(x.flatten(1))
        return logits

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """Concatenate the outputs of the last cell along the channels."""
        return torch.cat([a, b], dim=1)


class CellModule(nn.Module):
    """The live states of a cell, and the 1x1 convolutions that map both inputs to the cell's channels."""

    def __init__(self, cell: Cell, in_channels: int, channels: int) -> None:
        super().__init__()
        self.cell = cell
        self.inputs = nn.ModuleList(nn.Conv2d(in_channels, channels, 1) for _ in range(2))
        self.states = nn.ModuleDict(
            {
                str(state): StateModule(*(operation(name, channels) for name in cell.operations[state - 1]))
                for state in cell.live_states()
            }
        )

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs S(-1), S(0) [B, in_channels, H, W] to outputs S(cell.output), S4 [B, channels, H, W]."""
        return self.outputs(self.inputs[0](a), self.inputs[1](b))

    def outputs(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs [B, channels, H, W] behind the 1x1 convolutions to the outputs, of the same shape."""
        values = {-1: a, 0: b}
        for state in self.cell.live_states():
            i, j = self.cell.inputs[state - 1]
            values[state] = self.states[str(state)](values[i], values[j])
        return values[self.cell.output], values[4]


class StateModule(nn.Module):
    """One state: the sum of two operations on two inputs."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Map two inputs [B, channels, H, W] to the state, of the same shape."""
        state: Tensor = self.first(a) + self.second(b)
        return state


def operation(name: str, channels: int) -> nn.Module:
    """The module of one of `OPERATIONS`, which preserves channels, height and width."""
    if name == "identity":
        return nn.Identity()
    kind, size = name.rstrip("0123456789x"), int(name[-1])
    if kind == "maxpool":
        return nn.MaxPool2d(size, stride=1, padding=size // 2)
    groups = SEPARABLE_GROUPS if kind == "sepconv" else 1
    conv = nn.Conv2d(channels, channels, size, padding=size // 2, groups=groups)
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), conv)


def replace_layers(module: nn.Module, change: Callable[[nn.Module], nn.Module | None]) -> None:
    """Replace each layer by change(layer), under the same name; for None, replace inside the layer."""
    for name, layer in module.named_children():
        changed = change(layer)
        if changed is None:
            replace_layers(layer, change)
        else:
            setattr(module, name, changed)


def build_network(cell: Cell, generator: torch.Generator) -> Network:
    """A network on the CPU with weights drawn from `generator`. No other random state is read or changed."""
    with torch.device("meta"):  # so that torch's initialisation draws nothing from the global generator
        network = Network(cell)
    network.to_empty(device="cpu")
    initialise(network, generator)
    return network


def initialise(network: nn.Module, generator: torch.Generator) -> None:
    """Kaiming-normal weights and zero biases; BatchNorm weights U(0, 1), biases 0, initial statistics."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            nn.init.uniform_(module.weight, generator=generator)
            nn.init.zeros_(module.bias)


_aten = torch.ops.aten
PTHFLOPS: dict[Any, Callable[..., int]] = {
    _aten.convolution: lambda x, weight, *_, out_shape, **__: prod(out_shape) * (prod(weight[1:]) + 1),
    _aten.addmm: lambda bias, x, weight, *_, **__: prod(x) * weight[1],
    _aten.native_batch_norm: lambda x, *_, **__: 2 * prod(x),
    _aten._native_batch_norm_legit_no_training: lambda x, *_, **__: 2 * prod(x),  # used by some torch versions
    _aten.relu: lambda x, **_: 2 * prod(x),
    _aten.max_pool2d_with_indices: lambda x, kernel, *_, out_shape: prod(out_shape[0]) * (prod(kernel) - 1),
    _aten.add: lambda x, *_, **__: prod(x),
}
"""As in pthflops 0.4.2 (its JIT path): the FLOPs of an operation from the shapes of its arguments and results."""


@cache
def count_flops(cell: Cell, convention: FlopsConvention = "torch") -> int:
    """FLOPs of the cell's network, by a convention of the table above."""
    with torch.device("meta"):  # shapes only: nothing is computed, and no random state changes
        network, image = Network(cell).eval(), torch.empty(1, 1, IMAGE_SIZE, IMAGE_SIZE)
    mapping = PTHFLOPS if convention == "pthflops" else {}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        network(image)
    return int(counter.get_total_flops())


def flops_ratio(cell: Cell, convention: FlopsConvention = "torch") -> float:
    """FLOPs / FLOPs of the largest cell, by the same convention, in (0, 1]."""
    return count_flops(cell, convention) / count_flops(largest_cell(), convention)
