"""The NASNet cell: the edge rule, the number of architectures, live states against brute force."""

import json
import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Cell, Space, SpaceError, joint_space
from fmnas.search_spaces.nasnet import (
    CELL_NAMES,
    OPERATIONS,
    cell_variables,
    input_pairs,
    is_adjacent,
)

GOLDEN = json.loads((Path(__file__).parent / "golden_graphs.json").read_text())
CELL_SPACE = Space(cell_variables())


def test_number_of_architectures() -> None:
    count = math.prod(len(v.vertices) for v in joint_space().discrete)
    assert count == 8_153_726_976 == GOLDEN["architectures"]


def test_edge_rule_moves_one_input_by_one() -> None:
    for a, b in combinations(input_pairs(4), 2):
        moves = {frozenset((x + step, y)) for x, y in (a, a[::-1]) for step in (-1, 1) if x + step != y}
        assert is_adjacent(a, b) == (frozenset(b) in moves)


def test_cell_variables_in_order() -> None:
    assert list(CELL_NAMES) == [*(f"op{i}" for i in range(1, 9)), "in2", "in3", "in4", "output"]
    assert {v.vertices for v in cell_variables()[:8]} == {OPERATIONS}
    assert cell_variables()[-1].vertices == (1, 2, 3)
    np.testing.assert_array_equal(cell_variables()[-1].adjacency, GOLDEN["path3"]["adjacency"])


def _configuration(**changes: Any) -> dict[str, Any]:
    operations = {f"op{i}": OPERATIONS[i - 1] for i in range(1, 9)}
    return {**operations, "in2": "0,1", "in3": "-1,2", "in4": "1,3", "output": 2, **changes}


def test_a_cell_is_read_from_a_configuration() -> None:
    cell = Cell.from_configuration({**_configuration(), "learning_rate": 0.1})
    assert cell.inputs == ((-1, 0), (0, 1), (-1, 2), (1, 3))
    assert cell.operations == (
        ("identity", "conv1x1"),
        ("conv3x3", "conv5x5"),
        ("sepconv3x3", "sepconv5x5"),
        ("maxpool3x3", "maxpool5x5"),
    )
    assert cell.output == 2


@pytest.mark.parametrize(
    ("wiring", "live"),
    [
        ({"in2": "0,1", "in3": "1,2", "in4": "2,3", "output": 3}, (1, 2, 3, 4)),
        ({"in2": "-1,0", "in3": "-1,0", "in4": "-1,1", "output": 1}, (1, 4)),
        ({"in2": "-1,0", "in3": "-1,0", "in4": "-1,2", "output": 3}, (2, 3, 4)),
        ({"in2": "-1,0", "in3": "-1,2", "in4": "0,3", "output": 3}, (2, 3, 4)),
        ({"in2": "0,1", "in3": "-1,0", "in4": "0,1", "output": 2}, (1, 2, 4)),
        ({"in2": "0,1", "in3": "-1,0", "in4": "0,3", "output": 3}, (3, 4)),
    ],
)
def test_live_states_of_examples(wiring: dict[str, Any], live: tuple[int, ...]) -> None:
    assert Cell.from_configuration(_configuration(**wiring)).live_states() == live


def _feeds(cell: Cell, source: int, target: int) -> bool:
    """Whether data flows from state `source` into state `target`, by following every path forward."""
    if source == target:
        return True
    return any(_feeds(cell, user, target) for user in range(source + 1, 5) if source in cell.inputs[user - 1])


@given(seed=st.integers(0, 2**32))
def test_live_states_are_those_that_reach_an_output(seed: int) -> None:
    cell = Cell.from_configuration(CELL_SPACE.sample(np.random.default_rng(seed)))
    expected = tuple(s for s in (1, 2, 3, 4) if _feeds(cell, s, cell.output) or _feeds(cell, s, 4))
    assert cell.live_states() == expected


OPS = (("identity", "identity"),) * 4
CHAIN = ((-1, 0), (0, 1), (1, 2), (2, 3))


@pytest.mark.parametrize(
    ("inputs", "operations", "output"),
    [
        (CHAIN, OPS, 4),
        (CHAIN[:3], OPS, 1),
        (CHAIN, OPS[:3], 1),
        (CHAIN, (("identity", "conv7x7"), *OPS[1:]), 1),
        (((-1, 0), (0, 2), (1, 2), (2, 3)), OPS, 1),
        (((-1, 0), (1, 0), (1, 2), (2, 3)), OPS, 1),
        (((-2, 0), (0, 1), (1, 2), (2, 3)), OPS, 1),
    ],
)
def test_invalid_cells_are_refused(inputs: Any, operations: Any, output: int) -> None:
    with pytest.raises(SpaceError, match="a cell has 4 states"):
        Cell(inputs, operations, output)
