"""The frequency-modulated kernels: golden Gram matrices, closed forms, and the properties the paper proves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpytorch
import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.kernels import ModDif, ModLap, ModulatedKernel
from fmnas.search_spaces import Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import laplacian

GOLDEN = json.loads((Path(__file__).parent / "golden_kernels.json").read_text())
GOLDEN_SPACE = Space(
    [
        *(Real(f"x{d}", 0.0, 1.0) for d in range(3)),
        Nominal("a", list("abcde")),
        Integer("k", 0, 3),
        Nominal("b", [False, True]),
    ]
)
KERNELS = [ModLap, ModDif]


def gram(kernel: ModulatedKernel, X: Tensor, Z: Tensor | None = None) -> np.ndarray:
    """The covariance of X with Z (by default with itself)."""
    return kernel.forward(X, X if Z is None else Z).detach().numpy()


def double(value: Any) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def build(make: Callable[[Space], ModulatedKernel], space: Space, theta: Any, alpha: Any, beta: Any) -> ModulatedKernel:
    kernel = make(space)
    if space.continuous:
        kernel.lengthscale = theta
    kernel.alpha, kernel.beta = alpha, beta
    return kernel


def random_kernel(make: Callable[[Space], ModulatedKernel], space: Space, seed: int) -> ModulatedKernel:
    rng = np.random.default_rng(seed)
    D, P = len(space.continuous), len(space.discrete)
    theta, alpha, beta = (torch.from_numpy(np.exp(rng.uniform(-2, 2, size))) for size in (D, P, P))
    return build(make, space, theta, alpha, beta)


def slow_factor(kernel: type, adjacency: np.ndarray, alpha: float, beta: float, d2: float) -> np.ndarray:
    """[V, V] without eigenvectors: ((1 + alpha d2) I + beta L)^-1, or exp(-(1 + alpha d2) beta L)."""
    L = laplacian(adjacency)
    if kernel is ModLap:
        return np.linalg.inv((1.0 + alpha * d2) * np.eye(len(L)) + beta * L)
    return scipy.linalg.expm(-(1.0 + alpha * d2) * beta * L)


def sample(space: Space, seed: int, n: int) -> Tensor:
    return torch.from_numpy(space.sample_encoded(np.random.default_rng(seed), n))


@pytest.mark.parametrize("make", KERNELS)
def test_gram_matrix_is_the_golden_one(make: type[ModulatedKernel]) -> None:
    kernel = build(make, GOLDEN_SPACE, *(double(GOLDEN[name]) for name in ("theta", "alpha", "beta")))
    K = gram(kernel, double(GOLDEN["X"]))
    for i, row in enumerate(GOLDEN[make.__name__]):
        np.testing.assert_allclose(K[i, : i + 1], row, rtol=1e-10)
        np.testing.assert_allclose(K[i], K[:, i], rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "same", "other"), [(ModLap, 0.30623245, 0.00210063), (ModDif, 0.18034750, 0.05299986)]
)
def test_values_worked_out_by_hand(make: type[ModulatedKernel], same: float, other: float) -> None:
    space = Space([Real("x", 0, 1), Real("z", 0, 1), Nominal("a", [0, 1, 2]), Ordinal("o", [0, 1, 2, 3])])
    kernel = build(make, space, *(double(v) for v in ([0.5, 2.0], [0.3, 1.2], [0.5, 0.8])))
    K = gram(kernel, double([[0.1, -0.4, 0, 1], [0.6, 0.2, 2, 3]]))
    assert K[0, 0] == pytest.approx(same, abs=6e-9)
    assert K[0, 1] == pytest.approx(other, abs=6e-9)


@pytest.mark.parametrize("make", KERNELS)
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_equals_matrix_functions_of_the_laplacian(
    make: type[ModulatedKernel], data: st.DataObject, spaces: Any, seed: int
) -> None:
    space = data.draw(spaces)
    kernel = random_kernel(make, space, seed)
    X = sample(space, seed, 4)
    K, D = gram(kernel, X), len(space.continuous)
    theta = kernel.lengthscale.detach().numpy() if D else np.ones(0)
    for i, j in np.ndindex(K.shape):
        d2 = float((((X[i, :D] - X[j, :D]).numpy() / theta) ** 2).sum())
        expected = 1.0 if space.discrete else (1 / (1 + d2) if make is ModLap else 1.0)
        for p, variable in enumerate(space.discrete):
            alpha, beta = kernel.alpha[p].item(), kernel.beta[p].item()
            factor = slow_factor(make, variable.adjacency, alpha, beta, d2)
            expected *= factor[int(X[i, D + p]), int(X[j, D + p])]
        assert K[i, j] == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_moddif_breaks_the_modulation_principle() -> None:
    space = Space([Real("x", 0, 1), Nominal("a", [0, 1, 2, 3])])
    one = double([1.0])
    far, near = (gram(build(ModDif, space, one, one, one), double([[0.0, 0], [x, 1]]))[0, 1] for x in (100.0, 0.0))
    assert far == pytest.approx(1 / 4)  # a quarter stays however far apart; ModLap's falls to zero
    assert far > near


@pytest.mark.parametrize("make", KERNELS)
@pytest.mark.parametrize("n", [2, 3, 8, 17])
def test_closed_form_on_a_complete_graph(make: type[ModulatedKernel], n: int) -> None:
    space = Space([Real("x", 0, 1), Nominal("a", list(range(n)))])
    theta, alpha, beta = (double([v]) for v in (0.7, 1.3, 0.4))
    a = 1.3 * (0.5 / 0.7) ** 2
    g0, gn = (1 / (1 + a), 1 / (1 + 0.4 * n + a)) if make is ModLap else (1.0, np.exp(-(1 + a) * 0.4 * n))
    X = double([[0.2, 0], [0.7, 0], [0.7, 1]])
    K = gram(build(make, space, theta, alpha, beta), X)
    assert K[0, 2] == pytest.approx((g0 - gn) / n, rel=1e-12)
    assert K[0, 1] == pytest.approx(gn + (g0 - gn) / n, rel=1e-12)


@pytest.mark.parametrize("make", KERNELS)
def test_without_discrete_variables_it_is_f_of_the_distance(make: type[ModulatedKernel]) -> None:
    space = Space([Real("x", 0, 1), Real("z", 0, 1)])
    kernel = build(make, space, double([0.5, 2.0]), torch.empty(0), torch.empty(0))
    K = gram(kernel, double([[0.1, 0.4], [0.6, 0.2]]))
    assert K[0, 1] == pytest.approx(1 / (1 + 1.0 + 0.01) if make is ModLap else 1.0)
    assert K[0, 0] == 1.0


@pytest.mark.parametrize("make", KERNELS)
def test_a_batch_equals_its_members(make: type[ModulatedKernel], space: Space) -> None:
    rng = np.random.default_rng(0)
    D, P = len(space.continuous), len(space.discrete)
    theta, alpha, beta = (torch.from_numpy(rng.uniform(0.2, 2.0, (3, size))) for size in (D, P, P))
    X = torch.from_numpy(space.sample_encoded(rng, 18)).reshape(3, 6, -1)
    batch = build(lambda s: make(s, batch_shape=torch.Size([3])), space, theta[:, None], alpha, beta)
    K, diagonal = gram(batch, X), batch.forward(X, X, diag=True).detach().numpy()
    assert K.shape == (3, 6, 6)
    assert diagonal.shape == (3, 6)
    shared = gram(batch, X[0])  # one set of points under every set of parameters
    for b in range(3):
        member = build(make, space, theta[b], alpha[b], beta[b])
        np.testing.assert_allclose(K[b], gram(member, X[b]), rtol=1e-12)
        np.testing.assert_allclose(shared[b], gram(member, X[0]), rtol=1e-12)
        np.testing.assert_allclose(diagonal[b], np.diag(K[b]), rtol=1e-12)


def test_parameters_are_read_as_they_were_set() -> None:
    kernel = ModLap(GOLDEN_SPACE, batch_shape=torch.Size([2]))
    kernel.alpha = 0.25
    kernel.beta = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert kernel.alpha.shape == (2, 3)
    assert (kernel.alpha - 0.25).abs().max() < 1e-12
    assert (kernel.beta - torch.arange(1, 7).reshape(2, 3)).abs().max() < 1e-12
    assert kernel.lengthscale.shape == (2, 3)


class Process(gpytorch.models.ExactGP):
    """A process with one of our kernels, as a user of gpytorch writes it."""

    def __init__(self, X: Tensor, y: Tensor, kernel: ModulatedKernel) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood().double())
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel).double()

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def test_the_fast_likelihood_is_gpytorchs(make_problem: Any, space: Space) -> None:
    problem = make_problem(space, 9)
    posterior = problem.plug_in
    fitted = posterior.parameters
    alpha, beta = (fitted["alpha"], fitted["beta"]) if space.discrete else (torch.empty(0), torch.empty(0))
    X = torch.from_numpy(problem.X)
    model = Process(X, problem.y, build(ModLap, space, fitted["theta"], alpha, beta))
    N = float(posterior.correlation.N.prod())
    model.mean_module.constant = double(posterior.mu)
    model.covar_module.outputscale = double(posterior.s2 / N)
    model.likelihood.noise = double(posterior.g * posterior.s2)
    model.train()
    exact = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(X), problem.y)  # per observation
    value, _ = problem.likelihood(problem.eta[None], torch.arange(1))
    assert float(value) == pytest.approx(-exact.item(), rel=1e-9)
    Z = sample(space, 5, 6)
    model.eval()
    prediction = model(Z)
    mean, variance = posterior.predict(Points.from_encoded(space, Z.numpy()))
    np.testing.assert_allclose(mean, prediction.mean.detach(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(variance, prediction.variance.detach(), rtol=1e-6, atol=1e-10)
