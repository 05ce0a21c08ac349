"""Spectral functions and the merged eigenspaces that the fast path is built on."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers.factors import Eigenspaces, Factors
from fmnas.optimizers.spectral import ModulatedDiffusion, ModulatedLaplacian
from fmnas.optimizers.structures import FAST_KERNELS
from fmnas.search_spaces import Nominal
from fmnas.search_spaces.graphs import laplacian

SPECTRAL_FUNCTIONS = {"modlap": ModulatedLaplacian(), "moddif": ModulatedDiffusion()}


def test_the_six_kernels_are_known_by_name() -> None:
    assert sorted(FAST_KERNELS) == ["adddif", "addlap", "moddif", "modlap", "proddif", "prodlap"]


@pytest.mark.parametrize("seed", range(3))
def test_the_slopes_of_a_structure_are_its_derivatives(kernel: str, seed: int) -> None:
    structure, rng = FAST_KERNELS[kernel].structure, np.random.default_rng(seed)
    q, d2, w = (torch.from_numpy(rng.uniform(0.05, 0.95, 4)).requires_grad_() for _ in range(3))
    r = structure.combine(q, d2, w)
    expected = torch.autograd.grad(r.sum(), (q, d2, w), allow_unused=True)
    for slope, by_autograd in zip(structure.slopes(q, d2, w), expected, strict=True):
        right = torch.zeros(4) if by_autograd is None else by_autograd
        np.testing.assert_allclose(slope.detach().expand(4), right, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("name", "expected"), [("modlap", 1 / 3.5), ("moddif", np.exp(-3.0))])
def test_spectral_value(name: str, expected: float) -> None:
    b, a = torch.tensor([1.5, 0.0], dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    f = SPECTRAL_FUNCTIONS[name].value(b, a)
    np.testing.assert_allclose(f, [expected, 1.0], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(SPECTRAL_FUNCTIONS))
def test_spectral_partials_are_the_derivatives(name: str) -> None:
    f = SPECTRAL_FUNCTIONS[name]
    b = torch.linspace(0.0, 5.0, 7).double()[:, None].requires_grad_()
    a = torch.linspace(0.0, 3.0, 5).double()[None].requires_grad_()
    value = f.value(b, a)
    by_b, by_a = torch.autograd.grad(value.sum(), (b, a))
    f_b, f_a = f.partials(b.detach(), a.detach(), value.detach())
    np.testing.assert_allclose(f_b.expand(7, 5).sum(1, keepdim=True), by_b, rtol=1e-10)
    np.testing.assert_allclose(f_a.expand(7, 5).sum(0, keepdim=True), by_a, rtol=1e-10)


@given(data=st.data())
@settings(max_examples=40)
def test_eigenspaces_rebuild_the_laplacian(data: st.DataObject, spaces: Any) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    for variable in space.discrete:
        found = Eigenspaces.of(variable)
        V = len(variable.vertices)
        assert (found.mu.diff() > 1e-8).all()
        rebuilt = torch.einsum("e,euv->uv", found.mu, found.projectors)
        np.testing.assert_allclose(rebuilt, laplacian(variable.adjacency), atol=1e-9)
        np.testing.assert_allclose(found.projectors.sum(0), np.eye(V), atol=1e-9)
        np.testing.assert_allclose(found.projectors @ found.projectors, found.projectors, atol=1e-9)
        assert found.multiplicities.sum() == pytest.approx(V)


def test_a_complete_graph_has_two_eigenspaces() -> None:
    found = Eigenspaces.of(Nominal("a", list(range(8))))
    np.testing.assert_allclose(found.mu, [0.0, 8.0], atol=1e-9)
    np.testing.assert_allclose(found.multiplicities, [1.0, 7.0])


@pytest.mark.parametrize("name", ["modlap", "moddif"])
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_normaliser_is_the_mean_over_vertices(name: str, data: st.DataObject, spaces: Any, seed: int) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    factors = Factors(space, SPECTRAL_FUNCTIONS[name])
    beta = torch.from_numpy(np.exp(np.random.default_rng(seed).uniform(-3, 3, (2, factors.P))))
    N, slope = factors.normaliser(beta)
    step = 1e-6
    above, below = (factors.normaliser(beta * np.exp(sign * step))[0] for sign in (1, -1))
    np.testing.assert_allclose(slope, (above.log() - below.log()) / (2 * step), rtol=1e-5, atol=1e-8)
    for b in range(2):
        for p in range(factors.P):
            assert N[b, p].item() == pytest.approx(factors.diagonal(p, beta[b]).mean().item(), rel=1e-10)


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_every_way_to_a_factor_gives_the_same(data: st.DataObject, spaces: Any, seed: int) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    rng = np.random.default_rng(seed)
    factors = Factors(space, SPECTRAL_FUNCTIONS["modlap"])
    D, n = len(space.continuous), 6
    v1, v2 = (torch.from_numpy(space.sample_encoded(rng, n)[:, D:]).long() for _ in range(2))
    d2 = torch.from_numpy(rng.uniform(0, 4, (1, n)))
    alpha, beta = (torch.from_numpy(rng.uniform(0.1, 2, (1, factors.P))) for _ in range(2))
    weights = factors.pairs(v1, v2)
    a = alpha[..., None] * d2[:, None]
    values = factors.values(weights, a, beta)
    np.testing.assert_array_equal(values, factors.sums(weights, a, beta)[0])
    for position, p in enumerate(factors.order.tolist()):
        table = factors.table(p, v2[:, p], a[:, p], beta[0])[0]  # [V, n]
        np.testing.assert_allclose(values[0, position], table[v1[:, p], torch.arange(n)], atol=1e-12)
    still = factors.values(factors.pairs(v1, v1), torch.zeros(1, factors.P, 1).double(), beta)[0]
    for position, p in enumerate(factors.order.tolist()):
        np.testing.assert_allclose(still[position], factors.diagonal(p, beta[0])[v1[:, p]], atol=1e-12)
