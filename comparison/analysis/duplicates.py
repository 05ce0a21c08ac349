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
Coded = dict[str, tuple[NDArray[np.intp], NDArray[Any]]]
"""Of each column its codes, and the values that these stand for."""
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
    values = {name: table[name].to_numpy(dtype=object) for name in CELL_NAMES}
    coded: Coded = {name: pd.factorize(column, use_na_sentinel=False) for name, column in values.items()}

    def cell(row: int) -> Cell:
        return Cell.from_configuration({name: column[row] for name, column in values.items()})

    firsts = [np.diff(np.maximum.accumulate(codes), prepend=-1) for codes, _ in coded.values()]
    for row in np.flatnonzero(np.any(firsts, axis=0)).tolist():  # every value, where it first is
        cell(row)  # raises, if it is none
    _, numbers, counts = np.unique(_signatures(*_parsed(coded)), return_inverse=True, return_counts=True)
    met = np.flatnonzero(counts[numbers] > 1)
    exact = np.ravel_multi_index([codes for codes, _ in coded.values()], [len(given) for _, given in coded.values()])
    _, different, equal = np.unique(exact[met], return_index=True, return_inverse=True)
    forms = pd.Series([canonical_form(cell(row)) for row in met[different].tolist()], dtype="object")
    numbers[met] = len(counts) + pd.factorize(forms)[0][equal]
    return numbers


def _parsed(coded: Coded) -> tuple[Integers, Integers, Integers]:
    """inputs, operations and output."""

    def column(name: str, parse: Callable[[Any], Any]) -> Integers:
        codes, given = coded[name]
        return np.array([parse(value) for value in given])[codes]

    pairs = [column(f"in{state}", lambda value: parse_pair(str(value))) for state in range(2, STATES + 1)]
    inputs = np.stack([np.broadcast_to((-1, 0), pairs[0].shape), *pairs], axis=1)
    operations = [column(f"op{i}", lambda value: OPERATIONS.index(str(value))) for i in range(1, 2 * STATES + 1)]
    return inputs, np.stack(operations, axis=1).reshape(-1, STATES, 2), column("output", int)


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
