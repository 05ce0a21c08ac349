"""Variables: one continuous kind (Real) and four discrete ones, each with a graph of its values.

| class | values | graph |
|---|---|---|
| Real | [low, high], linear or log scale | none; a coordinate of the unit cube |
| Integer | low, low + 1, ..., high | path |
| Ordinal | a list of values, in order | path |
| Nominal | a list of values | complete |
| Graph | a list of vertices | a list of edges |

Graphs are adjacency matrices:

| symbol | shape | meaning |
|---|---|---|
| A | [n, n] | adjacency, 0 or 1, symmetric, zero diagonal |
| L | [n, n] | Laplacian D - A, unnormalised |
| lambda | [n] | eigenvalues of L, ascending, lambda[0] = 0 |
| U | [n, n] | orthonormal eigenvectors, one per column: L = U diag(lambda) U^T |
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError

MOST_VALUES = 1_000_000
"""The most values of an Integer: they are held in memory."""

Floats = NDArray[np.float64]


def laplacian(adjacency: Floats) -> Floats:
    """Return L = D - A."""
    return np.asarray(np.diag(adjacency.sum(axis=1)) - adjacency)


Value = str | int | float | bool
"""A value in a configuration: a scalar that JSON preserves."""


@dataclass(frozen=True)
class Real:
    """A real number in [low, high]; with `log`, its logarithm is mapped to the unit interval."""

    name: str
    low: float
    high: float
    log: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        for field in ("low", "high", "log"):
            object.__setattr__(self, field, plain(getattr(self, field)))
        numbers = {type(self.low), type(self.high)} <= {int, float}
        if not (numbers and math.isfinite(self.low) and math.isfinite(self.high - self.low) and self.low < self.high):
            raise SpaceError(
                f"Real {self.name!r}: bounds [{self.low!r}, {self.high!r}]; they must be finite numbers, low < high"
            )
        if not isinstance(self.log, bool):
            raise SpaceError(f"Real {self.name!r}: log = {self.log!r}; it must be True or False")
        if self.log and self.low <= 0:
            raise SpaceError(f"Real {self.name!r}: low = {self.low} on a log scale; it must be above 0")

    @property
    def ends(self) -> tuple[float, float]:
        """The bounds; with `log`, their logarithms."""
        return (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)

    def to_unit(self, value: float) -> float:
        """Map a value to [0, 1]."""
        low, high = self.ends
        return ((math.log(value) if self.log else value) - low) / (high - low)

    def from_unit(self, unit: float) -> float:
        """Map [0, 1] to a value, clipped to the bounds."""
        low, high = self.ends
        value = low + unit * (high - low)
        return min(max(math.exp(value) if self.log else value, self.low), self.high)

    def from_units(self, units: Floats) -> Floats:
        """Map units [m] to values [m]; equals `from_unit` up to rounding."""
        low, high = self.ends
        values = low + units * (high - low)
        return np.clip(np.exp(values) if self.log else values, self.low, self.high)

    def check(self, value: Any) -> None:
        """Raise SpaceError unless the value is a number within the bounds."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            raise SpaceError(f"{self.name} = {value!r}: it must be a number in [{self.low}, {self.high}]")

    def coerce(self, value: float) -> Value:
        """Return a valid value as a float."""
        return float(value)


class Discrete:
    """A variable whose values are the vertices of a graph. Subclasses define `name` and `vertices`.

    ordered: whether the graph is a path; otherwise it is complete unless a subclass overrides `adjacency`.
    """

    ordered: ClassVar[bool] = False
    name: str
    vertices: tuple[Value, ...]

    @cached_property
    def adjacency(self) -> Floats:
        """A [n, n], 0 or 1."""
        n = len(self.vertices)
        return np.eye(n, k=1) + np.eye(n, k=-1) if self.ordered else np.ones((n, n)) - np.eye(n)

    @cached_property
    def _index(self) -> dict[tuple[type, Value], int]:
        return {_key(value): i for i, value in enumerate(self.vertices)}

    def index(self, value: Any) -> int:
        """Return the vertex number of a value. Raises SpaceError for other values."""
        try:
            return self._index[_key(value)]
        except (KeyError, TypeError, OverflowError):
            raise SpaceError(f"{self.name} = {value!r}: it must be one of {list(self.vertices)}") from None

    def check(self, value: Any) -> None:
        """Raise SpaceError unless the value is a vertex."""
        self.index(value)

    def coerce(self, value: Any) -> Value:
        """Return the vertex equal to a value, e.g. 1 for 1.0. Raises SpaceError for other values."""
        return self.vertices[self.index(value)]

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The adjacent vertices of each vertex."""
        return tuple(tuple(int(j) for j in np.flatnonzero(row)) for row in self.adjacency)

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues [n] and eigenvectors [n, n] of the graph's Laplacian; eigenvalues below 1e-9 are set to zero."""
        eigenvalues, eigenvectors = np.linalg.eigh(laplacian(self.adjacency))
        eigenvalues[np.abs(eigenvalues) < 1e-9] = 0.0
        return eigenvalues, eigenvectors


