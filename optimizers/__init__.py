"""The ask/tell contract, Gaussian processes for optimizers (gp/), and BO-FM (bofm/).

`fmnas.optimizers.kernels` holds the kernels for gpytorch; it is imported on its own, because gpytorch takes seconds.
"""

from fmnas.optimizers.bayesian import BayesianOptimizer
from fmnas.optimizers.bofm import BOFM
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design

__all__ = ["BOFM", "BayesianOptimizer", "Optimizer", "OptimizerError", "Suggestion", "random_design"]
