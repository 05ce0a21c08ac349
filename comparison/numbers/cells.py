"""Configurations that came before: as they stand, or as the same network in another encoding.

Nothing is merged: a repeated evaluation is an evaluation, paid for like any other. This only counts them.

The canonical form of a cell decides, and takes a tenth of a millisecond. Tables hold many thousand cells: so every
distinct one first gets a signature, computed for all at once, that the cells of one network share; only cells whose
signatures meet need the form.

| symbol | meaning |
|---|---|
| digits | [n, 12] a cell by the columns CELL_NAMES: operations, the place of each pair of inputs in PAIRS, output - 1 |
| inputs | [n, 4, 2] the two inputs of each state |
| operations | [n, 4, 2] numbers of the operations on them |
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES, OPERATIONS, STATES, Pair, pair_name

Integers = NDArray[np.int64]
PAIRS: tuple[tuple[Pair, ...], ...] = tuple(tuple(combinations(range(-1, state), 2)) for state in range(1, STATES + 1))
"""The pairs of inputs that S1 to S4 may have."""
_OPERATION_COUNT = 2 * STATES
_CHOICES = (
    *[{name: number for number, name in enumerate(OPERATIONS)}] * _OPERATION_COUNT,
    *({pair_name(pair): number for number, pair in enumerate(pairs)} for pairs in PAIRS[1:]),
    {str(state): state - 1 for state in range(1, STATES)},
)
"""For each of CELL_NAMES: a value as text, and its digit."""
_SUMMANDS = 2 * len(OPERATIONS)
_DEAD = _SUMMANDS**2
"""One more than the largest number of a live state."""


@dataclass(frozen=True)
class Duplicates:
    """How many configurations of a list repeat an earlier one.

    exact: they equal it in every value.
    isomorphic: they do not, but their cells have the same canonical form and all other values are equal.
    """

    exact: int
    isomorphic: int


def has_cell(columns: Iterable[str]) -> bool:
    """Whether the variables include those of the cell."""
    return set(CELL_NAMES) <= set(columns)


def duplicates(configurations: Sequence[Mapping[str, Any]] | pd.DataFrame) -> Duplicates:
    """Count them, in the order given. Configurations without a cell have no isomorphic duplicates.

    configurations: mappings with the same names, or a table with a column per name.
    Raises SpaceError where values describe no cell.
    """
    return count_duplicates(pd.DataFrame(configurations))[0]


def count_duplicates(table: pd.DataFrame, beside_cell: Sequence[str] = ()) -> tuple[Duplicates, Duplicates]:
    """The duplicates among the rows, and among the rows' cells with the columns `beside_cell` alone.

    Without a cell the second are none. The networks are told apart once for both: that is what takes the time.
    """
    codes = {str(name): _codes(table[name]) for name in table}
    if not len(table) or not has_cell(codes):
        return _count(codes, None), Duplicates(0, 0)
    networks = network_numbers(table)
    cells = {name: codes[name] for name in (*beside_cell, *CELL_NAMES)}
    return _count(codes, networks), _count(cells, networks)


def _count(codes: Mapping[str, NDArray[np.intp]], networks: NDArray[np.intp] | None) -> Duplicates:
    """Of rows given as numbers: equal ones are equal values. networks: the number of each row's network."""
    seen = pd.DataFrame(codes).duplicated()
    if networks is None:
        return Duplicates(int(seen.sum()), 0)
    others = {name: of for name, of in codes.items() if name not in CELL_NAMES}
    alike = pd.DataFrame({**others, "network": networks}).duplicated()
    return Duplicates(int(seen.sum()), int((alike & ~seen).sum()))


def _codes(column: "pd.Series[Any]") -> NDArray[np.intp]:
    return pd.factorize(column.astype(object))[0]


