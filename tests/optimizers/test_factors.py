"""Modulating functions, combinations and the merged eigenspaces that the fast path is built on."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers.gp.factors import Factors
from fmnas.optimizers.gp.frequency_modulation import (
    BLENDED_KERNELS,
    FAST_KERNELS,
    Blended,
    FastKernel,
    Modulated,
    ModulatedDiffusion,
    ModulatedLaplacian,
)
from fmnas.optimizers.gp.graph_part import GraphPart, GraphPartWithGradient, normaliser
from fmnas.optimizers.gp.graphs import Eigenspaces
from fmnas.search_spaces import Graph, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import laplacian

KERNELS = {**FAST_KERNELS, **{f"blended-{name}": kernel for name, kernel in BLENDED_KERNELS.items()}}
MODULATIONS = {"modlap": ModulatedLaplacian(), "moddif": ModulatedDiffusion()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kernel", sorted(KERNELS))
def test_the_slopes_of_a_combination_are_its_derivatives(kernel: str, seed: int) -> None:
    combination, rng = KERNELS[kernel].combination, np.random.default_rng(seed)
    q, s, d2, w = (torch.from_numpy(rng.uniform(0.05, 0.95, 4)).requires_grad_() for _ in range(4))
    r = combination.combine(q, s, d2, w)
    expected = torch.autograd.grad(r.sum(), (q, s, d2, w), allow_unused=True)
    for slope, by_autograd in zip(combination.slopes(q, s, d2, w), expected, strict=True):
        right = torch.zeros(4) if by_autograd is None else by_autograd
        np.testing.assert_allclose(slope.detach().expand(4), right, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("name", "expected"), [("modlap", 1 / 3.5), ("moddif", np.exp(-3.0))])
def test_modulation_value(name: str, expected: float) -> None:
    b, u = torch.tensor([1.5, 0.0], dtype=torch.float64), torch.tensor([2.0, 1.0], dtype=torch.float64)
    f = MODULATIONS[name].value(b, u)
    np.testing.assert_allclose(f, [expected, 1.0], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(MODULATIONS))
def test_modulation_slopes_are_the_derivatives(name: str) -> None:
    f = MODULATIONS[name]
    b = torch.linspace(0.0, 5.0, 7).double()[:, None].requires_grad_()
    u = torch.linspace(1.0, 4.0, 5).double()[None].requires_grad_()
    value = f.value(b, u)
    by_b, by_u = torch.autograd.grad(value.sum(), (b, u))
    slope = -value.detach() * f.decay(b.detach(), value.detach())
    np.testing.assert_allclose(slope.expand(7, 5).sum(0, keepdim=True), by_u, rtol=1e-10)
    along_b = f.offset * value.detach() + f.sign * u.detach() * slope
    np.testing.assert_allclose(along_b.sum(1, keepdim=True), b.detach() * by_b, rtol=1e-10, atol=1e-12)


@given(data=st.data())
@settings(max_examples=40)
def test_eigenspaces_rebuild_the_laplacian(data: st.DataObject, spaces: Any) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    for variable in space.discrete:
        result = Eigenspaces(*variable.spectrum)
        V = len(variable.vertices)
        assert (result.mu.diff() > 1e-8).all()
        every = torch.arange(V)
        projectors = result.columns(every)
        rebuilt = torch.einsum("e,euv->uv", result.mu, projectors)
        np.testing.assert_allclose(rebuilt, laplacian(variable.adjacency), atol=1e-9)
        np.testing.assert_allclose(projectors.sum(0), np.eye(V), atol=1e-9)
        np.testing.assert_allclose(projectors @ projectors, projectors, atol=1e-9)
        assert result.multiplicities.sum() == pytest.approx(V)
        np.testing.assert_array_equal(result.entries(every, every.flip(0)), projectors[:, every, every.flip(0)])
        np.testing.assert_allclose(result.diagonal(result.mu), torch.diagonal(rebuilt), atol=1e-9)


def test_a_long_path_takes_little_memory() -> None:
    """Its projectors would be V^3 numbers: 64 MB here, and each run of an experiment has its own."""
    result = Eigenspaces(*Integer("n", 1, 200).spectrum)
    kept = sum(value.nbytes for value in vars(result).values() if isinstance(value, torch.Tensor))
    assert kept < 10 * 200 * 200 * 8


@pytest.mark.parametrize("V", [2, 5, 8, 17, 64, 101])
def test_multiplicities_of_a_path_are_the_traces_of_its_projectors_to_the_last_bit(V: int) -> None:
    variable = Integer("k", 1, V)
    U = torch.tensor(variable.spectrum[1])
    traces = torch.stack([torch.outer(u, u).diagonal().sum() for u in U.T])
    assert torch.equal(Eigenspaces(*variable.spectrum).multiplicities, traces)


@pytest.mark.parametrize("name", ["modlap", "moddif"])
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_normaliser_is_the_mean_over_vertices(name: str, data: st.DataObject, spaces: Any, seed: int) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    factors, f = Factors(space), MODULATIONS[name]
    beta = torch.from_numpy(np.exp(np.random.default_rng(seed).uniform(-3, 3, (2, factors.P))))
    N, slope = normaliser(factors, f, beta)
    step = 1e-6
    above, below = (normaliser(factors, f, beta * np.exp(sign * step))[0] for sign in (1, -1))
    np.testing.assert_allclose(slope, (above.log() - below.log()) / (2 * step), rtol=1e-5, atol=1e-8)
    for b in range(2):
        graphs = GraphPart(factors, FastKernel(f, Modulated()), beta[b : b + 1], beta[b : b + 1])
        for diagonal in graphs.diagonals(beta[b]):
            assert diagonal.mean().item() == pytest.approx(1.0, rel=1e-10)
        np.testing.assert_allclose(graphs.N[0], N[b], rtol=1e-12)


@pytest.mark.parametrize("name", sorted(MODULATIONS))
@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_every_way_to_a_factor_gives_the_same(name: str, data: st.DataObject, spaces: Any, seed: int) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    rng = np.random.default_rng(seed)
    factors, form, n = Factors(space), FastKernel(MODULATIONS[name], Blended()), 6
    v1, v2 = (torch.from_numpy(space.sample_encoded(rng, n)[:, len(space.continuous) :]).long() for _ in range(2))
    d2 = torch.from_numpy(rng.uniform(0, 4, (n, n)))
    alpha, beta = (torch.from_numpy(rng.uniform(0.1, 2, factors.P)) for _ in range(2))
    rows, graphs = factors.rows(v2), GraphPart(factors, form, alpha[None], beta[None])
    tables = graphs.tables(rows, d2)
    own = torch.stack([table[torch.arange(n), v1[:, p]] for p, table in enumerate(tables)])  # [P, n, n]
    by_table = own.prod(0), own.mean(0)
    result = graphs.evaluate(factors.pairs_with(rows, v1), d2.reshape(1, -1))
    pairwise = graphs.evaluate(factors.pairs(v1, v2), d2.diagonal()[None])
    for right, every, some in zip(by_table, result, pairwise, strict=True):
        np.testing.assert_allclose(every.reshape(n, n), right, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(some[0], right.diagonal(), rtol=1e-9, atol=1e-12)
    at_home = graphs.tables(factors.rows(v1), torch.zeros(n, n).double())
    for p, (table, diagonal) in enumerate(zip(at_home, graphs.diagonals(beta), strict=True)):
        points = torch.arange(n)
        np.testing.assert_allclose(table[points, v1[:, p], points], diagonal[v1[:, p]], atol=1e-12)


def test_pairs_computed_in_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of a few numbers and one of a megabyte: the same graph part, slopes and pulls."""
    space = Space([Nominal("a", [0, 1, 2]), Ordinal("b", [0, 1, 2, 3]), Real("x", 0.0, 1.0)])
    rng = np.random.default_rng(0)
    factors, form, M = Factors(space), FastKernel(ModulatedLaplacian(), Blended()), 700
    v1, v2 = (torch.from_numpy(space.sample_encoded(rng, M)[:, 1:]).long() for _ in range(2))
    alpha, beta = (torch.from_numpy(rng.uniform(0.1, 2, (2, 2))) for _ in range(2))
    d2, by_log_q, by_s = (torch.from_numpy(rng.uniform(0, 4, (2, M))) for _ in range(3))
    weights = factors.pairs(v1, v2)

    def everything() -> list[torch.Tensor]:
        graphs = GraphPart(factors, form, alpha, beta)
        traced = GraphPartWithGradient(graphs, weights, d2)
        pulls = traced.pull(by_log_q, by_s)
        return [*graphs.evaluate(weights, d2), traced.q, traced.s, *traced.slopes(), *pulls]

    whole = everything()
    monkeypatch.setattr("fmnas.optimizers.gp.graph_part.CACHE", 1)
    q, s = whole[:2]
    np.testing.assert_allclose(whole[2], q, rtol=1e-12)
    np.testing.assert_allclose(whole[3], s, rtol=1e-12)
    for part, all_at_once in zip(everything(), whole, strict=True):
        np.testing.assert_allclose(part, all_at_once, rtol=1e-12)


