"""Minimise a Python function without a configuration file or a run directory."""

from fmnas.api import minimize
from fmnas.search_spaces import Nominal, Real


def loss(configuration):
    return (configuration["rate"] - 0.3) ** 2 + (0.1 if configuration["activation"] == "tanh" else 0.0)


result = minimize(loss, [Real("rate", -1.0, 1.0), Nominal("activation", ["relu", "tanh"])], evaluations=20)
print(result.objective, result.best)
