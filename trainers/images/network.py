"""Building the network of a cell to train, and counting its FLOPs.

The largest cell has 279,226 parameters and 35,137,024 multiply-adds per image. FLOPs per image, by two conventions:

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
from math import prod
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fmnas.search_spaces import Cell, largest_cell
from fmnas.trainers.images.model import Network
from fmnas.trainers.problem import FlopsConvention
from fmnas.trainers.split import IMAGE_SIZE


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
        network = Network(cell.states, cell.output)
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
"""The FLOPs of an operation from the shapes of its arguments and results, as in pthflops 0.4.2.

That is its JIT path. Its FX path also counts what reaches no output.
"""


@cache
def count_flops(cell: Cell, convention: FlopsConvention = "torch") -> int:
    """FLOPs of the cell's network, by a convention of the table above."""
    with torch.device("meta"):  # shapes only: nothing is computed, and no random state changes
        network, image = Network(cell.states, cell.output).eval(), torch.empty(1, 1, IMAGE_SIZE, IMAGE_SIZE)
    mapping = PTHFLOPS if convention == "pthflops" else {}
    with torch.no_grad(), FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        network(image)
    return int(counter.get_total_flops())


def flops_ratio(cell: Cell, convention: FlopsConvention = "torch") -> float:
    """FLOPs / FLOPs of the largest cell, by the same convention, in (0, 1]."""
    return count_flops(cell, convention) / count_flops(largest_cell(), convention)
