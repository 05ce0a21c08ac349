"""The bend of the objective: it keeps the order, and finds the scale on which an objective is a sum."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fmnas.optimizers import BOFM
from fmnas.optimizers.bend import BENDS, bent, likeliest_bend
from fmnas.optimizers.points import Points
from fmnas.optimizers.posterior import Posterior
from fmnas.optimizers.structures import BLENDED_KERNELS
from fmnas.optimizers.surrogate import FitSettings, Surrogate
from fmnas.optimizers.warps import standardised
from fmnas.search_spaces import Nominal, Real, Space

SPACE = Space([Nominal("a", list(range(6))), Nominal("b", list(range(6))), Real("x", 0.0, 1.0)])
SUMMANDS = np.array([0.0, 1.0, 0.6, 1.4, 0.3, 2.0])


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=20, unique=True), st.sampled_from(list(BENDS)))
def test_a_bend_keeps_the_order_and_standardises(values: list[float], bend: float) -> None:
    y = np.array(values)
    if y.std(ddof=1) < 1e-6:
        return
    u = standardised(y)
    g = bent(u, bend)
    assert (np.diff(g[np.argsort(u, kind="stable")]) >= 0).all()
    assert g.mean() == pytest.approx(0.0, abs=1e-9)
    assert g.std(ddof=1) == pytest.approx(1.0)


def test_no_bend_changes_nothing() -> None:
    u = standardised(np.array([3.0, 1.0, 4.0, 1.5]))
    np.testing.assert_allclose(bent(u, 0.0), u, rtol=1e-12)


def fitted(y: np.ndarray, X: np.ndarray) -> Posterior:
    surrogate = Surrogate(SPACE, BLENDED_KERNELS["modlap"], FitSettings())
    rng = np.random.default_rng(0)
    return surrogate.fit(Points.of(SPACE, X), torch.from_numpy(y), rng).posterior


def test_the_likeliest_bend_is_that_of_the_densities_written_out() -> None:
    rng = np.random.default_rng(1)
    X = SPACE.sample_encoded(rng, 12)
    u = standardised(SUMMANDS[X[:, 1].astype(int)] ** 2 + rng.normal(size=12))
    posterior = fitted(u, X)
    A = np.linalg.inv(posterior.inverse.numpy())

    def density(bend: float) -> float:
        """log p(u | A, bend) at the best mean and scale, plus the prior's."""
        g = np.expm1(bend * u) / bend if bend else u
        one = np.ones(12)
        mean = one @ np.linalg.solve(A, g) / (one @ np.linalg.solve(A, one))
        scale = (g - mean) @ np.linalg.solve(A, g - mean) / 12
        return float(multivariate_normal(mean * one, scale * A).logpdf(g) + bend * u.sum() - bend**2 / 2)

    assert likeliest_bend(posterior, u) == max(BENDS, key=density)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("logarithm", 0.25, 2.0), ("itself", -0.25, 0.25), ("square", -1.0, -0.25)]
)
def test_a_sum_is_recognised_through_what_hides_it(name: str, low: float, high: float) -> None:
    hide = {"logarithm": np.log, "itself": np.asarray, "square": np.square}[name]
    X = SPACE.sample_encoded(np.random.default_rng(2), 40)
    total = 1.0 + SUMMANDS[X[:, 1].astype(int)] + SUMMANDS[::-1][X[:, 2].astype(int)] + X[:, 0]
    u, bend = standardised(hide(total)), 0.0
    for _ in range(4):
        bend = likeliest_bend(fitted(bent(u, bend), X), u)
    assert low <= bend <= high


def test_a_trial_remembers_the_bend_it_was_asked_with() -> None:
    opt, again = (BOFM(SPACE, seed=3) for _ in range(2))
    for _ in range(16):
        trial = opt.ask()
        assert trial is not None
        if trial.memo:
            assert trial.memo[-1] in BENDS
        again.restore(trial)
        a, b = trial.configuration["a"], trial.configuration["b"]
        value = float(np.log(1.0 + SUMMANDS[a] + SUMMANDS[::-1][b] + trial.configuration["x"]))
        opt.tell(trial, value)
        again.tell(trial, value)
    assert trial.memo[-1] != 0.0
    assert again.ask() == opt.ask()
