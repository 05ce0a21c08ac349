"""Output warpings preserve the order of objectives; the most likely one makes the objective additive."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from fmnas.optimizers import BOFM
from fmnas.optimizers.gp.fit import Fit, FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping, identity, log_above_median, most_likely_warping
from fmnas.optimizers.gp.points import Points, standardise, unfittable_reason
from fmnas.optimizers.gp.process import FitError, Posterior
from fmnas.search_spaces import Nominal, Real, Space

SPACE = Space([Nominal("a", list(range(6))), Nominal("b", list(range(6))), Real("x", 0.0, 1.0)])
SUMMANDS = np.array([0.0, 1.0, 0.6, 1.4, 0.3, 2.0])


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=20, unique=True), st.sampled_from(WARPINGS))
def test_a_scale_keeps_the_order_and_standardises(values: list[float], warping: Warping) -> None:
    y = np.array(values)
    if y.std(ddof=1) < 1e-6:
        return
    g = warping.apply(y)
    assert (np.diff(g[np.argsort(y, kind="stable")]) >= 0).all()
    assert g.mean() == pytest.approx(0.0, abs=1e-9)
    assert g.std(ddof=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("y", "why"),
    [
        ([1.0], "fewer than two results to model"),
        ([0.0, 0.0], "all results are equal: nothing to model"),
        ([1e9, 1e9], "all results are equal: nothing to model"),
        ([3.0, 3.0 + 4e-16], "all results are equal: nothing to model"),
        ([1e-13, 1e-13 * (1 + 4e-16)], "all results are equal: nothing to model"),
        ([1e-13, 1.6e-13], ""),
        ([1.0, 1.0 + 1e-11], ""),
    ],
)
def test_results_of_any_size_are_modelled_unless_they_are_equal(y: list[float], why: str) -> None:
    assert unfittable_reason(np.array(y)) == why


def test_softness_is_linear_below_the_median_and_logarithmic_above() -> None:
    y = np.array([0.0, 1.0, 2.0, 3.0, 1000.0])  # median 2, lower quartile 1
    expected = standardise(np.array([-2.0, -1.0, 0.0, np.log(2.0), np.log(999.0)]))
    np.testing.assert_allclose(log_above_median(y)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("lowest", [0.0, 2.0])
def test_where_a_quarter_equals_the_median_the_unit_is_the_next_distance(lowest: float) -> None:
    """That of the lowest value, or of the median of the worse ones."""
    y = np.array([lowest, 2.0, 2.0, 2.0, 5.0, 9.0])
    unit = 2.0 if lowest < 2.0 else 5.0
    expected = standardise(np.array([(lowest - 2.0) / unit, 0.0, 0.0, 0.0, np.log1p(3.0 / unit), np.log1p(7.0 / unit)]))
    np.testing.assert_allclose(log_above_median(y)[0], expected, rtol=1e-12)


@given(
    st.lists(st.floats(-3, 3), min_size=8, max_size=20, unique=True),
    st.sampled_from([1e4, 1e7, 1e9]),
    st.integers(1, 2),
)
def test_penalties_leave_the_others_apart(values: list[float], penalty: float, count: int) -> None:
    """However large: those below the median keep at least a hundredth of the spread that they have without."""
    y = np.array(sorted(values))
    assume(np.ptp(y[: len(y) // 2]) >= 1e-3)
    good = slice(len(y) // 2)
    without, with_ = log_above_median(y)[0], log_above_median(np.append(y, count * [penalty]))[0]
    assert np.ptp(with_[good]) > 0.01 * np.ptp(without[good])


@pytest.mark.parametrize("warp", [identity, log_above_median])
def test_the_slope_of_a_warp_is_that_of_finite_differences(warp: str) -> None:
    """The quantiles and moments of the data stay unchanged: with this number of points one more does not move them."""
    y = np.random.default_rng(0).gumbel(size=4001)
    u, log_slope = warp(y)
    order = np.argsort(y)
    between = np.log(np.diff(u[order]) / np.diff(y[order]))
    assert log_slope / len(y) == pytest.approx(between.mean(), abs=2e-3)


def fit_model(y: np.ndarray, X: np.ndarray) -> Posterior:
    surrogate = Surrogate(FMKernel(SPACE, BLENDED_KERNELS["modlap"]), FitSettings())
    rng = np.random.default_rng(0)
    return surrogate.fit(Points.from_encoded(SPACE, X), torch.from_numpy(y), rng).posterior


@pytest.mark.parametrize("n", [3, 5, 12])
@pytest.mark.parametrize("seed", range(4))
def test_the_likeliest_scale_is_that_of_the_densities_written_out(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    X = SPACE.sample_encoded(rng, n)
    y = SUMMANDS[X[:, 1].astype(int)] ** 2 + rng.normal(size=n)
    posterior = fit_model(standardise(y), X)
    A = np.linalg.inv(posterior.inverse.numpy())

    def density(warping: Warping) -> float:
        """log p(y | A, scale) at the best mean and output scale, plus the prior's."""
        (u, log_slope), bend = warping.warp(y), warping.bend
        g = np.expm1(bend * u) / bend if bend else u
        one = np.ones(n)
        mean = one @ np.linalg.solve(A, g) / (one @ np.linalg.solve(A, one))
        variance = (g - mean) @ np.linalg.solve(A, g - mean) / n
        normal = multivariate_normal(mean * one, variance * A).logpdf(g)
        return float(normal + log_slope + bend * u.sum() - bend**2 / 2)

    assert most_likely_warping(posterior, y, WARPINGS) == max(WARPINGS, key=density)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("logarithm", 0.25, 2.0), ("itself", -0.25, 0.25), ("square", -1.0, -0.25)]
)
def test_a_sum_is_recognised_through_what_hides_it(name: str, low: float, high: float) -> None:
    hide = {"logarithm": np.log, "itself": np.asarray, "square": np.square}[name]
    X = SPACE.sample_encoded(np.random.default_rng(2), 40)
    total = 1.0 + SUMMANDS[X[:, 1].astype(int)] + SUMMANDS[::-1][X[:, 2].astype(int)] + X[:, 0]
    y, warping = hide(total), Warping()
    for _ in range(4):
        warping = most_likely_warping(
            fit_model(warping.apply(y), X), y, [warping for warping in WARPINGS if warping.warp is identity]
        )
    assert low <= warping.bend <= high


