"""Parameters of other tools as a search space: what they may be, and their values as its configurations.

| range | variable | its value |
|---|---|---|
| Interval | Real, perhaps on a log scale | the parameter's own |
| Grid of at most LARGEST_PATH points | Integer: a path | the point's place |
| a longer Grid | Real, a half step wider at both ends | the point's place; what is suggested is rounded |
| Grid on a log scale | Real on a log scale, the same | the parameter's own; what is suggested is rounded |
| Choices | Nominal | the choice's place |

The spectrum of a graph is computed and held, so what has thousands of values is no graph. A range of a single value is
no variable: whoever asks for its parameter must give it that value.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, SpaceError
from fmnas.search_spaces.variables import Value, Variable

LARGEST_PATH = 50

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """Every number in [low, high]."""

    low: float
    high: float
    log: bool = False

    @property
    def count(self) -> float:
        """Infinitely many, one, or none."""
        return math.inf if self.low < self.high else int(self.low == self.high)

    def variable(self, name: str) -> Real:
        """A Real."""
        return Real(name, self.low, self.high, self.log)

    def encode(self, parameter: float) -> float:
        """The parameter."""
        return float(parameter)

    def decode(self, value: Value) -> float:
        """The value, within the bounds."""
        return min(max(float(value), self.low), self.high)


@dataclass(frozen=True)
class Grid:
    """low, low + step, ... up to high; integers where these are integers."""

    low: float
    high: float
    step: float = 1
    log: bool = False

    @property
    def count(self) -> int:
        """How many points it has; a last one that rounding lifts above `high` is one."""
        return max(math.floor((self.high - self.low) / self.step + 1e-8) + 1, 0)

    @property
    def is_path(self) -> bool:
        """Whether its points are the vertices of a path."""
        return not self.log and self.count <= LARGEST_PATH

    def variable(self, name: str) -> Variable:
        """An Integer, or a Real in which every point has its surroundings."""
        if self.log:
            return Real(name, self.low - self.step / 2, self.point(self.count - 1) + self.step / 2, log=True)
        return Integer(name, 0, self.count - 1) if self.is_path else Real(name, -0.5, self.count - 0.5)

    def encode(self, parameter: float) -> Value:
        """The place of the nearest point, or the parameter."""
        if self.log:
            return float(parameter)
        place = round((parameter - self.low) / self.step)
        return place if self.is_path else float(place)

    def decode(self, value: Value) -> float:
        """The nearest point."""
        place = (float(value) - self.low) / self.step if self.log else float(value)
        return self.point(min(max(round(place), 0), self.count - 1))

    def point(self, place: int) -> float:
        """The point at a place, from 0 to count - 1."""
        return min(self.low + place * self.step, self.high)


@dataclass(frozen=True)
class Choices:
    """Any of these, without an order."""

    choices: tuple[Any, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.choices)

    def variable(self, name: str) -> Nominal:
        """A Nominal of the places: a choice may be anything."""
        return Nominal(name, range(len(self.choices)))

    def encode(self, parameter: Any) -> int:
        """The place of a choice; not a number counts as equal to itself."""
        for place, choice in enumerate(self.choices):
            if choice == parameter or (choice != choice and parameter != parameter):  # NaN
                return place
        raise SpaceError(f"{parameter!r}: it must be one of {list(self.choices)}")

    def decode(self, value: Value) -> Any:
        """The choice at a place."""
        return self.choices[int(value)]


Range = Interval | Grid | Choices
"""What a parameter may be.

count: how many values it has, infinitely many perhaps; of a single one, any `decode` is that. variable: of a name.
encode: the variable's value for a parameter; raises SpaceError, or the variable does, where it may not be that. decode:
the parameter for a value of the variable; of Python's own types.
"""


class Translation(Generic[Name]):
    """Named parameters as a space, whose variables are numbered: anything may name a parameter, "a/b" too.

    Raises SpaceError where there are none.
    """

    def __init__(self, ranges: Mapping[Name, Range]) -> None:
        self.ranges = dict(ranges)
        self._variables = {name: f"parameter_{number}" for number, name in enumerate(self.ranges)}
        self.space = Space([each.variable(self._variables[name]) for name, each in self.ranges.items()])

    def configuration(self, parameters: Mapping[Name, Any]) -> Configuration:
        """Parameters, of which others are left out, as a configuration. SpaceError where there is no such."""
        missing = [name for name in self.ranges if name not in parameters]
        if missing:
            raise SpaceError(f"parameters {missing} are missing: there must be {list(self.ranges)}")
        values = {self._variables[name]: each.encode(parameters[name]) for name, each in self.ranges.items()}
        self.space.validate(values)
        return values

    def parameters(self, configuration: Configuration) -> dict[Name, Any]:
        """A configuration as parameters."""
        return {name: each.decode(configuration[self._variables[name]]) for name, each in self.ranges.items()}
