"""The protocol of a kernel: a formula that torch differentiates says what the analytic fast path says."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import Acquisition, LogEI, LowerConfidenceBound
from fmnas.optimizers.gp.autograd_kernel import AutogradKernel, overlap, squared_distance
from fmnas.optimizers.gp.fit import FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import Parameter, Uniform, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import Surface
from fmnas.search_spaces import Nominal, Real, Space

pytestmark = pytest.mark.slow

KERNELS = {**FAST_KERNELS, **{f"blended-{name}": kernel for name, kernel in BLENDED_KERNELS.items()}}


Both = tuple[Any, Likelihood, Likelihood]


class Formula(AutogradKernel):
    """BO-FM's kernels as the paper writes them: sum_i U[v, i] f(beta lambda_i, d) U[v', i] for each variable."""

    def __init__(self, space: Space, name: str) -> None:
        super().__init__(space)
        self.name, self.parameters = name, FMKernel(space, KERNELS[name]).parameters
        spectra = [variable.spectrum for variable in space.discrete] or [(np.zeros(1), np.ones((1, 1)))]
        self.spectra = [(torch.tensor(values), torch.tensor(vectors)) for values, vectors in spectra]

    def f(self, b: Tensor, u: Tensor) -> Tensor:
        return 1.0 / (u + b) if self.name.endswith("lap") else torch.exp(-u * b)

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        d2 = squared_distance(a.C, b.C, values["theta"]) if a.C.shape[-1] else torch.zeros(())
        factors = []
        for p, (eigenvalues, U) in enumerate(self.spectra):
            frequencies = values["beta"][p] * eigenvalues
            u = 1.0 + values["alpha"][p] * d2 * ("mod" in self.name)
            spectrum = self.f(frequencies, u[..., None]) / self.f(frequencies, torch.ones(1)).mean()
            factors.append((U[a.V[..., p]] * spectrum * U[b.V[..., p]]).sum(-1))
        q, s, w = torch.stack(factors).prod(0), torch.stack(factors).mean(0), values["odds"] / (1.0 + values["odds"])
        continuous = torch.exp(-d2 / 2.0)
        by_name = {"prod": continuous * q, "add": w * continuous + (1.0 - w) * q, "blended": (1.0 - w) * q + w * s}
        return next((r for start, r in by_name.items() if self.name.startswith(start)), q)


@pytest.fixture
def both(make_problem: Any, space: Space, kernel: str) -> Both:
    """(a problem, its likelihood by the fast path, by the formula)."""
    problem = make_problem(space, 9, kernel=kernel)
    return problem, problem.likelihood, Likelihood(Formula(space, kernel), problem.points, problem.y, prior=False)


def test_likelihood_and_gradient_are_those_of_the_fast_path(both: Both) -> None:
    problem, fast, slow = both
    etas = torch.cat([problem.eta[None], fast.parameters.starts(np.random.default_rng(1), 3, smooth=True)])
    (value, gradient), (expected, slope) = (likelihood(etas, torch.arange(4)) for likelihood in (slow, fast))
    free = fast.parameters.box.lower < fast.parameters.box.upper
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(gradient[:, free], slope[:, free], rtol=1e-7, atol=1e-9)


def test_predictions_are_those_of_the_fast_path(both: Both) -> None:
    problem, fast, slow = both
    points = Points.from_encoded(problem.space, problem.space.sample_encoded(np.random.default_rng(2), 150))
    for result, expected in zip(
        *(Posterior(entry, problem.eta).predict(points) for entry in (slow, fast)), strict=True
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("acquisition", [LogEI(-0.5), LowerConfidenceBound(1.7)], ids=["ei", "lcb"])
def test_acquisition_slopes_and_neighbours_are_those_of_the_fast_path(both: Both, acquisition: Acquisition) -> None:
    (problem, *likelihoods), space = both, both[0].space
    fast, slow = (Surface(Posterior(entry, problem.eta), acquisition) for entry in likelihoods)
    points, region = Points.from_encoded(space, space.sample_encoded(np.random.default_rng(4), 6)), Region(space)
    np.testing.assert_allclose(slow.value(points), fast.value(points), rtol=1e-7, atol=1e-8)
    (value, slope), (expected, gradient) = (
        entry.with_gradient(points.C, entry.posterior.correlation.precompute(points.V)) for entry in (slow, fast)
    )
    np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(slope, gradient, rtol=1e-6, atol=1e-7)
    (V, best), (expected_V, expected) = (entry.best_neighbours(points, region) for entry in (slow, fast))
    np.testing.assert_allclose(best, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(V, expected_V)


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


def test_matern_and_overlap_in_closed_form() -> None:
    d = np.array([0.0, 0.5, 2.0])
    expected = (1 + np.sqrt(5) * d + 5 * d**2 / 3) * np.exp(-np.sqrt(5) * d)
    np.testing.assert_allclose(matern52(torch.tensor(d**2)), expected, rtol=1e-10)
    variable = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.grad(matern52(variable.square()).sum(), variable)[0].item() == pytest.approx(0.0)
    V1, V2 = torch.tensor([[0, 1, 2, 3]]), torch.tensor([[0, 1, 0, 3]])
    assert overlap(V1, V2).tolist() == [0.75]
