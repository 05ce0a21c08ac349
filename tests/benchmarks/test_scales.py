"""The share of a problem that is a sum over its variables."""

import numpy as np
import pytest
import scales

from fmnas.search_spaces import Nominal, Real, Space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("a", [0, 1, 2]), Nominal("b", [0, 1, 2])])


def test_a_sum_is_all_of_itself_and_pure_interaction_has_none() -> None:
    X = scales.points(SPACE, 4000, np.random.default_rng(0))
    a, b = X[:, 1] - 1.0, X[:, 2] - 1.0
    assert scales.additive_share(SPACE, X, a**2 - 3 * b) == pytest.approx(1.0, abs=1e-6)
    assert scales.additive_share(SPACE, X, X[:, 0]) == pytest.approx(1.0, abs=2e-3)  # 32 steps for a slope
    assert scales.additive_share(SPACE, X, a * b) == pytest.approx(0.0, abs=0.02)
    assert scales.additive_share(SPACE, X, a + a * b) == pytest.approx(0.6, abs=0.03)  # variances 2/3 and 4/9


def test_points_near_an_optimum_have_each_of_its_values_half_of_the_time() -> None:
    optimum = np.array([0.25, 1.0, 2.0])
    X = scales.points(SPACE, 4000, np.random.default_rng(0), optimum)
    assert (X[:, 0] == 0.25).mean() == pytest.approx(0.5, abs=0.03)
    assert (X[:, 1:] == optimum[1:]).mean() == pytest.approx(2 / 3, abs=0.03)
