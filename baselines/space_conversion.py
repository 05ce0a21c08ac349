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
    for variable in space.columns:
        if isinstance(variable, Real):
            made.add(ConfigSpace.UniformFloatHyperparameter(variable.name, 0.0, 1.0))
        elif variable.ordered:
            made.add(ConfigSpace.UniformIntegerHyperparameter(variable.name, 0, len(variable.vertices) - 1))
        else:
            made.add(ConfigSpace.CategoricalHyperparameter(variable.name, list(range(len(variable.vertices)))))
    return made


def to_configspace(space: Space, configuration: Configuration) -> dict[str, float]:
    """A configuration in ConfigSpace's values. Raises SpaceError where it is not valid."""
    x = zip(space.columns, space.encode(configuration), strict=True)
    return {v.name: float(number) if isinstance(v, Real) else int(number) for v, number in x}


def from_configspace(space: Space, values: Mapping[str, float]) -> Configuration:
    """The inverse of `to_configspace`."""
    return space.decode([values[v.name] for v in space.columns])


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
