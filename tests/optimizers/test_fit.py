"""The fast Gaussian process equals the slow one: likelihood, gradient, posterior. Fits are as good as they must be."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.optimizers.gp.fit import PAPER_FIT, Fit, FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel, weight
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.power_kernel import POWER_KERNELS
from fmnas.optimizers.gp.process import FitError, Likelihood, Posterior
from fmnas.optimizers.kernels import AddDif, AddLap, ModDif, ModLap, ProdDif, ProdLap
from fmnas.search_spaces import Integer, Nominal, Real, Space, joint_space
from fmnas.search_spaces.variables import laplacian

GOLDEN = json.loads((Path(__file__).parent / "golden_fit.json").read_text())
SLOW = {kernel.__name__.lower(): kernel for kernel in (ModLap, ModDif, ProdLap, ProdDif, AddLap, AddDif)}
F = {"lap": lambda b: 1 / (1 + b), "dif": lambda b: np.exp(-b)}
NAMES = st.sampled_from(
    [*FAST_KERNELS, *POWER_KERNELS, *(f"blended-{name}" for name in (*BLENDED_KERNELS, *POWER_KERNELS))]
)


def slow_factor(name: str, L: np.ndarray, d2: float, similarity: float, v: dict[str, Any], p: int) -> np.ndarray:
    """[V, V]: f as a matrix function of a Laplacian L [V, V], for one of POWER_KERNELS."""

    def power(u: float, rho: int) -> np.ndarray:
        return np.linalg.matrix_power(np.linalg.inv(u * np.eye(len(L)) + v["beta"][p] * L), rho)

    if name == "kernel-modulated":
        return power(2.0 - similarity, 1)
    (a1, a2), alpha = v["weights"], v["alpha"][p]
    return power(1 + alpha * d2, 1) + a1 * power(1 + alpha * d2, 2) + a2 * power(1 + alpha * d2**0.5, 1)


def slow_similarity(c: np.ndarray, d: np.ndarray, v: dict[str, Any]) -> float:
    """k_NN of two points in the unit cube."""
    S, x, z = np.diag([*v.get("bias", [1.0]), *v["theta"] ** -2]), np.array([1, *c - 0.5]), np.array([1, *d - 0.5])
    return 2 / math.pi * math.asin(2 * x @ S @ z / math.sqrt((1 + 2 * x @ S @ x) * (1 + 2 * z @ S @ z)))


def slow_power_gram(problem: Any, name: str, X: np.ndarray, Z: np.ndarray) -> list[np.ndarray]:
    """The factor of each discrete variable [m, n], divided by its mean over vertices."""
    space, D = problem.space, len(problem.space.continuous)
    v = {k: value[0].numpy() for k, value in problem.likelihood.parameters.values(problem.eta[None]).items()}
    graphs = [laplacian(variable.adjacency) for variable in space.discrete] or [np.zeros((1, 1))]
    typical = np.full(D, 0.5 + 12**-0.5)
    at_home = 0.0, slow_similarity(typical, typical, v)
    V = (lambda x: x[D:].astype(int)) if space.discrete else (lambda x: np.zeros(1, int))

    def entry(p: int, x: np.ndarray, z: np.ndarray) -> float:
        d2 = float((((x[:D] - z[:D]) / v["theta"]) ** 2).sum())
        factor = slow_factor(name, graphs[p], d2, slow_similarity(x[:D], z[:D], v), v, p)
        mean = np.trace(slow_factor(name, graphs[p], *at_home, v, p)) / len(factor)
        return float(factor[V(x)[p], V(z)[p]] / mean)

    return [np.array([[entry(p, x, z) for z in Z] for x in X]) for p in range(len(graphs))]


def slow_correlation(problem: Any, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """R between X and Z by matrix functions, or by the gpytorch kernels, each factor divided by its mean."""
    space, name = problem.space, problem.kernel.removeprefix("blended-")
    D, P = len(space.continuous), len(space.discrete)
    values = problem.likelihood.parameters.values(problem.eta[None])
    w = weight(values).item()
    if name in POWER_KERNELS:
        factors = np.stack(slow_power_gram(problem, name, X, Z))
        share = w if name != problem.kernel else 0.0
        return np.asarray((1 - share) * factors.prod(0) + share * factors.mean(0))
    means = np.array(
        [F[name[-3:]](values["beta"][0, p].item() * v.spectrum[0]).mean() for p, v in enumerate(space.discrete)]
    )

    def gram(chosen: list[int]) -> np.ndarray:
        """By the discrete variables `chosen` alone."""
        kernel = SLOW[name](Space([*space.continuous, *(space.discrete[p] for p in chosen)]))
        scale = means[chosen].prod()
        if D:
            kernel.lengthscale = values["theta"]
        if chosen:
            kernel.beta = values["beta"][0, chosen]
            if name.startswith("mod"):
                kernel.alpha = values["alpha"][0, chosen]
        if name.startswith("add"):
            kernel.weights = torch.tensor([w, (1 - w) / scale])
            scale = 1.0
        columns = [*range(D), *(D + p for p in chosen)]
        return kernel.forward(*(torch.from_numpy(points[:, columns]) for points in (X, Z))).detach().numpy() / scale

    whole = gram(list(range(P)))
    if P and name != problem.kernel:
        return (1 - w) * whole + w * np.mean([gram([p]) for p in range(P)], axis=0)
    return whole


def fit(problem: Any, settings: FitSettings, seed: int) -> Fit:
    surrogate = Surrogate(problem.likelihood.kernel, settings)
    return surrogate.fit(problem.points, problem.y, np.random.default_rng(seed))


def slow_nll(R: np.ndarray, g: float, y: Tensor, mu: float, s2: float) -> float:
    covariance = s2 * (torch.from_numpy(R) + g * torch.eye(len(y)).double())
    normal = torch.distributions.MultivariateNormal(torch.full_like(y, mu), covariance)
    return -normal.log_prob(y).item() / len(y)


def value_at(likelihood: Likelihood, eta: Tensor) -> float:
    return likelihood(eta[None], torch.arange(1))[0].item()


@given(data=st.data(), n=st.integers(2, 10), seed=st.integers(0, 2**32), name=NAMES)
@settings(max_examples=40)
def test_likelihood_is_that_of_a_multivariate_normal(
    data: st.DataObject, spaces: Any, make_problem: Any, n: int, seed: int, name: str
) -> None:
    problem = make_problem(data.draw(spaces), n, seed, name)
    R = slow_correlation(problem, problem.X, problem.X)
    fitted = problem.plug_in
    fast = value_at(problem.likelihood, problem.eta)
    assert fast == pytest.approx(slow_nll(R, fitted.g, problem.y, fitted.mu, fitted.s2), rel=1e-7, abs=1e-8)
    for mu, s2 in ((0.05, 1.0), (-0.05, 1.0), (0.0, 1.1), (0.0, 0.9)):  # mean and scale are already the best ones
        assert slow_nll(R, fitted.g, problem.y, fitted.mu + mu, fitted.s2 * s2) > fast - 1e-9


def check_gradient(problem: Any) -> None:
    eta, step = problem.eta, 1e-5
    gradient = problem.likelihood(eta[None], torch.arange(1))[1][0]
    for k in range(len(eta)):
        move = torch.zeros_like(eta)
        move[k] = step
        slope = (value_at(problem.likelihood, eta + move) - value_at(problem.likelihood, eta - move)) / (2 * step)
        assert gradient[k].item() == pytest.approx(slope, rel=1e-4, abs=1e-6)


@given(data=st.data(), n=st.integers(3, 9), seed=st.integers(0, 2**32), name=NAMES)
@settings(max_examples=40)
def test_gradient_equals_finite_differences(
    data: st.DataObject, spaces: Any, make_problem: Any, n: int, seed: int, name: str
) -> None:
    check_gradient(make_problem(data.draw(spaces), n, seed, name))


@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_a_kernel_may_fix_the_output_scale(
    scale: float, make_problem: Any, space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(space, 8)
    estimated, ratio = problem.plug_in, slow_correlation(problem, problem.X, problem.X)
    monkeypatch.setattr(problem.likelihood.kernel, "output_scale", scale)
    expected = slow_nll(ratio, estimated.g, problem.y, estimated.mu, scale)
    assert value_at(problem.likelihood, problem.eta) == pytest.approx(expected, rel=1e-7)
    check_gradient(problem)
    fixed, new = problem.plug_in, Points.from_encoded(space, space.sample_encoded(np.random.default_rng(1), 5))
    for posterior in (fixed, fixed.with_observations(new, torch.zeros(5).double())):
        assert posterior.s2 == scale
    (mean, variance), (same, other) = fixed.predict(new), estimated.predict(new)
    np.testing.assert_allclose(mean, same)
    np.testing.assert_allclose(variance / scale, other / estimated.s2)


def test_a_batch_of_parameters_equals_a_loop(make_problem: Any, space: Space, kernel: str) -> None:
    problem = make_problem(space, 8, kernel=kernel)
    etas = problem.likelihood.parameters.starts(np.random.default_rng(1), 5)
    values, gradients = problem.likelihood(etas, torch.arange(5))
    for b in range(5):
        value, gradient = problem.likelihood(etas[b : b + 1], torch.tensor([b]))
        np.testing.assert_allclose(values[b], value[0], rtol=1e-10)
        np.testing.assert_allclose(gradients[b], gradient[0], rtol=1e-8, atol=1e-12)


def test_a_batch_too_large_for_the_cache_is_split(make_problem: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    space = joint_space()
    whole = make_problem(space, 12)
    monkeypatch.setattr("fmnas.optimizers.gp.process.MAX_BATCH_ELEMENTS", 1)
    split = make_problem(space, 12)
    etas = whole.likelihood.parameters.starts(np.random.default_rng(1), 3)
    for a, b in zip(whole.likelihood(etas, torch.arange(3)), split.likelihood(etas, torch.arange(3)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@given(data=st.data(), n=st.integers(2, 9), seed=st.integers(0, 2**32), name=NAMES)
@settings(max_examples=40)
def test_posterior_is_the_textbooks(
    data: st.DataObject, spaces: Any, make_problem: Any, n: int, seed: int, name: str
) -> None:
    problem = make_problem(data.draw(spaces), n, seed, name)
    Z = problem.space.sample_encoded(np.random.default_rng(seed + 1), 5)
    Z[0] = problem.X[0]
    posterior, plug_in, y = problem.posterior, problem.plug_in, problem.y.numpy()
    g = problem.eta[-1].exp().item()
    A = slow_correlation(problem, problem.X, problem.X) + g * np.eye(n)
    R, ones = slow_correlation(problem, Z, problem.X), np.ones(n)
    solved, k = np.linalg.solve(A, ones), np.linalg.solve(A, R.T)
    mu = solved @ y / (solved @ ones)
    squares = (y - mu) @ np.linalg.solve(A, y - mu)
    prior = np.diag(slow_correlation(problem, Z, Z))
    points = Points.from_encoded(problem.space, Z)
    r, own = posterior.conditioned.correlate(points)
    np.testing.assert_allclose(own, prior, rtol=1e-8)
    np.testing.assert_allclose(r, R, rtol=1e-7, atol=1e-10)
    known = prior - np.einsum("ij,ji->i", R, k)
    estimated = known + (1 - ones @ k) ** 2 / (solved @ ones)
    for process, expected in ((plug_in, squares / n * known), (posterior, squares / (n - 1) * estimated)):
        mean, variance = process.predict(points)
        np.testing.assert_allclose(mean, mu + R @ np.linalg.solve(A, y - mu), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variance, np.maximum(expected, 1e-12), rtol=1e-5, atol=1e-8)


def test_correlation_is_1_on_the_diagonal_on_average(make_problem: Any, space: Space, kernel: str) -> None:
    problem = make_problem(space, 5, kernel=kernel)
    if space.discrete:
        shape = [len(v.vertices) for v in space.discrete]
        V = torch.from_numpy(np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1))
    else:
        V = torch.zeros(1, 1, dtype=torch.int64)
    posterior = problem.posterior
    C = torch.full((len(V), len(space.continuous)), 0.5 + 12**-0.5, dtype=torch.float64)  # deviates as much as most
    _, own = posterior.conditioned.correlate(Points(C, V))
    assert own.mean().item() == pytest.approx(1.0, rel=1e-10)


def test_prediction_in_chunks_equals_prediction_at_once(make_problem: Any, space: Space) -> None:
    problem = make_problem(space, 6)
    many = Points.from_encoded(space, space.sample_encoded(np.random.default_rng(3), 1100))
    mean, variance = problem.posterior.predict(many)
    assert mean.shape == variance.shape == (1100,)
    for at in (0, 511, 512, 1099):
        one, spread = problem.posterior.predict(many.select(slice(at, at + 1)))
        assert mean[at].item() == pytest.approx(one.item(), rel=1e-10, abs=1e-12)
        assert variance[at].item() == pytest.approx(spread.item(), rel=1e-8)


def golden_data() -> tuple[Space, Points, Tensor]:
    space, X, bounds = joint_space(), np.array(GOLDEN["X"]), np.array(GOLDEN["bounds"])
    X[:, :6] = (X[:, :6] - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
    y = np.array(GOLDEN["y"])
    return space, Points.from_encoded(space, X), torch.from_numpy((y - y.mean()) / y.std(ddof=1))


@pytest.mark.parametrize("seed", [0, 1])
def test_fit_of_the_golden_data_beats_a_converged_reference(seed: int) -> None:
    space, points, y = golden_data()
    result = Surrogate(FMKernel(space, FAST_KERNELS["modlap"]), PAPER_FIT).fit(points, y, np.random.default_rng(seed))
    assert result.nll <= min(GOLDEN["nll_per_point"]) - 0.01


def test_fit_is_at_least_as_good_as_any_of_its_starts(make_problem: Any, space: Space, kernel: str) -> None:
    problem = make_problem(space, 12, kernel=kernel)
    result = fit(problem, FitSettings(starts=4, screening=5, finalists=2, prior=False), seed=7)
    starts = problem.likelihood.parameters.starts(np.random.default_rng(7), 4)
    values = problem.likelihood(problem.likelihood.parameters.box.clip(starts), torch.arange(4))[0]
    assert result.nll <= values.min().item() + 1e-12
    assert result.nll == pytest.approx(value_at(problem.likelihood, result.posterior.eta), rel=1e-9)
    box = problem.likelihood.parameters.box
    assert (result.posterior.eta == box.clip(result.posterior.eta)).all()
    assert result.posterior.g == pytest.approx(result.posterior.eta[-1].exp().item())


def test_fit_without_a_finite_likelihood_is_an_error(make_problem: Any) -> None:
    problem = make_problem(joint_space(), 5)
    surrogate = Surrogate(FMKernel(problem.space, FAST_KERNELS["modlap"]), FitSettings(starts=3, screening=2))
    with pytest.raises(FitError, match=r"no start .* 5 observations"):
        surrogate.fit(problem.points, problem.y * math.nan, np.random.default_rng(0))


def test_a_matrix_that_is_not_positive_definite_is_an_error(make_problem: Any) -> None:
    likelihood = make_problem(joint_space(), 5).likelihood
    with pytest.raises(FitError, match="5 observations"):
        Posterior(likelihood, torch.full_like(likelihood.parameters.box.lower, math.nan))


def test_the_prior_adds_its_normal_density(make_problem: Any, space: Space, kernel: str) -> None:
    problem = make_problem(space, 6, kernel=kernel)
    plain = problem.likelihood
    bent = Likelihood(plain.kernel, problem.points, problem.y, prior=True)
    D, P = len(space.continuous), max(len(space.discrete), 1)
    alpha, beta = (1.0 / (max(D, 1) * P), 1.5), (0.5 * P, 1.5)
    own = {"mixture": [(1.0, 1.5)] * 2, "kernel-modulated": [(1.0, 1.0)]}.get(kernel.removeprefix("blended-"), [])
    medians, deviations = np.array([*[(0.5, 1.0)] * D, *[alpha] * P, *[beta] * P, (1.0, 1.5), *own, (1e-3, 2.5)]).T
    scaled = (problem.eta.numpy() - np.log(medians)) / deviations
    correlation = np.eye(len(scaled))
    for block in (slice(D), slice(D, D + P), slice(D + P, D + 2 * P)):
        correlation[block, block] += 0.5 * (1.0 - np.eye(len(correlation[block, block])))
    expected = 0.5 * float(scaled @ np.linalg.solve(correlation, scaled)) / 6
    assert value_at(bent, problem.eta) - value_at(plain, problem.eta) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("n", "warm", "screened"), [(90, True, False), (90, False, True), (20, True, True)])
def test_random_starts_are_spared_where_there_are_many_observations_and_a_warm_start(
    make_problem: Any, n: int, warm: bool, screened: bool
) -> None:
    """Whether any were tried is seen from the generator."""
    problem = make_problem(joint_space(), n)
    surrogate = Surrogate(
        FMKernel(problem.space, FAST_KERNELS["modlap"]), FitSettings(starts=2, screening=3, subset=30)
    )
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    result = surrogate.fit(problem.points, problem.y, rng, problem.eta if warm else None, restart=False)
    assert (rng.bit_generator.state != before) is screened
    everywhere = surrogate.likelihood(problem.points, problem.y)
    assert result.nll <= everywhere(problem.eta[None], torch.arange(1))[0].item() + 1e-12 or not warm


def test_what_is_not_positive_definite_has_an_infinite_value(make_problem: Any) -> None:
    problem = make_problem(joint_space(), 4)
    twice = np.concatenate([problem.X, problem.X])
    points = Points.from_encoded(problem.space, twice)
    likelihood = Likelihood(FMKernel(problem.space, FAST_KERNELS["modlap"]), points, problem.y.repeat(2))
    eta = problem.eta.clone()
    eta[-1] = -60.0  # no noise: duplicated rows are singular
    values, _ = likelihood(torch.stack([eta, problem.eta]), torch.arange(2))
    assert values[0].item() == math.inf
    assert math.isfinite(values[1].item())
    assert isinstance(Posterior(likelihood, problem.eta).s2, float)


SMALL = Space([Real("x", 0.0, 1.0), Nominal("a", ["p", "q", "r"]), Integer("k", 0, 4)])


class Watched(Surrogate):
    """Notes the observations of every likelihood that it makes: size -> y, sorted."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[int, np.ndarray] = {}

    def likelihood(self, points: Points, y: Tensor) -> Likelihood:
        assert len(points) == len(y)
        self.seen[len(y)] = np.sort(y.numpy())
        return super().likelihood(points, y)


