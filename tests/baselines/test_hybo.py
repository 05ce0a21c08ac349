"""HyBO: its kernel and priors against golden values, its sampler, and its search."""

import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines import additive_process
from fmnas.baselines.additive_kernel import NUGGET, AdditiveKernel, Parameters
from fmnas.baselines.additive_process import AveragedSurface, Process
from fmnas.baselines.additive_sampler import (
    Sampler,
    log_prior_amplitude,
    log_prior_length,
    log_prior_mean,
    log_prior_noise,
    log_prior_shape,
    path_extremes,
)
from fmnas.baselines.hybo import HyBO
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region
from fmnas.search_spaces import Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.records import FAILED_FIT, RANDOM

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_hybo.json").read_text())
"""Kernel matrices and priors, in float64 and within 2e-14 of those of the authors' public code."""
SPACE = Space([Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Nominal("a", ["p", "q", "r"]), Ordinal("b", [1, 2, 4, 8])])


def golden_parameters(orders: int) -> Parameters:
    weights = tuple(GOLDEN["log_order_variance"][:orders])
    return Parameters(0.0, GOLDEN["log_amp"], -9.0, tuple(GOLDEN["log_beta"]), tuple(GOLDEN["q"]), weights)


def golden_points() -> Points:
    Z = torch.tensor(GOLDEN["Z"], dtype=torch.float64)
    return Points((Z[:, 3:] + 1.0) / 2.0, Z[:, :3].long())


def pairs(points: Points) -> tuple[Points, Points]:
    return Points(points.C[:, None], points.V[:, None]), Points(points.C[None], points.V[None])


@pytest.mark.parametrize("orders", range(1, 6))
def test_the_kernel_has_the_golden_values(orders: int) -> None:
    kernel, parameters = AdditiveKernel(tuple(GOLDEN["sizes"]), orders), golden_parameters(orders)
    z = kernel.base_kernels(parameters, *pairs(golden_points()))
    torch.testing.assert_close(z, torch.tensor(GOLDEN["base_kernels"], dtype=torch.float64), rtol=1e-12, atol=1e-14)
    amplitude = math.exp(parameters.amplitude)
    gram = amplitude * kernel.value(z, parameters)
    expected = torch.tensor(GOLDEN["gram_up_to_order"][str(orders)], dtype=torch.float64)
    torch.testing.assert_close(gram, expected, rtol=1e-12, atol=1e-12)
    assert amplitude * kernel.diagonal(parameters) == pytest.approx(float(expected[0, 0]), rel=1e-12)


@pytest.mark.parametrize("case", GOLDEN["discrete_base_kernel"])
def test_the_discrete_kernel_has_the_golden_values(case: dict[str, Any]) -> None:
    value = AdditiveKernel((case["n"],), 1).discrete_kernel(0, case["log_beta"], torch.tensor([False]))
    assert float(value) == pytest.approx(case["value_when_different"], rel=1e-12)


def test_the_priors_have_the_golden_values() -> None:
    priors = GOLDEN["priors"]
    for case in priors["constmean"]:
        assert log_prior_mean(case["x"], case["min"], case["max"]) == pytest.approx(case["value"])
    for case in priors["log_noise"]:
        assert log_prior_noise(case["x"]) == pytest.approx(case["value"])
    for case in priors["log_beta"]:
        assert log_prior_shape(case["x"]) == pytest.approx(case["value"])
    for case in priors["log_amp"]:
        low, high = (math.log(case["output_var"] / case[name]) for name in ("kernel_max", "kernel_min"))
        assert log_prior_amplitude(case["x"], low, high) == pytest.approx(case["value"])
    for prior in (log_prior_noise, log_prior_shape, lambda x: log_prior_amplitude(x, 0.0, 1.0), log_prior_length):
        assert prior(-12.1) == prior(9.3) == -math.inf


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6), st.integers(1, 6))
def test_the_polynomials_are_sums_of_products(factors: list[float], orders: int) -> None:
    e = AdditiveKernel((), orders).polynomials(torch.tensor(factors, dtype=torch.float64)[:, None])[:, 0]
    for r in range(orders + 1):
        expected = sum(math.prod(subset) for subset in itertools.combinations(factors, r))
        assert float(e[r]) == pytest.approx(expected, abs=1e-12)


@pytest.fixture
def process() -> Process:
    kernel, points = AdditiveKernel(tuple(GOLDEN["sizes"]), 3), golden_points()
    return Process(kernel, points, torch.linspace(-1.0, 1.0, len(points), dtype=torch.float64), golden_parameters(3))