@dataclass(frozen=True)
class Integer(Discrete):
    """The integers low..high, on a path."""

    ordered: ClassVar[bool] = True
    name: str
    low: int
    high: int

    def __post_init__(self) -> None:
        _check_name(self.name)
        for field in ("low", "high"):
            object.__setattr__(self, field, plain(getattr(self, field)))
        if not type(self.low) is type(self.high) is int or not self.low < self.high:
            raise SpaceError(
                f"Integer {self.name!r}: bounds [{self.low!r}, {self.high!r}]; they must be integers, low below high"
            )
        if self.high - self.low >= MOST_VALUES:
            raise SpaceError(
                f"Integer {self.name!r}: {self.high - self.low + 1} values, of at most {MOST_VALUES}; use a Real and "
                "round it in the objective function"
            )

    @cached_property
    def vertices(self) -> tuple[Value, ...]:  # type: ignore[override]  # a property instead of a field
        return tuple(range(self.low, self.high + 1))


@dataclass(frozen=True)
class _ListedValues(Discrete):
    """Values given as a list."""

    name: str
    values: Sequence[Value]

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "values", as_tuple(f"{self.name}: values", self.values, "[1, 2]"))
        _check_vertices(self.name, self.vertices)

    @property
    def vertices(self) -> tuple[Value, ...]:  # type: ignore[override]
        return tuple(self.values)


@dataclass(frozen=True)
class Ordinal(_ListedValues):
    """Ordered values, on a path."""

    ordered: ClassVar[bool] = True


@dataclass(frozen=True)
class Nominal(_ListedValues):
    """Values without an order, on a complete graph."""


@dataclass(frozen=True)
class Graph(Discrete):
    """Vertices and the edges between them, each edge a pair of vertices. The graph must be connected."""

    name: str
    vertices: tuple[Value, ...]
    edges: tuple[tuple[Value, Value], ...] = ()

    def __post_init__(self) -> None:
        _check_name(self.name)
        object.__setattr__(self, "vertices", as_tuple(f"{self.name}: vertices", self.vertices, "['a', 'b']"))
        edges = as_tuple(f"{self.name}: edges", self.edges, "[('a', 'b')]")
        object.__setattr__(self, "edges", tuple(as_tuple(f"{self.name}: edge", edge, "('a', 'b')") for edge in edges))
        _check_vertices(self.name, self.vertices)
        for edge in self.edges:
            if len({*map(self.index, edge)}) != 2 or len(edge) != 2:
                raise SpaceError(f"Graph {self.name!r}: edge {edge!r}; it must join two different vertices")
        if self.spectrum[0][1] == 0.0:  # the number of zeros is that of connected parts
            raise SpaceError(f"Graph {self.name!r} is not connected: some vertex has no path to {self.vertices[0]!r}")

    @cached_property
    def adjacency(self) -> Floats:
        adjacency = np.zeros((len(self.vertices), len(self.vertices)))
        for a, b in self.edges:
            i, j = self.index(a), self.index(b)
            adjacency[i, j] = adjacency[j, i] = 1.0
        return adjacency


Variable = Real | Integer | Ordinal | Nominal | Graph


def _key(value: Any) -> tuple[type, Value]:
    """Return a key that differs for True, 1 and "1", and is equal for 1 and 1.0, which JSON and CSV may exchange."""
    if isinstance(value, bool | str):
        return type(value), value
    return float, float(value)


def plain(value: Any) -> Any:
    """Return a scalar of numpy as Python's, and any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def as_tuple(what: str, values: Any, example: str) -> tuple[Any, ...]:
    """Return a list's values, those of numpy as Python's. Raises SpaceError with the example for anything else.

    A set is refused, too: the order of its texts differs between processes.
    """
    if isinstance(values, str | bytes | set | frozenset) or not isinstance(values, Iterable):
        raise SpaceError(f"{what} = {values!r}: it must be a list such as {example}")
    return tuple(map(plain, values))


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise SpaceError(f"variable name {name!r}: it must be an identifier such as learning_rate")


def _check_vertices(name: str, vertices: tuple[Value, ...]) -> None:
    if len(vertices) < 2:
        raise SpaceError(f"{name}: {len(vertices)} value(s); a variable needs at least two")
    for value in vertices:
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise SpaceError(
                f"{name}: value {value!r} is a {type(value).__name__}; use a string, finite number or boolean, "
                "which JSON preserves (for a pair, a string such as '-1,0')"
            )
        if isinstance(value, str) and value != value.encode("utf-8", "replace").decode():
            raise SpaceError(f"{name}: value {value!a} has half of a character, which no file can hold: use another")
    if len({_key(value) for value in vertices}) < len(vertices):
        raise SpaceError(f"{name}: values {list(vertices)} are not distinct")