def seen_by_a_fit(problem: Any, settings: FitSettings, seed: int = 0) -> dict[int, np.ndarray]:
    surrogate = Watched(FMKernel(problem.space, FAST_KERNELS["modlap"]), settings)
    surrogate.fit(problem.points, problem.y, np.random.default_rng(seed))
    return surrogate.seen


@pytest.mark.parametrize(
    ("n", "settings", "sizes"),
    [
        (64, FitSettings(starts=1, screening=1), [64]),
        (130, FitSettings(starts=1, screening=1), [64, 130]),
        (410, FitSettings(starts=1, screening=1, iterations=1), [64, 400, 410]),
        (60, FitSettings(starts=1, screening=1, subset=8, largest=20), [8, 20, 60]),
    ],
)
def test_the_best_quarter_of_a_subset_are_the_best_of_all(
    make_problem: Any, n: int, settings: FitSettings, sizes: list[int]
) -> None:
    problem = make_problem(SMALL, n)
    seen, every = seen_by_a_fit(problem, settings), np.sort(problem.y.numpy())
    assert sorted(seen) == sizes
    for size, y in seen.items():
        np.testing.assert_array_equal(y[: size // 4], every[: size // 4])
        assert np.isin(y, every).all()


def test_the_other_three_quarters_are_drawn_from_all_that_are_left(make_problem: Any) -> None:
    problem = make_problem(SMALL, 60)
    settings = FitSettings(starts=1, screening=1, subset=20, iterations=1)
    drawn = [seen_by_a_fit(problem, settings, seed)[20][5:] for seed in range(30)]
    every = np.sort(problem.y.numpy())
    assert len({tuple(y) for y in drawn}) > 25
    assert np.isin(every[5:], np.concatenate(drawn)).all()
    middle = np.searchsorted(every, np.concatenate(drawn)).mean()
    assert middle == pytest.approx(32.0, abs=3.0), "the mean of ranks 5 to 59"


def test_predictions_do_not_depend_on_the_order_of_nominal_values(make_problem: Any, kernel: str) -> None:
    space = Space([Real("x", 0.0, 1.0), Nominal("op", list("abcde")), Integer("k", 0, 3)])
    problem, order = make_problem(space, 8, kernel=kernel), torch.tensor([3, 0, 4, 1, 2])

    def reorder(points: Points) -> Points:
        vertices = points.V.clone()
        vertices[:, 0] = order[vertices[:, 0]]
        return Points(points.C, vertices)

    likelihood = problem.likelihood
    other = Posterior(Likelihood(likelihood.kernel, reorder(likelihood.points), likelihood.y), problem.eta)
    anywhere = Points.from_encoded(space, space.sample_encoded(np.random.default_rng(1), 20))
    for mine, reordered in zip(problem.posterior.predict(anywhere), other.predict(reorder(anywhere)), strict=True):
        np.testing.assert_allclose(reordered, mine, rtol=1e-9, atol=1e-12)
