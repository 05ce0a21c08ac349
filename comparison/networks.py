"""Which rows of a table hold the same network, for tables of many thousand cells.

The canonical form of a cell decides, and takes a tenth of a millisecond. So every distinct cell first gets a signature,
computed for all at once, that the cells of one network share; only cells whose signatures meet need the form.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.cell import CELL_NAMES, OPERATIONS, STATES

Integers = NDArray[np.intp]

_OPERATION = {name: number for number, name in enumerate(OPERATIONS)}
_SUMMANDS = 2 * len(OPERATIONS)
_DEAD = _SUMMANDS**2
"""One more than the largest number of a live state."""


def network_numbers(table: pd.DataFrame) -> Integers:
    """A number for each row [n]: equal for two rows exactly when their cells are the same network.

    table: with the columns CELL_NAMES. Raises SpaceError where values describe no cell.
    """
    cells = table[list(CELL_NAMES)].astype(object)
    first = cells.drop_duplicates()
    distinct = cells.groupby(list(CELL_NAMES), sort=False, dropna=False).ngroup().to_numpy()
    configurations = [dict(zip(CELL_NAMES, row, strict=True)) for row in first.itertuples(index=False)]
    decoded = [Cell.from_configuration(configuration) for configuration in configurations]
    return _network_of_each(decoded)[distinct]


def _network_of_each(cells: list[Cell]) -> Integers:
    signatures, counts = np.unique(_signatures(cells), return_inverse=True, return_counts=True)[1:]
    forms: dict[Any, int] = {}
    numbers = []
    for cell, signature in zip(cells, signatures, strict=True):
        network = canonical_form(cell) if counts[signature] > 1 else int(signature)
        numbers.append(forms.setdefault(network, len(forms)))
    return np.array(numbers, dtype=np.intp)


def _signatures(cells: list[Cell]) -> NDArray[np.int64]:
    """A number per cell that no symmetry of the encoding changes (see `canonical_form`).

    What a live state adds up: two operations, each on an input of the cell or on a state. The signature is made of
    these for all live states, and of those for the two outputs, without their order.
    """
    inputs = np.array([cell.inputs for cell in cells], dtype=np.int64)  # [n, states, 2]
    operations = np.array([[[_OPERATION[p] for p in pair] for pair in cell.operations] for cell in cells])
    outputs = np.array([cell.output for cell in cells])
    summands = np.sort(2 * operations + (inputs >= 1), axis=2)
    states = _SUMMANDS * summands[:, :, 0] + summands[:, :, 1]
    ends = np.sort(np.stack([states[np.arange(len(cells)), outputs - 1], states[:, -1]], axis=1), axis=1)
    alive = np.sort(np.where(_live(inputs, outputs), states, _DEAD), axis=1)
    digits = np.concatenate([alive, ends], axis=1)
    return digits @ (_DEAD + 1) ** np.arange(STATES + 2)


def _live(inputs: NDArray[np.int64], outputs: NDArray[np.int64]) -> NDArray[np.bool_]:
    """[n, states]: which states reach an output, as `Cell.live_states` has it."""
    rows = np.arange(len(inputs))
    live = np.zeros(inputs.shape[:2], dtype=bool)
    live[rows, outputs - 1] = live[:, -1] = True
    for state in range(STATES - 1, 0, -1):
        for side in (0, 1):
            source = inputs[:, state, side]
            reached = rows[live[:, state] & (source >= 1)]
            live[reached, source[reached] - 1] = True
    return live
