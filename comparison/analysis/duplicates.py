"""Counts of repeated configurations: equal in every value, or the same network in a different encoding.

Duplicates are only counted. A repeated evaluation costs budget as any other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES

Codes = NDArray[np.intp]
"""[n], integers that are equal where the values are equal."""


@dataclass(frozen=True)
class Duplicates:
    """How many configurations of a list repeat an earlier one.

    exact: equal in every value.
    isomorphic: not equal, but the cells have the same canonical form and all other values are equal.
    """

    exact: int
    isomorphic: int


def has_cell(columns: Iterable[str]) -> bool:
    """Whether the variables include those of the cell."""
    return set(CELL_NAMES) <= set(columns)


def duplicates(configurations: Sequence[Mapping[str, Any]] | pd.DataFrame) -> Duplicates:
    """Count the duplicates, in the given order. Only configurations with a cell have isomorphic duplicates.

    configurations: mappings with the same names, or a table with a column per name.
    Raises SpaceError for values that do not describe a cell.
    """
    return count_duplicates(pd.DataFrame(configurations))[0]


def count_duplicates(table: pd.DataFrame, beside_cell: Sequence[str] = ()) -> tuple[Duplicates, Duplicates]:
    """Count the duplicates among the rows, and among the rows' cells together with the columns `beside_cell`.

    The second counts are 0 without a cell.
    """
    codes = {str(name): pd.factorize(table[name].astype(object))[0] for name in table}
    if not len(table) or not has_cell(codes):
        return _count(codes, None), Duplicates(0, 0)
    networks = network_codes(table)
    cells = {name: codes[name] for name in (*beside_cell, *CELL_NAMES)}
    return _count(codes, networks), _count(cells, networks)


def network_codes(table: pd.DataFrame) -> Codes:
    """A code per row, equal for two rows exactly when their cells are the same network.

    table: with the columns CELL_NAMES. Raises SpaceError for values that do not describe a cell.
    """
    cells = table[list(CELL_NAMES)].astype(object)
    encodings, different = pd.factorize(pd.MultiIndex.from_frame(cells))
    configurations = (dict(zip(CELL_NAMES, values, strict=True)) for values in different)
    forms = [canonical_form(Cell.from_configuration(configuration)) for configuration in configurations]
    return np.asarray(pd.factorize(pd.Series(forms, dtype="object"))[0][encodings], dtype=np.intp)


def _count(codes: Mapping[str, Codes], networks: Codes | None) -> Duplicates:
    """codes: by variable. networks: those of `network_codes`; None without a cell."""
    exact = pd.DataFrame(codes).duplicated()
    if networks is None:
        return Duplicates(int(exact.sum()), 0)
    other_variables = {name: column for name, column in codes.items() if name not in CELL_NAMES}
    same_network = pd.DataFrame({**other_variables, "network": networks}).duplicated()
    return Duplicates(int(exact.sum()), int((same_network & ~exact).sum()))
