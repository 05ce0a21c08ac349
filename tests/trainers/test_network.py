"""The network: parameters and FLOPs of six known cells, wiring against a slow reference, initialisation."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from fmnas.search_spaces import Cell, joint_space, largest_cell
from fmnas.trainers.images.model import Network, operation
from fmnas.trainers.images.network import build_network, count_flops, flops_ratio


def cell_of(inputs: str, operations: str, output: int) -> Cell:
    """From digits, with 9 for -1, and names of operations."""
    numbers = [-1 if digit == "9" else int(digit) for digit in inputs if digit != " "]
    names = operations.split()
    pairs = tuple(zip(numbers[::2], numbers[1::2], strict=True)), tuple(zip(names[::2], names[1::2], strict=True))
    return Cell(*pairs, output)


RND0 = "conv3x3 identity conv5x5 identity identity sepconv5x5 conv3x3 conv5x5"
RND1 = "conv1x1 conv3x3 maxpool5x5 maxpool3x3 sepconv3x3 sepconv3x3 maxpool3x3 identity"
RND2 = "conv1x1 conv3x3 conv3x3 conv3x3 conv1x1 conv5x5 identity maxpool3x3"
RND3 = "sepconv5x5 conv3x3 conv5x5 maxpool3x3 conv5x5 conv1x1 sepconv5x5 sepconv3x3"
RND4 = "conv1x1 sepconv5x5 sepconv3x3 sepconv3x3 identity conv1x1 sepconv3x3 maxpool5x5"
KNOWN = {
    "largest": (largest_cell(), 279_226, 70_274_048, 35_720_464, (1, 2, 3, 4)),
    "rnd0": (cell_of("90 91 90 01", RND0, 2), 109_714, 24_519_680, 12_592_960, (1, 2, 4)),
    "rnd1": (cell_of("90 91 90 13", RND1, 3), 29_242, 5_975_296, 3_416_128, (1, 3, 4)),
    "rnd2": (cell_of("90 01 02 03", RND2, 2), 82_666, 19_666_944, 10_393_072, (1, 2, 3, 4)),
    "rnd3": (cell_of("90 90 90 91", RND3, 3), 110_722, 18_193_792, 9_549_216, (1, 3, 4)),
    "rnd4": (cell_of("90 01 90 93", RND4, 2), 30_250, 6_148_608, 3_824_624, (1, 2, 3, 4)),
}
"""Parameters (of dead states, too), FLOPs, FLOPs by pthflops 0.4.2 and live states, computed with the authors' code."""
known_cells = pytest.mark.parametrize("name", KNOWN)


def network_of(cell: Cell, seed: int = 0) -> Network:
    return build_network(cell, torch.Generator().manual_seed(seed))


def random_cells(count: int, seed: int) -> list[Cell]:
    rng, space = np.random.default_rng(seed), joint_space()
    return [Cell.from_configuration(space.sample(rng)) for _ in range(count)]