def network_numbers(table: pd.DataFrame) -> Integers:
    """A number for each row [n]: equal for two rows exactly when their cells are the same network.

    table: with the columns CELL_NAMES. Raises SpaceError where values describe no cell.
    """
    digits = _digits(table)
    bases = np.array([len(choices) for choices in _CHOICES])
    _, rows, cell_of_row = np.unique(
        digits @ np.append(1, np.cumprod(bases[:-1])), return_index=True, return_inverse=True
    )
    _, group, counts = np.unique(_signatures(digits[rows]), return_inverse=True, return_counts=True)
    forms: dict[Any, int] = {}
    numbers = np.empty(len(rows), dtype=np.int64)
    for i, row in enumerate(rows):
        alone = counts[group[i]] == 1
        network = int(group[i]) if alone else canonical_form(_cell(digits[row]))
        numbers[i] = forms.setdefault(network, len(forms))
    return numbers[cell_of_row]


def _digits(table: pd.DataFrame) -> Integers:
    """Raises SpaceError for a row that describes no cell."""
    columns = [_column(table[name], choices) for name, choices in zip(CELL_NAMES, _CHOICES, strict=True)]
    digits = np.stack(columns, axis=1)
    for row in np.flatnonzero((digits < 0).any(axis=1)):  # no cell, or one written in another way
        digits[row] = _digits_of(Cell.from_configuration({name: table[name].iloc[row] for name in CELL_NAMES}))
    return digits


def _column(column: "pd.Series[Any]", choices: dict[str, int]) -> Integers:
    """The digits of a column; -1 for a value that is none of the choices."""
    codes, distinct = pd.factorize(column.astype(object))
    return np.array([*(choices.get(str(value), -1) for value in distinct), -1], dtype=np.int64)[codes]


def _digits_of(cell: Cell) -> list[int]:
    operations = [OPERATIONS.index(name) for pair in cell.operations for name in pair]
    return [*operations, *(PAIRS[s].index(cell.inputs[s]) for s in range(1, STATES)), cell.output - 1]


def _cell(digits: Integers) -> Cell:
    names = [OPERATIONS[number] for number in digits[:_OPERATION_COUNT]]
    pairs = [PAIRS[s][number] for s, number in enumerate(digits[_OPERATION_COUNT:-1], start=1)]
    return Cell((*PAIRS[0], *pairs), tuple(zip(names[::2], names[1::2], strict=True)), int(digits[-1]) + 1)


def _signatures(digits: Integers) -> Integers:
    """A number per cell [n] that no symmetry of the encoding changes (see `canonical_form`).

    What a live state adds up: two operations, each on an input of the cell or on a state. The signature is made of
    these for all live states, and of those for the two outputs, without their order.
    """
    cells = np.arange(len(digits))
    operations = digits[:, :_OPERATION_COUNT].reshape(-1, STATES, 2)
    chosen = np.concatenate([np.zeros((len(digits), 1), dtype=np.int64), digits[:, _OPERATION_COUNT:-1]], axis=1)
    inputs = np.stack([np.array(PAIRS[s])[chosen[:, s]] for s in range(STATES)], axis=1)
    output = digits[:, -1]
    summands = np.sort(2 * operations + (inputs >= 1), axis=2)
    states = _SUMMANDS * summands[:, :, 0] + summands[:, :, 1]
    ends = np.sort(np.stack([states[cells, output], states[:, -1]], axis=1), axis=1)
    alive = np.sort(np.where(_live(inputs, output), states, _DEAD), axis=1)
    return np.concatenate([alive, ends], axis=1) @ (_DEAD + 1) ** np.arange(STATES + 2)


def _live(inputs: Integers, output: Integers) -> NDArray[np.bool_]:
    """[n, states]: which states reach an output, as `Cell.live_states` has it; output: the state before it."""
    cells = np.arange(len(inputs))
    live = np.zeros(inputs.shape[:2], dtype=bool)
    live[cells, output] = live[:, -1] = True
    for state in range(STATES - 1, 0, -1):
        for side in (0, 1):
            source = inputs[:, state, side]
            reached = cells[live[:, state] & (source >= 1)]
            live[reached, source[reached] - 1] = True
    return live