def test_the_process_interpolates_and_its_fast_paths_equal_prediction(process: Process) -> None:
    space = Space([Real("x", 0, 1), Real("y", 0, 1), *(Nominal(f"n{n}", list(range(n))) for n in GOLDEN["sizes"])])
    region, points = Region(space), golden_points()
    mean, variance = process.predict(points)
    assert (mean - torch.linspace(-1.0, 1.0, len(points)).double()).abs().max() < 0.05
    assert variance.max() < 0.01
    around, spread = process.predict_neighbours(points, region)
    for k in (0, 4, 11):
        V = points.V.clone()
        V[:, region.variable[k]] = region.vertex[k]
        expected = process.predict(Points(points.C, V))
        torch.testing.assert_close((around[:, k], spread[:, k]), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("orders", [1, 2, 4])
@pytest.mark.parametrize("sizes", [(), tuple(GOLDEN["sizes"])], ids=["continuous", "mixed"])
def test_predictions_at_moved_points_equal_those_at_any(sizes: tuple[int, ...], orders: int) -> None:
    count, whole = min(orders, len(sizes) + 2), golden_points()
    points = Points(whole.C, whole.V[:, : len(sizes)])
    parameters = replace(golden_parameters(count), beta=golden_parameters(count).beta[: len(sizes)])
    y = torch.linspace(-1.0, 1.0, len(points), dtype=torch.float64)
    process = Process(AdditiveKernel(sizes, count), points, y, parameters)
    moved = torch.rand(len(points), 4, 2, generator=torch.Generator().manual_seed(0)).double()
    mean, variance = process.predict_moved(moved, process.discrete_part(points))
    for i in range(4):
        expected = process.predict(Points(moved[:, i], points.V))
        torch.testing.assert_close((mean[:, i], variance[:, i]), expected, rtol=1e-8, atol=1e-10)


def test_the_search_of_the_continuous_part_predicts_every_start(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six starts, four of them at once."""
    monkeypatch.setattr(additive_process, "STARTS", 4)
    space = Space([Real("x", 0, 1), Real("y", 0, 1), *(Nominal(f"n{n}", list(range(n))) for n in GOLDEN["sizes"])])
    points, surface = golden_points(), AveragedSurface([process], LogEI(-0.5))
    moved = torch.rand(len(points), 3, 2, generator=torch.Generator().manual_seed(0)).double()
    values = surface._fix_vertices(points, Region(space))(moved)
    for i in range(3):
        torch.testing.assert_close(values[:, i], surface.value(Points(moved[:, i], points.V)), rtol=1e-8, atol=1e-10)


def test_expected_improvement_is_averaged_and_not_its_logarithm(process: Process) -> None:
    points, acquisition = golden_points(), LogEI(-0.5)
    other = replace(golden_parameters(3), amplitude=2.0, noise=-1.0)
    kernel, y = AdditiveKernel(tuple(GOLDEN["sizes"]), 3), torch.linspace(1.0, -1.0, len(points), dtype=torch.float64)
    processes = [process, Process(kernel, points, y, other)]
    values = [AveragedSurface([one], acquisition).value(points).exp() for one in processes]
    averaged = AveragedSurface(processes, acquisition).value(points).exp()
    torch.testing.assert_close(averaged, torch.stack(values).mean(0))


def test_a_matrix_that_is_not_positive_definite_gives_a_random_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = HyBO(Space([Nominal("n", list(range(20))), Real("x", 0.0, 1.0)]), samples=2)
    for k in range(11):
        optimizer.tell(optimizer.ask(), float(k))
    monkeypatch.setattr(AdditiveKernel, "value", lambda self, z, parameters: -torch.ones_like(z[0]))
    monkeypatch.setattr(Sampler, "sweep", lambda self, parameters, rng: parameters)
    trial = optimizer.ask()
    assert trial is not None
    assert (trial.origin, trial.fallback) == (RANDOM, FAILED_FIT)


def test_the_published_errors_are_an_option() -> None:
    """The noise of the first state is a thousandth of the mean objective, taken as a logarithm."""
    states = []
    for published_errors in (False, True):
        optimizer = HyBO(Space([Real("x", 0.0, 1.0)]), published_errors=published_errors, samples=1)
        for k in range(10):
            optimizer.tell(optimizer.ask(), 1000.0 + k)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sampler, "sweep", lambda self, parameters, rng: parameters)
            optimizer.ask()
        states.append(optimizer._state.noise)
    assert states == pytest.approx([math.log(1e-3), 1.0045])


@given(st.lists(st.integers(1, 12), max_size=3))
def test_the_extremes_are_those_of_the_product_kernel_on_paths(sizes: list[int]) -> None:
    product = np.ones(1)
    for n in sizes:
        adjacent = np.eye(n, k=1) + np.eye(n, k=-1)
        kernel = np.exp(-np.linalg.eigvalsh(np.diag(adjacent.sum(0)) - adjacent))
        product = np.outer(product, kernel / kernel.mean()).ravel()
    assert path_extremes(sizes) == pytest.approx((math.log(product.max()), math.log(product.min())), abs=1e-9)


@pytest.mark.parametrize("published_errors", [False, True])
def test_the_amplitudes_prior_lies_between_the_extremes_of_a_kernel(
    published_errors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    points, rng, bounds = golden_points(), np.random.default_rng(0), set()

    def log_prior(x: float, low: float, high: float) -> float:
        bounds.add((low, high))
        return log_prior_amplitude(x, low, high)

    monkeypatch.setattr("fmnas.baselines.additive_sampler.log_prior_amplitude", log_prior)
    y = torch.from_numpy(rng.standard_normal(len(points)))
    kernel, start = AdditiveKernel(tuple(GOLDEN["sizes"]), 5), Parameters.initial(y, 3, 2, 5)
    Sampler(kernel, points, y, published_errors).sweep(start, rng)
    gram = kernel.value(kernel.base_kernels(start, *pairs(points)), start)
    largest, least = path_extremes(kernel.sizes) if published_errors else (gram.max().log(), gram.min().log())
    variance = math.log(float(y.var()))
    (bound,) = bounds
    assert bound == pytest.approx((variance - float(largest), variance - float(least)))


def test_a_sweep_samples_every_parameter_within_its_support() -> None:
    points, rng = golden_points(), np.random.default_rng(0)
    y = torch.from_numpy(rng.standard_normal(len(points)))
    start = Parameters.initial(y, 3, 2, 5)
    after = Sampler(AdditiveKernel(tuple(GOLDEN["sizes"]), 5), points, y).sweep(start, rng)
    assert all(a != b for a, b in zip(start.to_tuple(), after.to_tuple(), strict=True))
    assert all(0.0 <= q <= 2.0 for q in after.q)
    assert y.min() <= after.mean <= y.max()
    assert Parameters.from_tuple(after.to_tuple(), 3, 2) == after


@pytest.mark.parametrize("orders", [1, 3, 5])
def test_each_parameter_is_sampled_given_the_polynomials_of_the_current_others(
    orders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, points, rng = AdditiveKernel(tuple(GOLDEN["sizes"]), orders), golden_points(), np.random.default_rng(0)
    sample_base, sample_weight, seen = Sampler._sample_base, Sampler._sample_weight, []

    def check_base(self: Sampler, parameters: Any, e: Any, z: Any, name: str, place: int, rng: Any) -> Any:
        i, j = torch.tril_indices(len(points), len(points))
        torch.testing.assert_close(z, kernel.base_kernels(parameters, points.select(i), points.select(j)))
        row = place if name == "beta" else 3 + place
        others = kernel.polynomials(torch.cat([z[:row], z[row + 1 :]]))
        torch.testing.assert_close(e, others[: len(e)])
        assert not others[len(e) :].any()
        seen.append((name, place))
        return sample_base(self, parameters, e, z, name, place, rng)

    def check_weight(self: Sampler, parameters: Any, e: Any, place: int, rng: Any) -> Any:
        i, j = torch.tril_indices(len(points), len(points))
        z = kernel.base_kernels(parameters, points.select(i), points.select(j))
        torch.testing.assert_close(e, kernel.polynomials(z)[1:])
        seen.append(("weights", place))
        return sample_weight(self, parameters, e, place, rng)

    monkeypatch.setattr(Sampler, "_sample_base", check_base)
    monkeypatch.setattr(Sampler, "_sample_weight", check_weight)
    y = torch.from_numpy(rng.standard_normal(len(points)))
    Sampler(kernel, points, y).sweep(Parameters.initial(y, 3, 2, orders), rng)
    assert sorted(seen) == sorted(
        [*(("beta", p) for p in range(3)), *(("q", d) for d in range(2)), *(("weights", r) for r in range(orders))]
    )


def test_the_likelihood_is_that_of_a_normal() -> None:
    points = golden_points()
    y, kernel = torch.linspace(0.0, 1.0, len(points)).double(), AdditiveKernel((3, 5, 4), 2)
    parameters = replace(golden_parameters(2), mean=0.3, noise=-2.0)
    gram = kernel.value(kernel.base_kernels(parameters, *pairs(points)), parameters)
    K = math.exp(parameters.amplitude) * (gram + NUGGET * torch.eye(len(y))) + math.exp(-2.0) * torch.eye(len(y))
    density = torch.distributions.MultivariateNormal(torch.full((len(y),), 0.3).double(), K).log_prob(y)
    i, j = torch.tril_indices(len(y), len(y))
    value = Sampler(kernel, points, y).log_likelihood(parameters, gram[i, j])
    assert value - 0.5 * len(y) * math.log(2 * math.pi) == pytest.approx(float(density))


def test_it_finds_the_minimum_of_a_small_mixed_problem() -> None:
    optimizer = HyBO(SPACE, seed=0)
    for _ in range(30):
        trial = optimizer.ask()
        assert trial is not None
        x = trial.configuration
        optimizer.tell(trial, (x["x"] - 0.3) ** 2 + (x["a"] != "q") + 0.2 * abs(x["b"] - 4))
    objectives = [evaluation.objective for _, evaluation in optimizer.history]
    assert min(objectives) < 1e-3 < min(objectives[:10])


def test_the_order_can_be_limited_and_is_checked() -> None:
    assert HyBO(SPACE, max_order=2)._kernel.orders == 2
    assert HyBO(SPACE)._kernel.orders == HyBO(SPACE, max_order=9)._kernel.orders == 4
    with pytest.raises(OptimizerError):
        HyBO(SPACE, samples=0)


def test_a_variable_of_too_many_values_is_refused_before_the_first_trial() -> None:
    with pytest.raises(OptimizerError):
        HyBO(Space([Integer("n", 0, 2000)]))
    HyBO(Space([Integer("n", 1, 2000)]))
