"""Suggestions of every optimizer where the objective is lowest on the boundary of what is feasible.

A function may take the root of what is left to the bound: it must be 0 or more in floating point, without a tolerance.
"""

import math
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import BayesianOptimizer, random_design
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import get_parameters
from fmnas.platform.registry import OPTIMIZERS, OptimizerEntry
from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, QuadraticConstraint, Real, Space

pytestmark = pytest.mark.slow

SLOW = {"smac": {"challengers": 20, "local_searches": 1}, "botorch": {"fit_steps": 5, "raw_samples": 8, "restarts": 1}}
FIT = FitSettings(starts=1, screening=0, finalists=1)
SEARCH = SearchSettings(random_points=60, spray_points=20, starts=2)
VARIABLES = (Real("x", 0.0, 1.0), Real("rate", 1e-3, 1.0, log=True), Integer("k", 0, 2))
WEIGHTS = st.floats(0.5, 2.0)


def optimizer_of(row: OptimizerEntry, space: Space) -> Any:
    """It, with any model quick and a short design."""
    taken = get_parameters(row.optimizer)
    provided = {"seed": 0, "epochs": 3, "initial_design": random_design(space, 4, 0)}
    optimizer = row.optimizer(space, **{k: v for k, v in provided.items() if k in taken}, **SLOW.get(row.name, {}))
    if isinstance(optimizer, BayesianOptimizer):
        optimizer.settings = replace(optimizer.settings, fit=FIT, search=SEARCH)
    return optimizer


@pytest.mark.parametrize("row", OPTIMIZERS.values(), ids=list(OPTIMIZERS))
@pytest.mark.parametrize("curved", [False, True], ids=["linear", "quadratic"])
@given(a=WEIGHTS, b=WEIGHTS, bound=st.floats(0.4, 0.9))
@settings(max_examples=3)
def test_the_root_of_what_is_left_is_real(row: OptimizerEntry, curved: bool, a: float, b: float, bound: float) -> None:
    pairs = {("x", "x"): a, ("rate", "rate"): b}
    constraint = QuadraticConstraint({}, pairs, bound) if curved else LinearConstraint({"x": a, "rate": b}, bound)
    optimizer = optimizer_of(row, Space(VARIABLES, [constraint]))
    for _ in range(8 if row.name in SLOW else 16):
        trial = optimizer.ask()
        c = trial.configuration
        terms = (a * c["x"] * c["x"], b * c["rate"] * c["rate"]) if curved else (a * c["x"], b * c["rate"])
        left = [left for one, other in permutations(terms) for left in (bound - one - other, bound - (one + other))]
        value = math.sqrt(min(left)) - c["x"] - c["rate"] + 0.1 * c["k"]
        optimizer.tell(trial, Evaluation(value, 0.0, trial.epochs))
