"""Slice sampling draws from the density, and stays in its support."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import kstest

from fmnas.baselines.slice_sampling import slice_sample


def chain(log_density: Callable[[float], float], start: float, width: float, count: int) -> np.ndarray:
    rng, x, states = np.random.default_rng(0), start, []
    for _ in range(count):
        x = slice_sample(log_density, x, width, rng)
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("width", [0.1, 1.0, 20.0])
def test_a_normal_is_drawn_whatever_the_width(width: float) -> None:
    states = chain(lambda x: -0.5 * x * x, 5.0, width, 4_000)[100::4]
    assert kstest(states, "norm").pvalue > 1e-3


def test_a_density_with_two_modes_is_drawn_by_the_reversible_rule() -> None:
    """Without the check of reversibility the narrow mode gets another share."""
    centres, deviations = np.array([-4.0, 4.0]), np.array([0.3, 2.0])

    def log_density(x: float) -> float:
        return float(np.logaddexp.reduce(-0.5 * ((x - centres) / deviations) ** 2 - np.log(deviations)))

    states = chain(log_density, 0.0, 1.0, 20_000)
    assert (states < -1).mean() == pytest.approx(0.5, abs=0.05)


def test_the_published_error_takes_the_lower_end_for_the_upper() -> None:
    """An interval whose lower end is outside does not grow upwards any more, wherever its upper end is."""
    seen: list[list[float]] = []
    for published_error in (False, True):
        asked: list[float] = []

        def log_density(x: float, asked: list[float] = asked) -> float:
            asked.append(x)
            return -math.inf if x < 0 else -x * 1e-6

        rng = np.random.default_rng(0)
        for _ in range(200):
            slice_sample(log_density, 0.01, 0.5, rng, published_error)
        seen.append(asked)
    assert max(seen[1]) < max(seen[0])


def test_states_outside_the_support_are_never_drawn() -> None:
    states = chain(lambda x: 0.0 if 0.0 <= x <= 2.0 else -math.inf, 1.0, 0.5, 2_000)
    assert 0.0 <= states.min() < 0.05
    assert 1.95 < states.max() <= 2.0
    assert kstest(states[::3] / 2.0, "uniform").pvalue > 1e-3
