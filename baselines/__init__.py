"""The optimizers that BO-FM is compared with, one file each."""

from fmnas.baselines.bohb import BOHB
from fmnas.baselines.random_search import RandomSearch
from fmnas.baselines.regularized_evolution import RegularizedEvolution

__all__ = ["BOHB", "RandomSearch", "RegularizedEvolution"]
