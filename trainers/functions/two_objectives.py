"""A problem with two objectives whose Pareto front is known: ZDT1 (Zitzler, Deb, Thiele 2000) on mixed variables.

    f1 = x1,   f2 = g (1 - sqrt(f1 / g)),   g = 1 + 9 mean(x2, x3, h1 / 4, ..., h4 / 4)

ZDT1 has thirty reals in [0, 1]; here are three, and four nominal variables with the values 0 to 4. The front is that of
ZDT1: f2 = 1 - sqrt(f1) from f1 = 0 to 1, where g = 1. No result is beyond the reference point (1, 10), and up to it the
front dominates 10 - 1 / 3. Optimizers of one objective minimise f1 + f2: 0.75 at f1 = 1 / 4.
"""

from collections.abc import Mapping
from math import sqrt
from typing import Any

from fmnas.search_spaces import Nominal, Real, Space
from fmnas.trainers.functions.objective import EQUAL_WEIGHTS, FunctionTrainer, weighted_sum
from fmnas.trainers.problem import Problem

LEVELS = 5
SPACE = Space(
    [*(Real(f"x{i}", 0.0, 1.0) for i in (1, 2, 3)), *(Nominal(f"h{j}", tuple(range(LEVELS))) for j in (1, 2, 3, 4))]
)
OBJECTIVES = {"f1": 1.0, "f2": 10.0}


def zdt1_mixed(configuration: Mapping[str, Any]) -> tuple[float, float]:
    """f1 and f2, both to be minimised."""
    reals = [float(configuration[f"x{i}"]) for i in (2, 3)]
    levels = [configuration[f"h{j}"] / (LEVELS - 1) for j in (1, 2, 3, 4)]
    f1, g = float(configuration["x1"]), 1.0 + 9.0 * sum([*reals, *levels]) / 6
    return f1, g * (1.0 - sqrt(f1 / g))


ZDT1_MIXED = Problem(
    space=SPACE,
    build=lambda data, hardware: FunctionTrainer(SPACE, zdt1_mixed, weights=EQUAL_WEIGHTS),
    penalty=11.0,
    minimum=0.75,
    objective=weighted_sum(OBJECTIVES),
    objectives=OBJECTIVES,
)
