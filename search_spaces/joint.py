"""The joint problem's space: the SGD schedule and the cell, 6 continuous and 12 discrete variables."""

from fmnas.search_spaces.cell import cell_variables
from fmnas.search_spaces.sgd import sgd_variables
from fmnas.search_spaces.space import Space


def joint_space() -> Space:
    """Six SGD hyperparameters, then op1..op8, in2..in4, output."""
    return Space([*sgd_variables(), *cell_variables()])
