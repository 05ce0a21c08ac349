"""The ask/tell contract, Gaussian processes for optimizers (gp/), and BO-FM (bofm.py).

Classes that need torch are imported lazily. `fmnas.optimizers.kernels` has the kernels for gpytorch; import it
separately, because gpytorch takes seconds to load.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design

if TYPE_CHECKING:
    from fmnas.optimizers.bayesian import BayesianOptimizer
    from fmnas.optimizers.bofm import BOFM

_LAZY = {"BOFM": "fmnas.optimizers.bofm", "BayesianOptimizer": "fmnas.optimizers.bayesian"}
__all__ = ["BOFM", "BayesianOptimizer", "Optimizer", "OptimizerError", "Suggestion", "random_design"]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
