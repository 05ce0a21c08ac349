"""A search space: an ordered tuple of variables, their constraints, and the encoding of configurations as numbers.

| symbol | shape | meaning |
|---|---|---|
| D, P | | numbers of continuous and of discrete variables |
| x | [D + P] | an encoded configuration: D columns in [0, 1], then P vertex indices (as floats) |
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.constraints import Constraint, FeasibleRegion
from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.variables import Discrete, Floats, Real, Value, Variable, as_tuple, plain

Configuration = dict[str, Value]
"""Name -> value, in the space's order. JSON-serializable."""

MAX_REJECTIONS = 1_000_000
"""Sampling fails after this many consecutive infeasible draws."""
LARGEST_BATCH = 16_384

_KINDS: dict[str, type] = {kind.__name__: kind for kind in (*get_args(Variable), *get_args(Constraint))}


class Space:
    """The set of configurations that meet all constraints.

    Raises SpaceError for a constraint that does not fit the variables or cannot be met.

    Example:
        space = Space([Real("lr", 1e-3, 1e-1, log=True), Ordinal("depth", [1, 2, 3])])
        x = space.encode({"lr": 0.01, "depth": 2})          # array([0.5, 1.0])

        bits = [Integer(f"b{i}", 0, 1) for i in range(8)]
        space = Space(bits, [LinearConstraint({b.name: 1 for b in bits}, bound=2)])  # at most two are 1
    """

    def __init__(self, variables: Iterable[Variable], constraints: Iterable[Constraint] = ()) -> None:
        self.variables: tuple[Variable, ...] = as_tuple("variables", variables, "[Real('x', 0.0, 1.0)]")
        if invalid := [variable for variable in self.variables if not isinstance(variable, Real | Discrete)]:
            raise SpaceError(f"variables: {invalid} are not variables: write a list such as [Real('x', 0.0, 1.0)]")
        if not self.variables:
            raise SpaceError("a space needs at least one variable")
        if twice := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise SpaceError(f"variable names must be distinct; duplicates: {twice}")
        self.constraints: tuple[Constraint, ...] = as_tuple("constraints", constraints, "[LinearConstraint(...)]")
        self._region = FeasibleRegion(self.columns, self.constraints)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names in the order of definition."""
        return tuple(variable.name for variable in self.variables)

    @cached_property
    def continuous(self) -> tuple[Real, ...]:
        """The D continuous variables: the first columns of the encoding."""
        return tuple(v for v in self.variables if isinstance(v, Real))

    @cached_property
    def discrete(self) -> tuple[Discrete, ...]:
        """The P discrete variables: the last columns of the encoding."""
        return tuple(v for v in self.variables if isinstance(v, Discrete))

    @cached_property
    def columns(self) -> tuple[Real | Discrete, ...]:
        """The D + P variables in the order of the encoding."""
        return (*self.continuous, *self.discrete)

    def __repr__(self) -> str:
        return f"Space({list(self.variables)}, {list(self.constraints)})"

    def __len__(self) -> int:
        return len(self.variables)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.variables == other.variables and self.constraints == other.constraints

    def __hash__(self) -> int:
        return hash(self.names)

    def validate(self, configuration: Mapping[str, Any]) -> None:
        """Raise SpaceError unless the configuration has exactly the space's variables and is feasible."""
        missing = [name for name in self.names if name not in configuration]
        unknown = [name for name in configuration if name not in self.names]
        if missing or unknown:
            wrong = {"missing": missing, "unknown": unknown}
            difference = " and ".join(f"{what} {names}" for what, names in wrong.items() if names)
            raise SpaceError(f"configuration with {difference}: it must have exactly {list(self.names)}")
        for variable in self.variables:
            variable.check(configuration[variable.name])
        if violation := self._region.find_violation(configuration):
            raise SpaceError(f"infeasible: {violation[0]} is violated, its left side is {violation[1]:.12g}")

    def coerce(self, configuration: Mapping[str, Any]) -> Configuration:
        """Return the configuration in the space's order with built-in types. Raises SpaceError as `validate`."""
        values = {name: plain(value) for name, value in configuration.items()}
        self.validate(values)
        return {variable.name: variable.coerce(values[variable.name]) for variable in self.variables}

    def feasible(self, X: Floats, *, strictly: bool = False) -> NDArray[np.bool_]:
        """Return which encoded configurations X [m, D + P] meet all constraints [m].

        strictly: by the rule for suggestions, without tolerance (constraints.py).
        """
        return self._region.contains(X, strictly=strictly)

    def meets_constraints(self, configuration: Mapping[str, Any], *, strictly: bool = False) -> bool:
        """Return whether a configuration with valid values is feasible; strictly: by the rule for suggestions."""
        return self._region.find_violation(configuration, strictly=strictly) is None

    def sample(self, rng: np.random.Generator) -> Configuration:
        """Return a configuration drawn uniformly on the (log-)scaled box and over the vertices, where feasible."""
        return self.decode(self.sample_encoded(rng, 1)[0])

    def sample_encoded(self, rng: np.random.Generator, count: int) -> Floats:
        """Return uniform feasible encoded configurations [count, D + P]. Raises SpaceError as `reject_infeasible`."""
        return self.reject_infeasible(lambda number: self._draw(rng, number), count)

    def reject_infeasible(self, draw: Callable[[int], Floats], count: int) -> Floats:
        """Return the first `count` feasible points [count, D + P] of those that draw(number) returns.

        Raises SpaceError after MAX_REJECTIONS consecutive infeasible draws.
        """
        X = draw(count)
        if not self.constraints:
            return X
        accepted, drawn, rejected = [X[self.feasible(X, strictly=True)]], count, 0
        while (missing := count - sum(map(len, accepted))) > 0:
            batch = min(max(missing, drawn), LARGEST_BATCH)  # doubling: few calls if little is feasible
            X = draw(batch)
            accepted.append(X[self.feasible(X, strictly=True)])
            drawn, rejected = drawn + batch, 0 if len(accepted[-1]) else rejected + batch
            if rejected >= MAX_REJECTIONS:
                raise SpaceError(
                    f"{count - missing} of {drawn} random samples met the {len(self.constraints)} constraint(s), none "
                    f"of the last {rejected}: check that all constraints can be met together; then narrow the ranges"
                )
        return np.concatenate(accepted)[:count]

    def _draw(self, rng: np.random.Generator, count: int) -> Floats:
        """Return uniform encoded points [count, D + P], feasible or not."""
        continuous = rng.random((count, len(self.continuous)))
        discrete = [rng.integers(len(v.vertices), size=count) for v in self.discrete]
        return np.column_stack([continuous, *discrete]) if discrete else continuous

    def encode(self, configuration: Mapping[str, Any]) -> Floats:
        """Encode a configuration as x [D + P]. Raises SpaceError if it is invalid."""
        self.validate(configuration)
        units = [v.to_unit(configuration[v.name]) for v in self.continuous]
        indices = [float(v.index(configuration[v.name])) for v in self.discrete]
        return np.array(units + indices)

    def encode_all(self, configurations: Sequence[Mapping[str, Any]]) -> Floats:
        """Encode configurations as X [n, D + P]."""
        if not configurations:
            return np.empty((0, len(self)))
        return np.stack([self.encode(configuration) for configuration in configurations])

    def decode(self, x: Sequence[float] | Floats) -> Configuration:
        """Decode x [D + P]; the inverse of `encode`."""
        D = len(self.continuous)
        values: Configuration = {v.name: v.from_unit(float(u)) for v, u in zip(self.continuous, x[:D], strict=True)}
        values |= {v.name: v.vertices[round(float(i))] for v, i in zip(self.discrete, x[D:], strict=True)}
        return {name: values[name] for name in self.names}

    def neighbours(self, configuration: Mapping[str, Any]) -> list[Configuration]:
        """Return the feasible configurations one graph edge away, with the same continuous part."""
        self.validate(configuration)
        neighbours: list[Configuration] = [
            {**configuration, variable.name: variable.vertices[j]}
            for variable in self.discrete
            for j in variable.neighbours[variable.index(configuration[variable.name])]
        ]
        return [neighbour for neighbour in neighbours if self.meets_constraints(neighbour)]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the variables, then the constraints, as JSON-serializable data."""
        variables = [{"kind": type(v).__name__, **asdict(v)} for v in self.variables]
        return variables + [constraint.to_dict() for constraint in self.constraints]

    @classmethod
    def from_dict(cls, data: Sequence[Mapping[str, Any]]) -> "Space":
        """Invert `to_dict`. Raises SpaceError for an unknown kind or field."""
        variables: list[Variable] = []
        constraints: list[Constraint] = []
        for entry in data:
            kind, fields = entry.get("kind"), {name: value for name, value in entry.items() if name != "kind"}
            if kind not in _KINDS:
                raise SpaceError(f"kind {kind!r}: it must be one of {sorted(_KINDS)}")
            try:
                if "pairs" in fields:
                    fields["pairs"] = {(first, second): q for first, second, q in fields["pairs"]}
                made = _KINDS[kind](**fields)
            except (TypeError, ValueError) as error:
                raise SpaceError(f"{kind} {fields}: {error}") from None
            (constraints if isinstance(made, Constraint) else variables).append(made)
        return cls(variables, constraints)
