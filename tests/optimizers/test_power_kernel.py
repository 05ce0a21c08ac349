"""Sums of powers: closed forms, derivatives, and what the paper proves. test_fit.py has them as matrix functions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.power_kernel import PowerSums, build_kernel, neural_network_kernel
from fmnas.search_spaces import Integer, Nominal, Real, Space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("a", ["p", "q", "r"])])
TWO_GRAPHS = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0), Nominal("a", list("pqrs")), Nominal("b", [0, 1])])


def double(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def r(space: Space, kernel: Kernel, X: np.ndarray, **chosen: Tensor) -> Tensor:
    """Correlations of the first of encoded points with all; parameters are 1 unless chosen."""
    values = {p.name: chosen.get(p.name, torch.ones(p.size, dtype=torch.float64)) for p in kernel.parameters}
    points = Points.from_encoded(space, X)
    return kernel.condition_on(values, points).correlate(points.select(slice(1)))[0][0]


def test_the_mixture_on_a_complete_graph() -> None:
    """f(0) and f(3) with theta = 1, alpha = 4, beta = 0.5, d = 0.25: u is 1.25 for d^2, and 2 for d."""
    kernel = build_kernel(SPACE, "mixture", blended=False)
    result = r(
        SPACE,
        kernel,
        np.array([[0.5, 0], [0.25, 0], [0.25, 1]]),
        alpha=double(4.0),
        beta=double(0.5),
        weights=double(2.0, 3.0),
    )
    f0, f3 = 1 / 1.25 + 2 / 1.25**2 + 3 / 2, 1 / 2.75 + 2 / 2.75**2 + 3 / 3.5
    mean = (6.0 + 2 * (1 / 2.5 + 2 / 2.5**2 + 3 / 2.5)) / 3
    assert result[1].item() == pytest.approx((f0 + 2 * f3) / 3 / mean, rel=1e-10)
    assert result[2].item() == pytest.approx((f0 - f3) / 3 / mean, rel=1e-10)
    assert f0 == pytest.approx(3.58, rel=1e-12), "alpha d, not the root of alpha d^2"


def test_modulation_by_a_kernel_on_a_complete_graph() -> None:
    """Eq. 7 with beta = 0.5; of S = diag(1, 1) and x = (1, 1/2), x' = (1, -1/2)."""
    kernel = build_kernel(SPACE, "kernel-modulated", blended=False)
    result = r(SPACE, kernel, np.array([[1.0, 0], [0.0, 0], [0.0, 1]]), beta=double(0.5))
    similarity = 2 / math.pi * math.asin(1.5 / 3.5)
    assert similarity == pytest.approx(0.28197, abs=1e-5)
    typical = 2 / math.pi * math.asin((2 + 1 / 6) / (3 + 1 / 6))
    f0, f3, mean = 1 / (2 - similarity), 1 / (3.5 - similarity), (1 / (2 - typical) + 2 / (3.5 - typical)) / 3
    assert result[1].item() == pytest.approx((f0 + 2 * f3) / 3 / mean, rel=1e-10)
    assert result[2].item() == pytest.approx((f0 - f3) / 3 / mean, rel=1e-10)


def test_neural_network_kernel_is_in_its_bounds() -> None:
    C1, C2 = torch.from_numpy(np.random.default_rng(0).random((2, 500, 3)))
    for theta in (1e-2, 1.0, 1e2):
        k = neural_network_kernel(C1, C2, torch.full((3,), theta).double(), double(1e-2))
        assert k.abs().max() < 1.0
    assert neural_network_kernel(double(1.0), double(0.0), double(1e-2), double(1e-2)).item() < -0.9


@pytest.mark.parametrize("blended", [False, True])
def test_without_its_other_terms_the_mixture_is_modlap(blended: bool) -> None:
    X = TWO_GRAPHS.sample_encoded(np.random.default_rng(0), 9)
    mixture, modlap = (build_kernel(TWO_GRAPHS, name, blended=blended) for name in ("mixture", "modlap"))
    np.testing.assert_allclose(
        r(TWO_GRAPHS, mixture, X, weights=double(0.0, 0.0)), r(TWO_GRAPHS, modlap, X), rtol=1e-12
    )


