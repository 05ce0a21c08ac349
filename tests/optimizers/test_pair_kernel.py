"""A formula of two numbers of a pair: the same numbers as the same formula of points, which torch differentiates."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.autograd_kernel import AutogradKernel, PairKernel, overlap_tables, squared_distance
from fmnas.optimizers.gp.fit import FitSettings, Surrogate
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import Parameter, Uniform, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import Surface
from fmnas.search_spaces import Nominal, Real, Space

PARAMETERS = (
    Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0)),
    Parameter("l", 1, (1e-2, 1e1), Uniform(0.1, 2.0)),
)


def formula(m: Tensor, a: Tensor, values: Values) -> Tensor:
    s = (values["l"] * a).exp()
    return (s + m) / 2.0 + s * m


class Fast(PairKernel):
    parameters = PARAMETERS

    def __init__(self, space: Space) -> None:
        super().__init__(overlap_tables(space))

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        return formula(matern52(x2 / values["theta"].square()), a, values)


class Slow(AutogradKernel):
    parameters = PARAMETERS

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        shared = (a.V == b.V).double().mean(-1) if self.space.discrete else torch.zeros((), dtype=torch.float64)
        return formula(matern52(squared_distance(a.C, b.C, values["theta"])), shared, values)


class Overlap(Fast):
    """Without parameters."""

    parameters = ()

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        return a


Both = tuple[Any, Likelihood, Likelihood]


@pytest.fixture
def both(make_problem: Any, space: Space) -> Both:
    """(a problem, its likelihood by the fast kernel, by the slow one)."""
    problem = make_problem(space, 9)
    fast, slow = (Likelihood(kernel(space), problem.points, problem.y) for kernel in (Fast, Slow))
    return problem, fast, slow


def starts(likelihood: Likelihood) -> Tensor:
    return likelihood.parameters.starts(np.random.default_rng(1), 4)


def test_likelihood_and_gradient(both: Both) -> None:
    _, fast, slow = both
    (value, gradient), (expected, slope) = (item(starts(fast), torch.arange(4)) for item in (fast, slow))
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)


def test_the_search_sees_the_same_surface(both: Both) -> None:
    problem, fast, slow = both
    one, other = (Surface(Posterior(item, starts(fast)[0]), LogEI(-1.0)) for item in (fast, slow))
    points = Points.from_encoded(problem.space, problem.space.sample_encoded(np.random.default_rng(3), 6))
    for result, expected in zip(
        *(item.with_gradient(points.C, item.posterior.conditioned.precompute(points.V)) for item in (one, other)),
        strict=True,
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-7, atol=1e-9)
    region = Region(problem.space)
    (vertices, value), (same, expected) = (item.best_neighbours(points, region) for item in (one, other))
    assert torch.equal(vertices, same)
    np.testing.assert_allclose(value, expected, rtol=1e-8)


def test_neighbours_are_the_points_with_another_vertex(both: Both) -> None:
    problem, fast, _ = both
    if not problem.space.discrete:
        pytest.skip("no vertices")
    correlation = Posterior(fast, starts(fast)[0]).conditioned
    points = problem.points.select(slice(3))
    r, own = correlation.neighbours(points)
    k = 0
    for p, variable in enumerate(problem.space.discrete):
        for vertex in range(len(variable.vertices)):
            V = points.V.clone()
            V[:, p] = vertex
            expected, diagonal = correlation.correlate(Points(points.C, V))
            np.testing.assert_allclose(r[:, k], expected, rtol=1e-12)
            np.testing.assert_allclose(own[:, k], diagonal, rtol=1e-12)
            k += 1
    assert r.shape[1] == k


def test_a_kernel_without_parameters_is_fitted_for_its_noise_alone(both: Both) -> None:
    problem, _, _ = both
    if not problem.space.discrete:
        pytest.skip("without variables the overlap is not a kernel")
    likelihood = Likelihood(Overlap(problem.space), problem.points, problem.y)
    eta = torch.tensor([[-1.0], [0.5]], dtype=torch.float64)
    value, gradient = likelihood(eta, torch.arange(2))
    assert gradient.shape == (2, 1)
    up, down = (likelihood(eta + step, torch.arange(2))[0] for step in (1e-5, -1e-5))
    np.testing.assert_allclose(gradient[:, 0], (up - down) / 2e-5, rtol=1e-5, atol=1e-8)
    assert torch.isfinite(value).all()
    C, V = problem.points.C[:2], problem.points.V[:2]
    correlation = Posterior(likelihood, eta[0]).conditioned
    r, own, pullback = correlation.with_pullback(C, correlation.precompute(V))
    np.testing.assert_allclose(own, 1.0, rtol=1e-14)
    assert torch.equal(pullback(r, own), torch.zeros_like(C))


class Unscaled(AutogradKernel):
    """A Matern without parameters."""

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        return matern52(squared_distance(a.C, b.C, torch.ones(1, dtype=torch.float64)))


class OverlapOnly(AutogradKernel):
    """Its one parameter counts where something is continuous alone."""

    parameters = (Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0)),)

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        return (a.V == b.V).double().mean(-1)


@pytest.mark.parametrize(
    ("kernel", "space"),
    [(Unscaled, Space([Real("x", 0.0, 1.0)])), (OverlapOnly, Space([Nominal("a", [0, 1, 2]), Nominal("b", [0, 1])]))],
)
def test_a_kernel_that_no_parameter_changes_is_fitted_by_its_noise(kernel: type[AutogradKernel], space: Space) -> None:
    X = space.sample_encoded(np.random.default_rng(0), 6)
    y = torch.from_numpy(np.random.default_rng(1).standard_normal(6))
    fitted = Surrogate(kernel(space), FitSettings(prior=False)).fit(
        Points.from_encoded(space, X), y, np.random.default_rng(2)
    )
    assert np.isfinite(fitted.nll)


def test_matern_in_closed_form() -> None:
    d = np.array([0.0, 0.5, 2.0])
    expected = (1 + np.sqrt(5) * d + 5 * d**2 / 3) * np.exp(-np.sqrt(5) * d)
    np.testing.assert_allclose(matern52(torch.tensor(d**2)), expected, rtol=1e-10)
    variable = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(matern52(variable.square()).sum(), variable)[0].item() == pytest.approx(0.0)
