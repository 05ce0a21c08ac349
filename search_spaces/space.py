"""A search space: an ordered tuple of variables, and the one encoder between values and numbers.

| symbol | shape | meaning |
|---|---|---|
| D | | number of continuous variables |
| P | | number of discrete variables |
| x | [D + P] | an encoded configuration: D columns in [0, 1], then P vertex indices (as floats) |
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.variables import Discrete, Graph, Integer, Nominal, Ordinal, Real, Value, Variable

Configuration = dict[str, Value]
"""Name -> value, in the space's order. Survives JSON."""

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (Real, Integer, Ordinal, Nominal, Graph)}


class Space:
    """What may be tried.

    Example:
        space = Space([Real("lr", 1e-3, 1e-1, log=True), Ordinal("depth", [1, 2, 3])])
        x = space.encode({"lr": 0.01, "depth": 2})          # array([0.5, 1.0])
    """

    def __init__(self, variables: Iterable[Variable]) -> None:
        self.variables: tuple[Variable, ...] = tuple(variables)
        if not self.variables:
            raise SpaceError("a space needs at least one variable")
        names = [variable.name for variable in self.variables]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise SpaceError(f"variable names must be distinct; given twice: {twice}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names in the order of definition."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def continuous(self) -> tuple[Real, ...]:
        """The D real variables: the first columns of the encoding."""
        return tuple(v for v in self.variables if isinstance(v, Real))

    @cached_property
    def discrete(self) -> tuple[Discrete, ...]:
        """The P variables with a graph: the last columns of the encoding."""
        return tuple(v for v in self.variables if isinstance(v, Discrete))

    def __len__(self) -> int:
        return len(self.variables)

    def __repr__(self) -> str:
        return f"Space({list(self.variables)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.variables == other.variables

    def __hash__(self) -> int:
        return hash(self.names)

    def validate(self, configuration: Mapping[str, Any]) -> None:
        """Raise SpaceError unless the configuration has exactly our names, each with a value it may take."""
        missing = [name for name in self.names if name not in configuration]
        unknown = [name for name in configuration if name not in self.names]
        if missing or unknown:
            raise SpaceError(
                f"configuration with missing {missing}, unknown {unknown}: it must have exactly {list(self.names)}"
            )
        for variable in self.variables:
            variable.check(configuration[variable.name])

    def sample(self, rng: np.random.Generator) -> Configuration:
        """One uniform configuration: uniform on the (log-)scaled box and over the vertices."""
        return self.decode(self.sample_encoded(rng, 1)[0])

    def sample_encoded(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Uniform encoded configurations [count, D + P]."""
        continuous = rng.random((count, len(self.continuous)))
        discrete = [rng.integers(len(v.vertices), size=count) for v in self.discrete]
        return np.column_stack([continuous, *discrete]) if discrete else continuous

    def encode(self, configuration: Mapping[str, Any]) -> NDArray[np.float64]:
        """A configuration as x [D + P]. Raises SpaceError where it is not valid."""
        self.validate(configuration)
        units = [v.to_unit(configuration[v.name]) for v in self.continuous]
        indices = [float(v.index(configuration[v.name])) for v in self.discrete]
        return np.array(units + indices)

    def encode_all(self, configurations: Sequence[Mapping[str, Any]]) -> NDArray[np.float64]:
        """Configurations as X [n, D + P]."""
        if not configurations:
            return np.empty((0, len(self)))
        return np.stack([self.encode(configuration) for configuration in configurations])

    def decode(self, x: Sequence[float] | NDArray[np.float64]) -> Configuration:
        """x [D + P] as a configuration; the inverse of `encode`."""
        D = len(self.continuous)
        values: Configuration = {v.name: v.from_unit(float(u)) for v, u in zip(self.continuous, x[:D], strict=True)}
        values |= {v.name: v.vertices[round(float(i))] for v, i in zip(self.discrete, x[D:], strict=True)}
        return {name: values[name] for name in self.names}

    def neighbours(self, configuration: Mapping[str, Any]) -> list[Configuration]:
        """Every configuration one graph edge away: the continuous part is the same."""
        self.validate(configuration)
        found = []
        for variable in self.discrete:
            for j in variable.neighbours[variable.index(configuration[variable.name])]:
                found.append({**configuration, variable.name: variable.vertices[j]})
        return found

    def to_dict(self) -> list[dict[str, Any]]:
        """The variables as plain JSON data."""
        return [{"kind": type(v).__name__, **_fields(v)} for v in self.variables]

    @classmethod
    def from_dict(cls, data: Sequence[Mapping[str, Any]]) -> "Space":
        """The inverse of `to_dict`. Raises SpaceError on an unknown kind or field."""
        variables = []
        for entry in data:
            fields = dict(entry)
            kind = fields.pop("kind", None)
            if kind not in _KINDS:
                raise SpaceError(f"variable kind {kind!r}: it must be one of {sorted(_KINDS)}")
            try:
                variables.append(_KINDS[kind](**fields))
            except TypeError as error:
                raise SpaceError(f"{kind} {fields.get('name')!r}: {error}") from None
        return cls(variables)


def _fields(variable: Variable) -> dict[str, Any]:
    names = variable.__dataclass_fields__
    fields = {name: getattr(variable, name) for name in names}
    return {
        k: [list(e) if isinstance(e, tuple) else e for e in v] if isinstance(v, tuple) else v for k, v in fields.items()
    }
