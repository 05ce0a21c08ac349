"""Conversion of spaces and configurations to ConfigSpace (for hpbandster and SMAC) and Optuna.

| | Real | Integer | Ordinal | Nominal and Graph |
|---|---|---|---|---|
| ConfigSpace | (log-)scaled unit interval | index | index | categories |
| Optuna | float, log scale preserved | integer | index | categories |

Both lose the edges of a Graph. Constraints are not converted.
"""

from collections.abc import Mapping
from typing import Any

from fmnas.search_spaces import Configuration, Integer, Ordinal, Real, Space
from fmnas.search_spaces.variables import Variable


def configuration_space(space: Space) -> Any:
    """Return a ConfigSpace.ConfigurationSpace, which sorts its variables by name."""
    import ConfigSpace

    converted = ConfigSpace.ConfigurationSpace()
    for variable in space.columns:
        if isinstance(variable, Real):
            converted.add(ConfigSpace.UniformFloatHyperparameter(variable.name, 0.0, 1.0))
        elif variable.ordered:
            converted.add(ConfigSpace.UniformIntegerHyperparameter(variable.name, 0, len(variable.vertices) - 1))
        else:
            converted.add(ConfigSpace.CategoricalHyperparameter(variable.name, list(range(len(variable.vertices)))))
    return converted


def to_configspace(space: Space, configuration: Configuration) -> dict[str, float]:
    """Convert a configuration to ConfigSpace's values. Raises SpaceError if it is invalid."""
    x = zip(space.columns, space.encode(configuration), strict=True)
    return {v.name: float(number) if isinstance(v, Real) else int(number) for v, number in x}


def from_configspace(space: Space, values: Mapping[str, float]) -> Configuration:
    """Invert `to_configspace`."""
    return space.decode([values[v.name] for v in space.columns])


def optuna_distributions(space: Space) -> dict[str, Any]:
    """Return Optuna's distributions by variable name."""
    return {variable.name: _distribution(variable) for variable in space.variables}


def to_optuna(space: Space, configuration: Configuration) -> dict[str, Any]:
    """Convert a configuration to Optuna's values."""
    return {
        v.name: configuration[v.name] if isinstance(v, Real | Integer) else v.index(configuration[v.name])
        for v in space.variables
    }


def from_optuna(space: Space, params: Mapping[str, Any]) -> Configuration:
    """Invert `to_optuna`."""
    return {
        v.name: params[v.name] if isinstance(v, Real | Integer) else v.vertices[params[v.name]] for v in space.variables
    }


def _distribution(variable: Variable) -> Any:
    from optuna import distributions

    if isinstance(variable, Real):
        return distributions.FloatDistribution(variable.low, variable.high, log=variable.log)
    if isinstance(variable, Integer):
        return distributions.IntDistribution(variable.low, variable.high)
    if isinstance(variable, Ordinal):
        return distributions.IntDistribution(0, len(variable.vertices) - 1)
    return distributions.CategoricalDistribution(range(len(variable.vertices)))
