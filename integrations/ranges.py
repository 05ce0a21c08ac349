"""Conversion of other tools' parameters to a search space, and of their values to configurations.

| range | variable | its value |
|---|---|---|
| Interval | Real, optionally on a log scale | the parameter |
| Grid of at most MAX_PATH_LENGTH points | Integer | the point's index |
| longer Grid | Real, half a step wider at both ends | the point's index; suggestions are rounded |
| Grid on a log scale | Real on a log scale, as above | the parameter; suggestions are rounded |
| Choices | Nominal | the choice's index |

Long grids are not graphs, because the spectrum of a graph is stored. A range with a single value is not a variable; the
caller must set its parameter.
"""

import math
import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, SpaceError
from fmnas.search_spaces.variables import Value, Variable

MAX_PATH_LENGTH = 50

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Interval:
    """Every number in [low, high]."""

    low: float
    high: float
    log: bool = False

    @property
    def count(self) -> float:
        """Number of values: infinity, 1 or 0."""
        return math.inf if self.low < self.high else int(self.low == self.high)

    def variable(self, name: str) -> Real:
        """Return a Real."""
        return Real(name, self.low, self.high, self.log)

    def encode(self, parameter: float) -> float:
        """Return the parameter."""
        return float(parameter)

    def decode(self, value: Value) -> float:
        """Clip the value to the bounds."""
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
        """Number of points; a last one above `high` by rounding error counts."""
        return max(math.floor((self.high - self.low) / self.step + 1e-8) + 1, 0)

    @property
    def is_path(self) -> bool:
        """Whether the points are the vertices of a path."""
        return not self.log and self.count <= MAX_PATH_LENGTH

    def variable(self, name: str) -> Variable:
        """Return an Integer, or a Real in which every point has an interval of length `step`."""
        if self.log:
            return Real(name, self.low - self.step / 2, self.point(self.count - 1) + self.step / 2, log=True)
        return Integer(name, 0, self.count - 1) if self.is_path else Real(name, -0.5, self.count - 0.5)

    def encode(self, parameter: float) -> Value:
        """Return the index of the nearest point, or the parameter on a log scale."""
        if self.log:
            return float(parameter)
        index = round((parameter - self.low) / self.step)
        return index if self.is_path else float(index)

    def decode(self, value: Value) -> float:
        """Return the nearest point."""
        index = (float(value) - self.low) / self.step if self.log else float(value)
        return self.point(min(max(round(index), 0), self.count - 1))

    def point(self, index: int) -> float:
        """Return the point with an index from 0 to count - 1."""
        return min(self.low + index * self.step, self.high)


@dataclass(frozen=True)
class Choices:
    """A set of choices without an order."""

    choices: tuple[Any, ...]

    @property
    def count(self) -> int:
        """Number of choices."""
        return len(self.choices)

    def variable(self, name: str) -> Nominal:
        """Return a Nominal of the indices, because choices may have any type."""
        return Nominal(name, range(len(self.choices)))

    def encode(self, parameter: Any) -> int:
        """Return the index of a choice; NaN equals NaN."""
        for index, choice in enumerate(self.choices):
            if choice == parameter or (choice != choice and parameter != parameter):  # NaN
                return index
        raise SpaceError(f"{parameter!r}: it must be one of {list(self.choices)}")

    def decode(self, value: Value) -> Any:
        """Return the choice with an index."""
        return self.choices[int(value)]


Range = Interval | Grid | Choices
"""The range of a parameter.

count: number of values. variable: the search-space variable with a name. encode: maps a parameter to the variable's
value; SpaceError if it is outside. decode: maps the variable's value to a parameter of a built-in type.
"""


class SpaceTranslator(Generic[Name]):
    """Translates parameters to a space; its variables have their names if possible. Raises SpaceError without any."""

    def __init__(self, ranges: Mapping[Name, Range]) -> None:
        self.ranges = dict(ranges)
        texts = ["_".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in self.ranges]
        texts = [re.sub(r"\W|^(?=\d|$)", "_", text, flags=re.ASCII) for text in texts]
        if len(set(texts)) < len(texts):
            texts = [f"{text}_{number}" for number, text in enumerate(texts)]
        self._variables = dict(zip(self.ranges, texts, strict=True))
        self.space = Space([range_.variable(self._variables[name]) for name, range_ in self.ranges.items()])

    def configuration(self, parameters: Mapping[Name, Any]) -> Configuration:
        """Convert parameters; others are ignored. Raises KeyError for a missing one, SpaceError for an invalid one."""
        values = {self._variables[name]: range_.encode(parameters[name]) for name, range_ in self.ranges.items()}
        self.space.validate(values)
        return values

    def parameters(self, configuration: Configuration) -> dict[Name, Any]:
        """Convert a configuration to parameters."""
        return {name: range_.decode(configuration[self._variables[name]]) for name, range_ in self.ranges.items()}
