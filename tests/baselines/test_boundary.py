"""Suggestions of every optimizer where the objective is lowest on the boundary of what is feasible.

A function may take the root of what is left to the bound: it must be 0 or more in floating point, without a tolerance.
"""

import math
from itertools import permutations

import pytest
from contract_subjects import SLOW_TO_ASK, SUBJECTS

from fmnas.platform.registry import OPTIMIZERS
from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, QuadraticConstraint, Real, Space

pytestmark = pytest.mark.slow

VARIABLES = (Real("x", 0.0, 1.0), Real("rate", 1e-3, 1.0, log=True), Integer("k", 0, 2))
A, B, BOUND = 1.3, 0.7, 0.6


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("curved", [False, True], ids=["linear", "quadratic"])
def test_the_root_of_what_is_left_is_real(name: str, curved: bool) -> None:
    pairs = {("x", "x"): A, ("rate", "rate"): B}
    constraint = QuadraticConstraint({}, pairs, BOUND) if curved else LinearConstraint({"x": A, "rate": B}, BOUND)
    optimizer = SUBJECTS[name].build(Space(VARIABLES, [constraint]), 0)
    for _ in range(7 if name in SLOW_TO_ASK else 20):
        trial = optimizer.ask()
        c = trial.configuration
        terms = (A * c["x"] * c["x"], B * c["rate"] * c["rate"]) if curved else (A * c["x"], B * c["rate"])
        left = [left for one, other in permutations(terms) for left in (BOUND - one - other, BOUND - (one + other))]
        value = math.sqrt(min(left)) - c["x"] - c["rate"] + 0.1 * c["k"]
        optimizer.tell(trial, Evaluation(value, trial.epochs))