STAR = Graph("d", tuple("vwxyz"), tuple(("v", leaf) for leaf in "wxyz"))
MIXED = Space([Nominal("a", [1, 2, 3]), Ordinal("b", [1, 2, 3]), Nominal("c", [1, 2, 3, 4]), STAR, Integer("n", 1, 20)])
"""A path of 3 and a star of 5 vertices have 3 distinct eigenvalues each."""


@pytest.mark.parametrize(("closed", "path", "entries"), [({}, 0, 20), ({"closed_paths": True}, 20, 3)])
def test_complete_graphs_and_long_paths_take_few_numbers_per_pair(
    closed: dict[str, bool], path: int, entries: int
) -> None:
    """One of a complete graph; three of a long path where its closed form holds, and not unless asked."""
    factors = Factors(MIXED, **closed)
    groups = [(group.members, group.complete, group.path) for group in factors.groups]
    assert groups == [([0], 3, 0), ([1, 3], 0, 0), ([2], 4, 0), ([4], 0, path)]
    pair = torch.zeros(1, 5, dtype=torch.long)
    numbers = [weights.numel() for weights in factors.pairs(pair, pair)]
    assert numbers == [1, 2 * 3, 1, entries]
    assert sum(numbers) == factors.terms


def test_rows_of_the_smaller_graphs_of_a_group_end_in_zeros() -> None:
    factors, rng = Factors(MIXED), np.random.default_rng(0)
    v1, v2 = (torch.from_numpy(MIXED.sample_encoded(rng, 30)).long() for _ in range(2))
    rows = factors.rows(v2)
    assert [tuple(table.shape[-2:]) for table in rows] == [(3, 30), (5, 30), (4, 30), (20, 30)]
    assert not rows[1][0, :, 3:].any()
    for every, own in zip(factors.pairs_with(rows, v1), factors.pairs(v1, v2), strict=True):
        np.testing.assert_allclose(every.unflatten(-1, (30, 30)).diagonal(dim1=-2, dim2=-1), own, atol=1e-12)


