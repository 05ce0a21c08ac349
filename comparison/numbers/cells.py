"""Configurations that came before: as they stand, or as the same network in another encoding.

Nothing is merged: a repeated evaluation is an evaluation, paid for like any other. This only counts them.

The canonical form of a cell decides, and takes a tenth of a millisecond. Tables hold many thousand cells: so each first
gets a signature, computed for all at once, that the cells of one network share; only cells whose signatures meet need
the form.

| symbol | meaning |
|---|---|
| inputs | [n, 4, 2] the two inputs of each state |
| operations | [n, 4, 2] numbers of the operations on them |
| output | [n] the state that is the first output |
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES, OPERATIONS, STATES, parse_pair

Integers = NDArray[np.int64]
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
    codes = {str(name): pd.factorize(table[name].astype(object))[0] for name in table}
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


def network_numbers(table: pd.DataFrame) -> Integers:
    """A number for each row [n]: equal for two rows exactly when their cells are the same network.

    table: with the columns CELL_NAMES. Raises SpaceError where values describe no cell.
    """
    cells = table[list(CELL_NAMES)]
    _, numbers, counts = np.unique(_signatures(*_parsed(cells)), return_inverse=True, return_counts=True)
    met = counts[numbers] > 1
    equal = cells[met].groupby(list(CELL_NAMES), sort=False).ngroup()
    different = cells[met][~equal.duplicated()].to_dict("records")
    forms = [canonical_form(Cell.from_configuration({str(name): row[name] for name in row})) for row in different]
    numbers[met] = len(counts) + pd.factorize(pd.Series(forms, dtype="object"))[0][equal]
    return numbers


def _parsed(cells: pd.DataFrame) -> tuple[Integers, Integers, Integers]:
    """inputs, operations and output. Raises SpaceError for the first row that describes no cell."""
    firsts = [np.flatnonzero(~cells[name].duplicated()) for name in CELL_NAMES]
    for row in cells.iloc[np.unique(np.concatenate(firsts))].to_dict("records"):
        Cell.from_configuration({str(name): value for name, value in row.items()})  # raises, if any value is none
    pairs = [_column(cells[f"in{state}"], lambda value: parse_pair(str(value))) for state in range(2, STATES + 1)]
    inputs = np.stack([np.broadcast_to((-1, 0), (len(cells), 2)), *pairs], axis=1)
    operations = [
        _column(cells[f"op{i}"], lambda value: OPERATIONS.index(str(value))) for i in range(1, 2 * STATES + 1)
    ]
    return inputs, np.stack(operations, axis=1).reshape(-1, STATES, 2), _column(cells["output"], int)


def _column(column: "pd.Series[Any]", parse: Callable[[Any], Any]) -> Integers:
    codes, distinct = pd.factorize(column.astype(object))
    return np.array([parse(value) for value in distinct])[codes]


def _signatures(inputs: Integers, operations: Integers, output: Integers) -> Integers:
    """A number per cell [n] that no symmetry of the encoding changes (see `canonical_form`).

    What a live state adds up: two operations, each on an input of the cell or on a state. The signature is made of
    these for all live states, and of those for the two outputs, without their order.
    """
    summands = np.sort(2 * operations + (inputs >= 1), axis=2)
    states = _SUMMANDS * summands[:, :, 0] + summands[:, :, 1]
    ends = np.sort(np.stack([states[np.arange(len(output)), output - 1], states[:, -1]], axis=1), axis=1)
    alive = np.sort(np.where(_live(inputs, output), states, _DEAD), axis=1)
    return np.concatenate([alive, ends], axis=1) @ (_DEAD + 1) ** np.arange(STATES + 2)


def _live(inputs: Integers, output: Integers) -> NDArray[np.bool_]:
    """[n, states]: which states reach an output, as `Cell.live_states` has it."""
    cells = np.arange(len(inputs))
    live = np.zeros(inputs.shape[:2], dtype=bool)
    live[cells, output - 1] = live[:, -1] = True
    for state in range(STATES - 1, 0, -1):
        for side in (0, 1):
            source = inputs[:, state, side]
            reached = cells[live[:, state] & (source >= 1)]
            live[reached, source[reached] - 1] = True
    return live
