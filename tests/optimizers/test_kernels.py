"""The kernels for gpytorch: golden Gram matrices, closed forms, and the properties the paper proves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.optimizers.gp.frequency_modulation import Modulated
from fmnas.optimizers.gp.power_kernel import KernelModulated, MixtureKernel
from fmnas.optimizers.kernels import (
    AddDif,
    AddLap,
    FormulaKernel,
    ModDif,
    ModLap,
    ModulatedKernel,
    PositiveKernel,
    ProdDif,
    ProdLap,
)
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
PRODUCTS = json.loads((Path(__file__).parent / "golden_normalised_kernels.json").read_text())
X = torch.tensor(PRODUCTS["X"], dtype=torch.float64)
PRODUCT_SPACE = Space(
    [
        *(Real(f"c{d}", -9.0, 9.0) for d in range(3)),
        Nominal("a", list(range(5))),
        Ordinal("b", list(range(4))),
        Nominal("c", [0, 1]),
    ]
)
KERNELS = [ModLap, ModDif]


def mixture(space: Space, **options: Any) -> FormulaKernel:
    return FormulaKernel(MixtureKernel(space, Modulated()), **options)


def kernel_modulated(space: Space, **options: Any) -> FormulaKernel:
    return FormulaKernel(KernelModulated(space, Modulated()), **options)


FAMILY = [ModLap, ModDif, ProdLap, ProdDif, AddLap, AddDif, mixture, kernel_modulated]


def gram(kernel: PositiveKernel, X: Tensor, Z: Tensor | None = None) -> np.ndarray:
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


def test_parameters_are_read_as_they_were_set() -> None:
    kernel = ModLap(GOLDEN_SPACE, batch_shape=torch.Size([2]))
    kernel.alpha = 0.25
    kernel.beta = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert kernel.alpha.shape == (2, 3)
    assert (kernel.alpha - 0.25).abs().max() < 1e-12
    assert (kernel.beta - torch.arange(1, 7).reshape(2, 3)).abs().max() < 1e-12
    assert kernel.lengthscale.shape == (2, 3)


@pytest.mark.parametrize(
    ("make", "normalised", "name"),
    [
        (ProdLap, True, "K_ref_ARDLap"),
        (ProdDif, True, "K_ref_ARDDif"),
        (ProdLap, False, "K_paper_ARDLap"),
        (ProdDif, False, "K_paper_ARDDif"),
    ],
)
def test_golden_products(make: Any, normalised: bool, name: str) -> None:
    kernel = make(PRODUCT_SPACE, normalised=normalised)
    # Far lengthscales take the distance away: what is left of a product is the graph kernel alone.
    kernel.beta, kernel.lengthscale = PRODUCTS["beta"], [1e9] * 3
    K = gram(kernel, X)
    for i, row in enumerate(PRODUCTS[name]):
        np.testing.assert_allclose(K[i, : i + 1], row, rtol=1e-9)


def randomize_parameters(kernel: Any, seed: int) -> Any:
    """The kernel with parameters drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in kernel.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return kernel


@pytest.mark.parametrize("make", FAMILY)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_positive_definite_symmetric_and_its_own_diagonal(
    make: Any, data: st.DataObject, spaces: Any, seed: int
) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.continuous) > 0))
    points = sample(space, seed, 12)
    kernel = randomize_parameters(make(space), seed)
    K = gram(kernel, points)
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9 * K.max()
    assert K.min() > -1e-12
    np.testing.assert_allclose(kernel(points, diag=True).detach(), np.diag(K), rtol=1e-10)


@pytest.mark.parametrize("make", FAMILY)
def test_batches_equal_their_members(make: Any) -> None:
    batch = randomize_parameters(make(PRODUCT_SPACE, batch_shape=torch.Size([3])), 1)
    K, diagonal = batch(X.expand(3, *X.shape)).to_dense().detach(), batch.forward(X, X, diag=True).detach()
    assert K.shape == (3, 12, 12)
    for b in range(3):
        member = make(PRODUCT_SPACE)
        for name, parameter in batch.named_parameters():
            getattr(member, name).data = parameter[b].data
        np.testing.assert_allclose(K[b], gram(member, X), rtol=1e-10)
        np.testing.assert_allclose(diagonal[b], np.diag(K[b]), rtol=1e-10)


@pytest.mark.parametrize("make", [kernel for kernel in FAMILY if kernel not in (ModDif, kernel_modulated)])
def test_never_increases_with_the_distance(make: Any) -> None:
    kernel = randomize_parameters(make(PRODUCT_SPACE), 2)
    points = X[:1].repeat(7, 1)
    points[:, 0] = torch.tensor([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 30.0]).double()
    points[1:, 3:] = torch.tensor([1.0, 2.0, 1.0]).double()
    row = gram(kernel, points)[0, 1:]
    assert (np.diff(row) <= 1e-12).all()
