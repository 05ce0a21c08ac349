"""A space as ConfigSpace has it, which hpbandster and smac know, and as Optuna has it; configurations to and fro.

| | Real | Integer | Ordinal | Nominal and Graph |
|---|---|---|---|---|
| ConfigSpace | its (log-)scaled unit interval | the number of its place | the same | categories |
| Optuna | as it is, with its logarithm | as it is | the number of its place | categories |

So both know nothing of a Graph's edges. Constraints are not passed on.
"""

from collections.abc import Mapping
from typing import Any

from fmnas.search_spaces import Configuration, Integer, Ordinal, Real, Space
from fmnas.search_spaces.variables import Variable


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


def optuna_distributions(space: Space) -> dict[str, Any]:
    """Optuna's distribution of each variable, by its name."""
    return {variable.name: _distribution(variable) for variable in space.variables}


def to_optuna(space: Space, configuration: Configuration) -> dict[str, Any]:
    """A configuration in Optuna's values."""
    return {
        v.name: configuration[v.name] if isinstance(v, Real | Integer) else v.index(configuration[v.name])
        for v in space.variables
    }


def from_optuna(space: Space, params: Mapping[str, Any]) -> Configuration:
    """The inverse of `to_optuna`."""
    return {
        v.name: params[v.name] if isinstance(v, Real | Integer) else v.vertices[params[v.name]] for v in space.variables
    }


def _distribution(variable: Variable) -> Any:
    from optuna import distributions

    if isinstance(variable, Real):
        return distributions.FloatDistribution(variable.low, variable.high, log=variable.log)
    if isinstance(variable, Integer):
        return distributions.IntDistribution(variable.low, variable.high)
    places = len(variable.vertices)
    if isinstance(variable, Ordinal):
        return distributions.IntDistribution(0, places - 1)
    return distributions.CategoricalDistribution(range(places))
