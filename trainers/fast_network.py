"""A network rearranged for CPUs: the same parameters, the same function up to float rounding, in less time.

- Channels last: the values of a pixel lie side by side.
- Convolutions take the form that fills the vector registers, see `fast_convolution.py`.
- The stem and the 1x1 convolutions of the first cell, which read nothing else, are one convolution each.
- Max pools: see `fast_pooling.py`.
"""

from torch import Tensor, nn

from fmnas.trainers.fast_convolution import machine_lanes, one_after_another, rearranged
from fmnas.trainers.fast_pooling import FastMaxPool
from fmnas.trainers.network import IMAGE_SIZE, CellModule, Network, StateModule


class FastNetwork(nn.Module):
    """Takes over a network of `build_network`, and its parameters and statistics with it."""

    def __init__(self, network: Network, lanes: int | None = None) -> None:
        """lanes: floats in the vector registers that it is for; None: this machine's."""
        super().__init__()
        lanes = lanes or machine_lanes()
        for depth, cell in enumerate(network.cells):
            assert isinstance(cell, CellModule)
            for state in _states(cell):
                state.first, state.second = (_rearranged(part, lanes) for part in (state.first, state.second))
            if depth > 0:
                cell.inputs = nn.ModuleList(rearranged(_convolution(conv), lanes) for conv in cell.inputs)
        network.reduction = rearranged(_convolution(network.reduction), lanes)
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 1, 28, 28] to logits [B, 10]."""
        last = images.reshape(-1, IMAGE_SIZE, IMAGE_SIZE, 1).permute(0, 3, 1, 2)  # with one channel, torch cannot tell
        first = self.network.cells[0]
        assert isinstance(first, CellModule)
        a, b = (one_after_another(last, self.network.stem, _convolution(conv)) for conv in first.inputs)
        return self.network.behind_first_cell(*first.outputs(a, b))


def _states(cell: nn.Module) -> list[StateModule]:
    return [module for module in cell.modules() if isinstance(module, StateModule)]


def _rearranged(operation: nn.Module, lanes: int) -> nn.Module:
    """An operation of `network.operation`, in its faster form where it has one."""
    if isinstance(operation, nn.MaxPool2d):
        assert isinstance(operation.kernel_size, int)
        return FastMaxPool(operation.kernel_size)
    if isinstance(operation, nn.Sequential):
        norm, _, conv = operation
        return nn.Sequential(norm, nn.ReLU(inplace=True), rearranged(_convolution(conv), lanes))
    return operation


def _convolution(module: nn.Module) -> nn.Conv2d:
    assert isinstance(module, nn.Conv2d)
    return module
