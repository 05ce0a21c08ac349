"""Slice sampling draws from the density, and stays in its support."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import kstest

from fmnas.baselines.slice_sampling import MAX_DOUBLINGS, slice_sample


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


def neal_step(f: Callable[[float], float], x0: float, w: float, rng: np.random.Generator) -> float:
    """The next state by Neal's Figures 4 (doubling), 5 (shrinkage) and 6 (acceptance), with the names of the paper."""
    y = f(x0) - rng.exponential()
    L = x0 - w * rng.random()
    R = L + w
    for _ in range(MAX_DOUBLINGS):
        if y >= f(L) and y >= f(R):
            break
        L, R = (L - (R - L), R) if rng.random() < 0.5 else (L, R + (R - L))
    low, high = L, R
    while True:
        x1 = low + rng.random() * (high - low)
        left, right, D, accepted = L, R, False, y < f(x1)
        while accepted and right - left > 1.1 * w:
            M = (left + right) / 2
            D = D or (x0 < M <= x1) or (x1 < M <= x0)
            left, right = (left, M) if x1 < M else (M, right)
            accepted = not (D and y >= f(left) and y >= f(right))
        if accepted:
            return x1
        low, high = (x1, high) if x1 < x0 else (low, x1)


@pytest.mark.parametrize("width", [0.02, 0.3, 3.0])
def test_each_step_is_that_of_the_paper_s_figures(width: float) -> None:
    """From the same random numbers, on three narrow modes, between which many candidates are refused."""

    def log_density(x: float) -> float:
        return max(-0.5 * ((x - centre) / 0.2) ** 2 for centre in (-2.0, 0.0, 3.0))

    x, rng, again = 0.1, np.random.default_rng(0), np.random.default_rng(0)
    for _ in range(300):
        before, x = x, slice_sample(log_density, x, width, rng)
        assert x == pytest.approx(neal_step(log_density, before, width, again), rel=1e-12)


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
