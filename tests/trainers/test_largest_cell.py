"""No cell has more FLOPs than the chain of 5x5 convolutions: the denominator of `flops_ratio` is the maximum.

1. FLOPs are a constant plus a price for each operation of each live state, which depends on the operation and stage.
2. At every stage conv5x5 costs most, so replacing any operation by it never lowers the FLOPs.
3. With conv5x5 everywhere, none of the 486 wirings exceeds the chain.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from fmnas.search_spaces import Cell, joint_space, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS, input_pairs
from fmnas.trainers.images.model import operation
from fmnas.trainers.images.network import count_flops, flops_ratio

pytestmark = pytest.mark.slow

STAGES = ((8, 28), (16, 15), (32, 8))  # channels, height and width of the three cells
WIRINGS = tuple(product(input_pairs(2), input_pairs(3), input_pairs(4), (1, 2, 3)))
MOST = 70_274_048


def price(name: str, channels: int, size: int) -> int:
    """FLOPs of an operation on [1, channels, size, size]: two per multiply-add of its convolution."""
    if "conv" not in name:
        return 0
    groups = 4 if name.startswith("sepconv") else 1
    return 2 * (channels * channels // groups) * int(name[-1]) ** 2 * size**2


def prices(name: str) -> int:
    """FLOPs of an operation in the three cells."""
    return sum(price(name, *stage) for stage in STAGES)


def constant() -> int:
    """FLOPs of stem, 1x1 convolutions at the cells' inputs, and classifier."""
    widths = (16, 8, 16, 32)
    inputs = sum(2 * 2 * widths[i] * channels * size**2 for i, (channels, size) in enumerate(STAGES))
    return 2 * 16 * 9 * 28**2 + inputs + 2 * 64 * 32 * 4**2 + 2 * 32 * 4**2 * 10


def expected_flops(cell: Cell) -> int:
    return constant() + sum(prices(op) for state in cell.live_states() for op in cell.operations[state - 1])


def random_cell(seed: int) -> Cell:
    return Cell.from_configuration(joint_space().sample(np.random.default_rng(seed)))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_price_of_an_operation_is_that_of_the_counter(name: str, stage: tuple[int, int]) -> None:
    channels, size = stage
    with torch.device("meta"):
        module, image = operation(name, channels).eval(), torch.empty(1, channels, size, size)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(image)
    assert price(name, channels, size) == counter.get_total_flops()
    assert price(name, channels, size) <= price("conv5x5", channels, size)


@pytest.mark.parametrize("seed", range(6))
def test_flops_are_a_constant_and_the_prices_of_live_operations(seed: int) -> None:
    cell = random_cell(seed)
    assert count_flops(cell) == expected_flops(cell)
    assert 0 < flops_ratio(cell) <= flops_ratio(largest_cell()) == 1.0
    heaviest = count_flops(replace(cell, operations=largest_cell().operations), "pthflops")
    assert count_flops(cell, "pthflops") <= heaviest <= count_flops(largest_cell(), "pthflops")


def test_no_wiring_of_the_heaviest_operation_exceeds_the_chain() -> None:
    cells = [Cell(((-1, 0), *wiring[:3]), largest_cell().operations, wiring[3]) for wiring in WIRINGS]
    assert len(set(cells)) == 486
    assert (
        max(expected_flops(cell) for cell in cells)
        == expected_flops(largest_cell())
        == count_flops(largest_cell())
        == MOST
    )
    for cell in cells:
        assert (expected_flops(cell) == MOST) == (len(cell.live_states()) == 4)
    for cell in cells[::40]:
        assert expected_flops(cell) == count_flops(cell)
