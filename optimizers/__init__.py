"""The ask/tell contract, and BO-FM: kernels, surrogate, acquisition.

`fmnas.optimizers.kernels` holds the kernels for gpytorch; it is imported on its own, because gpytorch takes seconds.
"""

from fmnas.optimizers.bofm.bofm import BOFM
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design

__all__ = ["BOFM", "Optimizer", "OptimizerError", "Suggestion", "random_design"]
