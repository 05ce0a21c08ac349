"""Configurations that came before: as they stand, or as the same network in another encoding.

Nothing is merged: a repeated evaluation is an evaluation, paid for like any other. This only counts them.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.cell import CELL_NAMES


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


def duplicates(configurations: Sequence[Mapping[str, Any]]) -> Duplicates:
    """Count them, in the order given. Configurations without a cell have no isomorphic duplicates.

    Raises SpaceError where values describe no cell.
    """
    seen: set[Hashable] = set()
    networks: set[Hashable] = set()
    exact = isomorphic = 0
    for configuration in configurations:
        as_it_stands, network = frozenset(configuration.items()), _network(configuration)
        exact += as_it_stands in seen
        isomorphic += as_it_stands not in seen and network in networks
        seen.add(as_it_stands)
        networks.add(network)
    return Duplicates(exact, isomorphic)


def _network(configuration: Mapping[str, Any]) -> Hashable:
    """What decides the result: the configuration with its cell, if it has one, in canonical form."""
    if not has_cell(configuration):
        return frozenset(configuration.items())
    others = {name: value for name, value in configuration.items() if name not in CELL_NAMES}
    return canonical_form(Cell.from_configuration(configuration)), frozenset(others.items())