def parameters_by_hand(name: str) -> int:
    """Parameters of an operation in all three cells: BatchNorm's two per channel, weights, biases."""
    if "conv" not in name:
        return 0
    size, groups = int(name[-1]), 4 if name.startswith("sep") else 1
    return sum(2 * c + c * c // groups * size**2 + c for c in (8, 16, 32))


@known_cells
def test_parameters_are_the_authors_without_those_of_dead_states(name: str) -> None:
    cell, everything, *_, live = KNOWN[name]
    assert cell.live_states() == live
    dead = [state for state in (1, 2, 3, 4) if state not in live]
    expected = everything - sum(parameters_by_hand(op) for state in dead for op in cell.operations[state - 1])
    network = network_of(cell)
    assert sum(parameter.numel() for parameter in network.parameters()) == expected
    for module in network.cells:
        assert tuple(int(state) for state in module.states) == live


@known_cells
def test_flops_are_the_authors(name: str) -> None:
    cell, _, flops, pthflops, _ = KNOWN[name]
    assert count_flops(cell) == flops
    assert flops_ratio(cell) == flops / 70_274_048
    assert count_flops(cell, "pthflops") == pthflops
    assert flops_ratio(cell, "pthflops") == pthflops / 35_720_464


def apply_slowly(module: nn.Module, name: str, x: Tensor) -> Tensor:
    """An operation in plain torch, with the module's weights; BatchNorm uses the statistics of the batch."""
    if name == "identity":
        return x
    size = int(name[-1])
    if name.startswith("maxpool"):
        return functional.max_pool2d(x, size, 1, size // 2)
    norm, _, conv = module.children()
    x = functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True).relu()
    groups = 4 if name.startswith("sepconv") else 1
    return functional.conv2d(x, conv.weight, conv.bias, padding=size // 2, groups=groups)


def forward_slowly(network: Network, cell: Cell, x: Tensor) -> Tensor:
    """The network in plain torch, with all four states of each cell; dead ones get new weights."""
    x = functional.conv2d(x, network.stem.weight, network.stem.bias, padding=1)
    outputs = (x, x)
    for depth, module in enumerate(network.cells):
        width = (8, 16, 32)[depth]
        if depth > 0:
            outputs = tuple(functional.max_pool2d(y, 2, 2, 1) for y in outputs)
        values = {-1: module.inputs[0](outputs[0]), 0: module.inputs[1](outputs[1])}
        for state in (1, 2, 3, 4):
            names = cell.operations[state - 1]
            if str(state) in module.states:
                built = [module.states[str(state)].first, module.states[str(state)].second]
            else:
                built = [operation(name, width) for name in names]
            values[state] = sum(
                apply_slowly(op, name, values[source])
                for op, name, source in zip(built, names, cell.inputs[state - 1], strict=True)
            )
        outputs = (values[cell.output], values[4])
    x = torch.cat([functional.max_pool2d(y, 2, 2) for y in outputs], 1)
    x = functional.conv2d(x, network.reduction.weight, network.reduction.bias).relu()
    x = functional.batch_norm(x, None, None, network.norm.weight, network.norm.bias, training=True)
    return functional.linear(x.reshape(len(x), -1), network.classifier.weight, network.classifier.bias)


@pytest.mark.parametrize("cell", [*(entry[0] for entry in KNOWN.values()), *random_cells(2, seed=1)])
def test_the_network_is_the_function_of_all_four_states(cell: Cell) -> None:
    images = torch.randn(3, 1, 28, 28, generator=torch.Generator().manual_seed(2))
    network = network_of(cell).train()
    with torch.no_grad():
        torch.testing.assert_close(network(images), forward_slowly(network, cell, images), rtol=1e-4, atol=1e-4)


def test_initialisation() -> None:
    network = network_of(largest_cell())
    last = network.cells[2].states["4"]
    conv = last.first[2]
    assert conv.weight.std().item() == pytest.approx(math.sqrt(2 / (32 * 25)), rel=0.02)
    assert abs(conv.weight.mean().item()) < 0.001
    assert network.classifier.weight.std().item() == pytest.approx(math.sqrt(2 / 512), rel=0.04)
    norms = torch.cat([m.weight for m in network.modules() if isinstance(m, nn.BatchNorm2d)])
    assert len(norms) == 8 * (8 + 16 + 32) + 32
    assert 0 <= norms.min() < 0.02
    assert 0.98 < norms.max() < 1
    assert norms.mean().item() == pytest.approx(0.5, abs=0.05)
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d):
            assert not module.bias.any()
        if isinstance(module, nn.BatchNorm2d):
            assert not module.running_mean.any()
            assert (module.running_var == 1).all()
            assert module.num_batches_tracked == 0


def test_weights_depend_on_the_generator_only() -> None:
    state = torch.get_rng_state()
    one, same, other = network_of(largest_cell(), 1), network_of(largest_cell(), 1), network_of(largest_cell(), 2)
    count_flops.cache_clear()
    count_flops(largest_cell())
    assert torch.equal(state, torch.get_rng_state())
    for a, b in zip(one.state_dict().values(), same.state_dict().values(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.stem.weight, other.stem.weight)
