"""Configurations that came before: as they stand, or as the same network in another encoding.

Nothing is merged: a repeated evaluation is an evaluation, paid for like any other. This only counts them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.networks import network_numbers
from fmnas.search_spaces.nasnet import CELL_NAMES


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
