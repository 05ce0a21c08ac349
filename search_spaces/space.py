"""A search space: an ordered tuple of variables, what constrains them, and the one encoder between values and numbers.

| symbol | shape | meaning |
|---|---|---|
| D | | number of continuous variables |
| P | | number of discrete variables |
| x | [D + P] | an encoded configuration: D columns in [0, 1], then P vertex indices (as floats) |
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.constraints import CONSTRAINT_KINDS, Constraint, FeasibleRegion, constraint_from_dict
from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.variables import Discrete, Floats, Graph, Integer, Nominal, Ordinal, Real, Value, Variable

Configuration = dict[str, Value]
"""Name -> value, in the space's order. Survives JSON."""

MISSES = 1_000_000
"""Sampling gives up after so many infeasible draws in a row."""
LARGEST_BATCH = 16_384

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (Real, Integer, Ordinal, Nominal, Graph)}


class Space:
    """What may be tried: the configurations that meet every constraint.

    constraints: none by default. Raises SpaceError for one that does not fit the variables or that none can meet.

    Example:
        space = Space([Real("lr", 1e-3, 1e-1, log=True), Ordinal("depth", [1, 2, 3])])
        x = space.encode({"lr": 0.01, "depth": 2})          # array([0.5, 1.0])

        bits = [Integer(f"b{i}", 0, 1) for i in range(8)]
        space = Space(bits, [LinearConstraint({b.name: 1 for b in bits}, bound=2)])  # at most two are 1
    """

    def __init__(self, variables: Iterable[Variable], constraints: Iterable[Constraint] = ()) -> None:
        self.variables: tuple[Variable, ...] = tuple(variables)
        if not self.variables:
            raise SpaceError("a space needs at least one variable")
        names = [variable.name for variable in self.variables]
        if len(set(names)) < len(names):
            twice = sorted({name for name in names if names.count(name) > 1})
            raise SpaceError(f"variable names must be distinct; given twice: {twice}")
        self.constraints: tuple[Constraint, ...] = tuple(constraints)
        self._region = FeasibleRegion(self.columns, self.constraints)

    @cached_property
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

    @cached_property
    def columns(self) -> tuple[Real | Discrete, ...]:
        """The D + P variables in the order of the encoding."""
        return (*self.continuous, *self.discrete)

    def __len__(self) -> int:
        return len(self.variables)

    def __repr__(self) -> str:
        constraints = f", {list(self.constraints)!r}" if self.constraints else ""
        return f"Space({list(self.variables)!r}{constraints})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.variables == other.variables and self.constraints == other.constraints

    def __hash__(self) -> int:
        return hash(self.names)

    def validate(self, configuration: Mapping[str, Any]) -> None:
        """Raise SpaceError unless it has exactly our names, each with a value it may take, and is feasible."""
        missing = [name for name in self.names if name not in configuration]
        unknown = [name for name in configuration if name not in self.names]
        if missing or unknown:
            raise SpaceError(
                f"configuration with missing {missing}, unknown {unknown}: it must have exactly {list(self.names)}"
            )
        for variable in self.variables:
            variable.check(configuration[variable.name])
        violated = self._region.violated(configuration)
        if violated is not None:
            constraint, value = violated
            raise SpaceError(f"infeasible: {constraint} is violated, its left side is {value:.12g}")

    def own(self, configuration: Mapping[str, Any]) -> Configuration:
        """In the space's order, each value as its variable has it, of Python's own types. SpaceError as `validate`."""
        plain = {name: each.item() if isinstance(each, np.generic) else each for name, each in configuration.items()}
        self.validate(plain)
        return {variable.name: variable.own(plain[variable.name]) for variable in self.variables}

    def feasible(self, X: Floats, *, strictly: bool = False) -> NDArray[np.bool_]:
        """Which encoded configurations X [m, D + P] meet every constraint, [m]; all of them without constraints.

        strictly: without the tolerance of what is handed in, as what is suggested must (constraints.py).
        """
        return self._region.contains(X, strictly=strictly)

    def meets_constraints(self, configuration: Mapping[str, Any], *, strictly: bool = False) -> bool:
        """Whether a configuration, each of its values one that its variable may take, is feasible.

        It may exceed a bound by a billionth of the terms. strictly: not even that, as what is suggested.
        """
        return self._region.violated(configuration, strictly=strictly) is None

    def sample(self, rng: np.random.Generator) -> Configuration:
        """One uniform configuration: uniform on the (log-)scaled box and over the vertices, where feasible."""
        return self.decode(self.sample_encoded(rng, 1)[0])

    def sample_encoded(self, rng: np.random.Generator, count: int) -> Floats:
        """Uniform encoded configurations [count, D + P], all feasible; SpaceError as `feasible_of`."""
        return self.feasible_of(lambda number: self._draw(rng, number), count)

    def feasible_of(self, draw: Callable[[int], Floats], count: int) -> Floats:
        """The first feasible ones [count, D + P] of what is drawn. draw: encoded points, as many as it is told.

        Raises SpaceError after MISSES infeasible draws in a row.
        """
        X = draw(count)
        if not self.constraints:
            return X
        found, drawn, misses = [X[self.feasible(X, strictly=True)]], count, 0
        while (missing := count - sum(map(len, found))) > 0:
            batch = min(max(missing, drawn), LARGEST_BATCH)  # doubling: few calls where little is feasible
            X = draw(batch)
            found.append(X[self.feasible(X, strictly=True)])
            drawn, misses = drawn + batch, 0 if len(found[-1]) else misses + batch
            if misses >= MISSES:
                raise SpaceError(
                    f"{count - missing} of {drawn} uniform samples met the {len(self.constraints)} constraint(s), none "
                    f"of the last {misses}: check that they can be met together; then narrow the variables' ranges, or "
                    "describe the space by variables of which fewer combinations are infeasible"
                )
        return np.concatenate(found)[:count]

    def _draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Uniform encoded points [count, D + P], feasible or not."""
        continuous = rng.random((count, len(self.continuous)))
        discrete = [rng.integers(len(v.vertices), size=count) for v in self.discrete]
        return np.column_stack([continuous, *discrete]) if discrete else continuous

    def encode(self, configuration: Mapping[str, Any]) -> Floats:
        """A configuration as x [D + P]. Raises SpaceError where it is not valid."""
        self.validate(configuration)
        units = [v.to_unit(configuration[v.name]) for v in self.continuous]
        indices = [float(v.index(configuration[v.name])) for v in self.discrete]
        return np.array(units + indices)

    def encode_all(self, configurations: Sequence[Mapping[str, Any]]) -> Floats:
        """Configurations as X [n, D + P]."""
        if not configurations:
            return np.empty((0, len(self)))
        return np.stack([self.encode(configuration) for configuration in configurations])

    def decode(self, x: Sequence[float] | Floats) -> Configuration:
        """x [D + P] as a configuration; the inverse of `encode`."""
        D = len(self.continuous)
        values: Configuration = {v.name: v.from_unit(float(u)) for v, u in zip(self.continuous, x[:D], strict=True)}
        values |= {v.name: v.vertices[round(float(i))] for v, i in zip(self.discrete, x[D:], strict=True)}
        return {name: values[name] for name in self.names}

    def neighbours(self, configuration: Mapping[str, Any]) -> list[Configuration]:
        """Every feasible configuration one graph edge away: the continuous part is the same."""
        self.validate(configuration)
        found = []
        for variable in self.discrete:
            for j in variable.neighbours[variable.index(configuration[variable.name])]:
                found.append({**configuration, variable.name: variable.vertices[j]})
        return [neighbour for neighbour in found if self.meets_constraints(neighbour)]

    def to_dict(self) -> list[dict[str, Any]]:
        """The variables, then the constraints, as plain JSON data."""
        variables = [{"kind": type(v).__name__, **_fields(v)} for v in self.variables]
        return variables + [constraint.to_dict() for constraint in self.constraints]

    @classmethod
    def from_dict(cls, data: Sequence[Mapping[str, Any]]) -> "Space":
        """The inverse of `to_dict`. Raises SpaceError on an unknown kind or field."""
        variables: list[Variable] = []
        constraints: list[Constraint] = []
        for entry in data:
            if entry.get("kind") in CONSTRAINT_KINDS:
                constraints.append(constraint_from_dict(entry))
                continue
            given = dict(entry)
            kind = given.pop("kind", None)
            if kind not in _KINDS:
                raise SpaceError(f"kind {kind!r}: it must be one of {sorted([*_KINDS, *CONSTRAINT_KINDS])}")
            try:
                variables.append(_KINDS[kind](**given))
            except TypeError as error:
                raise SpaceError(f"{kind} {given.get('name')!r}: {error}") from None
        return cls(variables, constraints)


def _fields(variable: Variable) -> dict[str, Any]:
    values = {field.name: getattr(variable, field.name) for field in fields(variable)}
    return {
        k: [list(e) if isinstance(e, tuple) else e for e in v] if isinstance(v, tuple) else v for k, v in values.items()
    }
