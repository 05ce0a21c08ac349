"""Discrete problems of the literature, without epochs and noise: sequences, pests, contamination, satisfiability.

| problem | variables | objective | minimum |
|---|---|---|---|
| labs | h1..h50, binary | minus the merit factor n^2 / 2E of the sequence of signs 2h - 1 | -8.169935 |
| pest_control | h1..h25, 5 nominal values | pesticides' price and share of infested fields, over 25 stages | unknown |
| contamination | h1..h25, binary | preventions plus violations of the limit, over 25 stages | 21.27 |
| maxsat | h1..h60, binary | weight of the clauses that are not satisfied, as a share | unknown |

labs: E is the sum over all shifts of the squared autocorrelation; its minimum, 153, is that of Packebusch and Mertens
(2016). BODi's paper maximises the factor.

pest_control and contamination are of COMBO (Oh et al. 2019). The random numbers of the simulated fields are the same at
every evaluation, and in pest_control at every stage, as in Casmopolitan's and BODi's code; those add noise of 1e-6.
Seeds: 8194, of Casmopolitan's first trial, and 621, of COMBO's first test. In contamination each prevention costs 0.01
more (lambda); `benchmarks/minima.py` finds its minimum by trying all vectors.

maxsat is an instance of our own: 600 clauses of three literals with weights 1 to 10, drawn by RandomState(0).
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from fmnas.search_spaces.variables import Floats
from fmnas.trainers.functions.synthetic import function_problem, mixed_space

STAGES, FIELDS = 25, 100
LIMIT = 0.1
"""A field is infested, or food contaminated, above this fraction."""

PESTS_SEED, CONTAMINATION_SEED = 8194, 621
PRICE = np.array([1.0, 0.8, 0.7, 0.5])
DISCOUNT = np.array([0.2, 0.3, 0.3, 0.0])
EFFECT = np.array([2.0, 3.0, 3.0, 5.0]) / 7.0
"""The second parameter of the Beta(1, b) of which a pesticide's effect is drawn; each use adds TOLERANCE / STAGES."""
TOLERANCE = np.array([1.0, 2.5, 2.0, 0.5]) / 7.0
SPREAD = 17.0 / 3.0
PREVENTION_COST, REQUIRED = 1.01, 0.95

VARIABLES, CLAUSES, LARGEST_WEIGHT = 60, 600, 10


def values(configuration: Mapping[str, Any]) -> np.ndarray:
    """Return the values of h1, h2, ... of a configuration as integers."""
    return np.array([configuration[f"h{j}"] for j in range(1, len(configuration) + 1)], dtype=np.int64)


def labs(configuration: Mapping[str, Any]) -> float:
    """Return minus the merit factor of a binary sequence."""
    signs = 2 * values(configuration) - 1
    n = len(signs)
    energy = int((np.correlate(signs, signs, "full")[n:] ** 2).sum())
    return -n * n / (2 * energy)


def pest_control(configuration: Mapping[str, Any]) -> float:
    """Return the price of the pesticides, and the sum over stages of the share of infested fields."""
    choices = values(configuration)
    uses = np.bincount(choices, minlength=len(PRICE) + 1)[1:]
    price = PRICE * (1.0 - DISCOUNT / STAGES * uses)
    effect, cost, infested = EFFECT.copy(), 0.0, _draw_pests(30.0)
    spread = _draw_pests(SPREAD)
    for choice in choices:
        cost += float((infested > LIMIT).mean())
        if choice == 0:
            infested = infested + spread * (1.0 - infested)
            continue
        infested = (1.0 - _draw_pests(float(effect[choice - 1]))) * infested
        effect[choice - 1] += TOLERANCE[choice - 1] / STAGES
        cost += float(price[choice - 1])
    return cost


@cache
def _draw_pests(b: float) -> Floats:
    """Return the draws of Beta(1, b) for all fields: the generator is seeded again for each."""
    return np.random.RandomState(PESTS_SEED).beta(1.0, b, FIELDS)


def contamination(configuration: Mapping[str, Any]) -> float:
    """Return the cost of the preventions, and how far the share of clean food is from the required one, summed."""
    prevented = values(configuration)
    fraction, contaminating, restoring = _draw_contamination()
    violations = 0.0
    for i, is_prevented in enumerate(prevented):
        lost, gained = (restoring[i], 0.0) if is_prevented else (0.0, contaminating[i])
        fraction = (1.0 - lost) * fraction + gained * (1.0 - fraction)
        violations += REQUIRED - float((fraction < LIMIT).mean())
    return PREVENTION_COST * int(prevented.sum()) + violations


@cache
def _draw_contamination() -> tuple[Floats, Floats, Floats]:
    """Return the first fractions [FIELDS], contamination and restoration rates [STAGES, FIELDS]."""

    def draw(b: float, *shape: int) -> Floats:
        return np.random.RandomState(CONTAMINATION_SEED).beta(1.0, b, shape)

    return draw(30.0, FIELDS), draw(SPREAD, STAGES, FIELDS), draw(3.0 / 7.0, STAGES, FIELDS)


def maxsat(configuration: Mapping[str, Any]) -> float:
    """Return the weight of the clauses that are not satisfied, as a share of all weights."""
    variables, wanted, weights = _draw_clauses()
    is_satisfied = (values(configuration)[variables] == wanted).any(axis=1)
    return float(weights[~is_satisfied].sum() / weights.sum())


@cache
def _draw_clauses() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the variables and wanted values of all literals [CLAUSES, 3], and the weights [CLAUSES]."""
    rng = np.random.RandomState(0)
    variables = np.stack([rng.permutation(VARIABLES)[:3] for _ in range(CLAUSES)])
    return variables, rng.randint(0, 2, (CLAUSES, 3)), rng.randint(1, LARGEST_WEIGHT + 1, CLAUSES)


LABS = function_problem(mixed_space(0, (2,) * 50), labs, penalty=0.0, minimum=-50 * 50 / (2 * 153))
PEST_CONTROL = function_problem(mixed_space(0, (5,) * STAGES), pest_control, penalty=50.0, minimum=None)
CONTAMINATION = function_problem(mixed_space(0, (2,) * STAGES), contamination, penalty=60.0, minimum=21.27)
MAXSAT = function_problem(mixed_space(0, (2,) * VARIABLES), maxsat, penalty=1.0, minimum=None)
