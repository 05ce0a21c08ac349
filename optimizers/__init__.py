"""The ask/tell contract, Gaussian processes for optimizers (gp/), and BO-FM (bofm.py).

What needs torch is loaded when it is asked for. `fmnas.optimizers.kernels` holds the kernels for gpytorch; it is
imported on its own, because gpytorch takes seconds.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design

if TYPE_CHECKING:
    from fmnas.optimizers.bayesian import BayesianOptimizer
    from fmnas.optimizers.bofm import BOFM

_LOADED_LATE = {"BOFM": "fmnas.optimizers.bofm", "BayesianOptimizer": "fmnas.optimizers.bayesian"}
__all__ = ["BOFM", "BayesianOptimizer", "Optimizer", "OptimizerError", "Suggestion", "random_design"]


def __getattr__(name: str) -> Any:
    if name in _LOADED_LATE:
        return getattr(import_module(_LOADED_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