@pytest.mark.parametrize("name", sorted(MODULATIONS))
def test_without_discrete_variables_the_factor_is_that_of_a_point(name: str) -> None:
    """Its only frequency is 0: f(0, 1 + alpha d2), whatever beta."""
    factors = Factors(Space([Real("x", 0.0, 1.0)]))
    alpha, beta, d2 = (torch.tensor([[value]], dtype=torch.float64) for value in (0.5, 3.0, 4.0))
    graphs = GraphPart(factors, FastKernel(MODULATIONS[name], Modulated()), alpha, beta)
    none = torch.zeros(1, 1, dtype=torch.long)
    q, _ = graphs.evaluate(factors.pairs(none, none), d2)
    assert q.item() == pytest.approx(1 / 3 if name == "modlap" else 1.0)


def test_pulls_are_the_derivatives_by_the_parameters_of_each_variable() -> None:
    """Of four, in an order by group that is not its own inverse."""
    space = Space(
        [Nominal("a", [1, 2, 3]), Ordinal("b", [1, 2, 3]), Nominal("c", [1, 2, 3, 4]), Nominal("d", [1, 2, 3])]
    )
    factors, form, rng = Factors(space), FastKernel(ModulatedLaplacian(), Blended()), np.random.default_rng(0)
    assert factors.order.tolist() == [0, 3, 1, 2]
    weights = factors.pairs(*(torch.from_numpy(space.sample_encoded(rng, 9)).long() for _ in range(2)))
    logs = torch.from_numpy(rng.uniform(-1, 1, (2, 1, 4)))  # of alpha and beta
    d2, by_log_q, by_s = (torch.from_numpy(rng.uniform(0, 4, (1, 9))) for _ in range(3))

    def total(logs: torch.Tensor) -> float:
        q, s = GraphPart(factors, form, *logs.exp()).evaluate(weights, d2)
        return (by_log_q * q.log() + by_s * s).sum().item()

    *pulls, _ = GraphPartWithGradient(GraphPart(factors, form, *logs.exp()), weights, d2).pull(by_log_q, by_s)
    steps = 1e-6 * torch.eye(8, dtype=torch.float64).reshape(8, 2, 1, 4)
    slopes = [(total(logs + step) - total(logs - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(torch.cat(pulls).flatten(), slopes, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", sorted(MODULATIONS))
def test_sums_that_cancel_are_positive(name: str) -> None:
    """Far apart on a path, the eigenvalues' terms add up to less than their rounding errors."""
    factors = Factors(Space([Integer("n", 1, 15)]))
    one = torch.ones(1, 1, dtype=torch.float64)
    graphs = GraphPart(factors, FastKernel(MODULATIONS[name], Modulated()), one, 1e-3 * one)
    v1, v2 = (part.reshape(-1, 1) for part in torch.meshgrid(*[torch.arange(15)] * 2, indexing="ij"))
    q, _ = graphs.evaluate(factors.pairs(v1, v2), one.expand(1, 225))
    assert q.min() > 0
