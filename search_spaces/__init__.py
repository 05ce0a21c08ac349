"""Variables and their graphs, constraints, spaces, the NASNet cell, the SGD schedule, and the records of trials.

Its only dependency is numpy.
"""

from fmnas.search_spaces.canonical import canonical_form
from fmnas.search_spaces.constraints import LinearConstraint, QuadraticConstraint
from fmnas.search_spaces.errors import FmnasError, SpaceError
from fmnas.search_spaces.nasnet import Cell, Schedule, joint_space, largest_cell
from fmnas.search_spaces.records import Conditions, Evaluation, Trial
from fmnas.search_spaces.space import Configuration, Space
from fmnas.search_spaces.subspace import Subspace
from fmnas.search_spaces.variables import Graph, Integer, Nominal, Ordinal, Real

__all__ = [
    "Cell",
    "Conditions",
    "Configuration",
    "Evaluation",
    "FmnasError",
    "Graph",
    "Integer",
    "LinearConstraint",
    "Nominal",
    "Ordinal",
    "QuadraticConstraint",
    "Real",
    "Schedule",
    "Space",
    "SpaceError",
    "Subspace",
    "Trial",
    "canonical_form",
    "joint_space",
    "largest_cell",
]