def test_the_same_on_a_long_path_of_which_modlap_uses_the_closed_form() -> None:
    space = Space([Real("x", 0.0, 1.0), Integer("n", 1, 20)])
    X = space.sample_encoded(np.random.default_rng(0), 9)
    mixture, modlap = (build_kernel(space, name, blended=False) for name in ("mixture", "modlap"))
    expected = r(space, modlap, X)
    np.testing.assert_allclose(r(space, mixture, X, weights=double(0.0, 0.0)), expected, rtol=1e-9, atol=1e-13)


def test_derivatives_of_power_sums() -> None:
    rng = np.random.default_rng(0)
    u, beta, mu, W = (torch.from_numpy(rng.uniform(0.5, 2.0, size)) for size in ((2, 3, 5), (2, 3), (3, 4), (3, 4, 5)))
    u, beta = u.requires_grad_(), beta.requires_grad_()
    b = (beta[..., None] * mu)[..., None]
    sums = PowerSums.apply(u, beta, mu, W, 3)
    for k, S in enumerate(sums, start=1):
        torch.testing.assert_close(S, (W / (u[:, :, None] + b) ** k).sum(2))
    assert torch.autograd.gradcheck(lambda u, beta: PowerSums.apply(u, beta, mu, W, 3), (u, beta))


@pytest.mark.parametrize("blended", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_the_mixture_never_increases_with_the_distance(blended: bool, seed: int) -> None:
    """Theorem 3.2, for any vertices and parameters."""
    rng, kernel = np.random.default_rng(seed), build_kernel(TWO_GRAPHS, "mixture", blended=blended)
    X = np.column_stack([np.linspace(0.2, 1.0, 9), np.full(9, 0.3), *rng.integers(0, [[4], [2]], (2, 1)).repeat(9, 1)])
    X[0, 2:] = 0
    values = {p.name: torch.from_numpy(np.exp(rng.uniform(-3, 3, p.size))) for p in kernel.parameters}
    assert (r(TWO_GRAPHS, kernel, X, **values)[1:].diff() <= 1e-12).all()


@pytest.mark.parametrize("blended", [False, True])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_modulation_by_a_kernel_never_decreases_with_the_similarity(blended: bool, seed: int) -> None:
    """Eq. 8, for any vertices and parameters."""
    rng, kernel = np.random.default_rng(seed), build_kernel(TWO_GRAPHS, "kernel-modulated", blended=blended)
    X = np.column_stack([rng.random((12, 2)), *rng.integers(0, [[4], [2]], (2, 1)).repeat(12, 1)])
    values = {p.name: torch.from_numpy(np.exp(rng.uniform(-3, 3, p.size))).clip(*p.bounds) for p in kernel.parameters}
    C = torch.from_numpy(X[:, :2])
    order = neural_network_kernel(C[:1], C, values["theta"], values["bias"]).argsort()
    X[0, 2:] = 0
    by_distance = order[order != 0]
    assert (r(TWO_GRAPHS, kernel, X, **values)[by_distance].diff() >= -1e-12).all()


def test_a_mixture_may_have_a_kink_where_points_meet() -> None:
    """The slope of the third term at d = 0 is -alpha a_2 / theta on either side; its pullback there is 0."""
    kernel = build_kernel(SPACE, "mixture", blended=False)
    X = np.array([[0.5, 0], [0.5 + 1e-6, 0]])
    slope = (r(SPACE, kernel, X, beta=double(1e-9))[1] - r(SPACE, kernel, X, beta=double(1e-9))[0]) / 1e-6
    assert slope.item() == pytest.approx(-1 / 3, rel=1e-4)
    values = {p.name: torch.ones(p.size, dtype=torch.float64) for p in kernel.parameters}
    points = Points.from_encoded(SPACE, X[:1])
    conditioned = kernel.condition_on(values, points)
    _, _, pullback = conditioned.with_pullback(points.C, conditioned.precompute(points.V))
    assert pullback(torch.ones(1, 1).double(), torch.ones(1).double()).tolist() == [[0.0]]