def test_a_long_tail_is_seen_softly_and_none_plainly() -> None:
    X = SPACE.sample_encoded(np.random.default_rng(2), 40)
    total = 1.0 + SUMMANDS[X[:, 1].astype(int)] + SUMMANDS[::-1][X[:, 2].astype(int)] + X[:, 0]
    tail = np.where(total > np.median(total), total + np.expm1(3.0 * (total - np.median(total))), total)
    for y, warp in ((total, identity), (tail, log_above_median)):
        warping = Warping()
        for _ in range(4):
            warping = most_likely_warping(
                fit_model(warping.apply(y), X), y, [Warping(identity), Warping(log_above_median)]
            )
        assert warping.warp == warp


class NoSecondFit(BOFM):
    """The first fit of an ask goes well, one under another warping does not. failures: of these."""

    fitted_in, failures = -1, 0

    def _fit_warped(self, points: Points, y: np.ndarray, rng: np.random.Generator, restart: bool) -> Fit:
        if self.fitted_in == self._asked:
            self.failures += 1
            raise FitError("no second fit")
        self.fitted_in = self._asked
        return super()._fit_warped(points, y, rng, restart)


def test_where_the_fit_under_another_warping_failed_the_first_one_is_used_and_remembered() -> None:
    opt, again = (NoSecondFit(SPACE, seed=3) for _ in range(2))
    for _ in range(13):
        trial = opt.ask()
        assert trial.fallback == ""
        again.restore(trial)
        assert again._current_warping() == opt._current_warping()
        assert (again._last_eta is None) == (opt._last_eta is None)
        assert again._last_eta is None or torch.equal(again._last_eta, opt._last_eta)
        value = float(np.log(1.0 + SUMMANDS[trial.configuration["a"]] + trial.configuration["x"]))
        opt.tell(trial, value)
        again.tell(trial, value)
    assert opt.failures > 0
