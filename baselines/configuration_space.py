"""A space in ConfigSpace's terms, which hpbandster and smac know, and configurations to and fro.

What the encoding loses: Real is on its (log-)scaled unit interval, Integer and Ordinal are the number of their place,
Nominal and Graph are categories without order, so that a Graph's edges are gone. Constraints are not passed on.
"""

from collections.abc import Mapping
from typing import Any

from fmnas.search_spaces import Configuration, Space


def configuration_space(space: Space) -> Any:
    """A ConfigSpace.ConfigurationSpace of the variables, the continuous ones first."""
    import ConfigSpace

    made = ConfigSpace.ConfigurationSpace()
    for real in space.continuous:
        made.add(ConfigSpace.UniformFloatHyperparameter(real.name, 0.0, 1.0))
    for variable in space.discrete:
        last = len(variable.vertices) - 1
        if variable.ordered:
            made.add(ConfigSpace.UniformIntegerHyperparameter(variable.name, 0, last))
        else:
            made.add(ConfigSpace.CategoricalHyperparameter(variable.name, list(range(last + 1))))
    return made


def to_configspace(space: Space, configuration: Configuration) -> dict[str, float]:
    """A configuration in ConfigSpace's values. Raises SpaceError where it is not valid."""
    x = space.encode(configuration)
    D = len(space.continuous)
    values = [*(float(u) for u in x[:D]), *(int(i) for i in x[D:])]
    return dict(zip(_names(space), values, strict=True))


def from_configspace(space: Space, values: Mapping[str, float]) -> Configuration:
    """The inverse of `to_configspace`."""
    return space.decode([values[name] for name in _names(space)])


def _names(space: Space) -> list[str]:
    """In the order of the encoding."""
    return [v.name for v in space.continuous] + [v.name for v in space.discrete]
