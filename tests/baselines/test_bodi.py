"""BODi: its kernel against golden values, the kernel's fast paths, its dictionaries, and its search."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines.bodi import BODi
from fmnas.baselines.dictionary_kernel import DictionaryKernel, draw_anchors, draw_wavelet_anchors, wavelet_matrix
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood
from fmnas.search_spaces import Nominal, Real, Space

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_bodi.json").read_text())
"""Embeddings and kernel matrices, computed with the authors' public code."""


def golden_kernel(case: dict[str, Any]) -> tuple[DictionaryKernel, Points, torch.Tensor]:
    """The kernel, points and lengthscales of a golden case."""
    anchors, Z = torch.tensor(case["anchors"]), torch.tensor(case["Z"], dtype=torch.float64)
    P, values = anchors.shape[1], list(range(case["values_per_variable"]))
    continuous = [Real(f"x{d}", 0.0, 1.0) for d in range(Z.shape[1] - P)]
    space = Space([*continuous, *(Nominal(f"n{p}", values) for p in range(P))])
    theta = torch.tensor(case["lengthscale"], dtype=torch.float64)
    return DictionaryKernel(space, anchors), Points(Z[:, P:], Z[:, :P].long()), theta


@pytest.mark.parametrize("case", GOLDEN)
def test_the_kernel_has_the_golden_values(case: dict[str, Any]) -> None:
    kernel, points, theta = golden_kernel(case)
    torch.testing.assert_close(kernel.embed(points.V), torch.tensor(case["embedding"], dtype=torch.float64))
    r, own = kernel.condition_on({"theta": theta}, points).correlate(points)
    gram = torch.tensor(case["gram"], dtype=torch.float64)
    torch.testing.assert_close(r, gram, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(own, torch.ones(len(points), dtype=torch.float64))
    i, j = torch.triu_indices(len(points), len(points))
    torch.testing.assert_close(kernel.pairs(points).correlation({"theta": theta[None]})[0], gram[i, j])


def test_the_wavelet_matrix_is_that_of_the_paper() -> None:
    """Sizes 2, 4 and 8 as the authors print them."""
    assert wavelet_matrix(2).tolist() == [[1, 1], [1, 0]]
    assert wavelet_matrix(4).tolist() == [[1, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 1], [1, 0, 1, 0]]
    rows = ("11111111", "11111100", "11000011", "11001100", "11010011", "11010100", "10101011", "10101010")
    assert wavelet_matrix(8).tolist() == [[int(bit) for bit in row] for row in rows]
    for size in range(2, 26, 2):
        assert abs(np.linalg.det(wavelet_matrix(size).numpy())) == pytest.approx(1.0)  # its columns are a basis


@pytest.mark.parametrize(("P", "count"), [(5, 3), (8, 8), (9, 128)])
def test_wavelet_anchors_are_distinct_columns(P: int, count: int) -> None:
    anchors = draw_wavelet_anchors(P, count, np.random.default_rng(0))
    W = wavelet_matrix(P - P % 2)
    assert anchors.shape == (min(count, len(W)), P)
    assert (anchors[:, : P % 2] == 1).all()
    columns = [W[:, k].tolist() for k in range(len(W))]
    places = [columns.index(row) for row in anchors[:, P % 2 :].tolist()]
    assert places == sorted(set(places))


def test_a_wavelet_dictionary_is_for_binary_variables() -> None:
    space = Space([*(Nominal(f"b{k}", [0, 1]) for k in range(7)), Real("x", 0.0, 1.0)])
    optimizer = BODi(space, dictionary="wavelet", initial_design=[])
    for k in range(6):
        optimizer.tell(optimizer.ask(), float(k % 3))
    assert len(optimizer.surrogate.kernel.anchors) == 6
    with pytest.raises(OptimizerError, match="binary"):
        BODi(Space([Nominal("n", ["a", "b", "c"]), Nominal("b", [0, 1])]), dictionary="wavelet")


@pytest.mark.parametrize("case", GOLDEN)
def test_neighbours_and_gradients_are_those_of_the_kernel(case: dict[str, Any]) -> None:
    kernel, points, theta = golden_kernel(case)
    conditioned = kernel.condition_on({"theta": theta}, points)
    r, _ = conditioned.neighbours(points)
    vertex = kernel.shares.new_tensor([v for variable in kernel.space.discrete for v in range(len(variable.vertices))])
    for k in (0, len(vertex) - 1):
        V = points.V.clone()
        V[:, kernel.variable[k]] = int(vertex[k])
        torch.testing.assert_close(r[:, k], conditioned.correlate(Points(points.C, V))[0])
    C = points.C + 0.01
    value, _, pullback = conditioned.with_pullback(C, conditioned.precompute(points.V))
    torch.testing.assert_close(value, conditioned.correlate(Points(C, points.V))[0])
    by_r = torch.rand(value.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gradient = pullback(by_r, torch.zeros(len(C)))
    for d in range(C.shape[1]):
        step = torch.zeros_like(C)
        step[:, d] = 1e-6
        up, down = (conditioned.correlate(Points(moved, points.V))[0] for moved in (C + step, C - step))
        torch.testing.assert_close(gradient[:, d], ((up - down) * by_r).sum(1) / 2e-6, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_the_likelihood_is_its_slope() -> None:
    kernel, points, theta = golden_kernel(GOLDEN[0])
    y = torch.linspace(-1.0, 1.0, len(points), dtype=torch.float64)
    likelihood = Likelihood(kernel, points, y)
    eta = torch.cat([theta.log(), torch.tensor([-3.0])]).double()[None]
    _, gradient = likelihood(eta, torch.arange(1))
    for d in range(eta.shape[1]):
        step = torch.zeros_like(eta)
        step[0, d] = 1e-5
        up, down = (float(likelihood(moved, torch.arange(1))[0]) for moved in (eta + step, eta - step))
        assert float(gradient[0, d]) == pytest.approx((up - down) / 2e-5, rel=1e-4, abs=1e-8)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=8), st.integers(0, 100))
def test_anchors_are_configurations(sizes: list[int], seed: int) -> None:
    anchors = draw_anchors(sizes, 20, np.random.default_rng(seed))
    assert anchors.shape == (20, len(sizes))
    assert ((anchors >= 0) & (anchors < torch.tensor(sizes))).all()


def test_binary_anchors_have_every_number_of_ones() -> None:
    anchors = draw_anchors([2] * 10, 2_000, np.random.default_rng(0))
    counts = torch.bincount(anchors.sum(1), minlength=11)
    assert counts[0] == counts[9] == counts[10] == 0
    assert counts[1:9].min() > 150


@pytest.mark.parametrize("P", [3, 6])
def test_binary_anchors_have_a_uniform_number_of_ones_up_to_two_fewer_than_variables(P: int) -> None:
    ones = draw_anchors([2] * P, 600 * (P - 2), np.random.default_rng(1)).sum(1).numpy()
    assert sorted(set(ones)) == list(range(1, P - 1))
    assert np.bincount(ones)[1:].min() > 500  # 600 are expected of each


def test_the_values_of_an_anchor_have_a_distribution_that_is_uniform_on_the_simplex() -> None:
    """Of uniform points of the simplex over three values each share is Beta(1, 2), here with noise of 30 draws."""
    anchors = draw_anchors([3] * 30, 600, np.random.default_rng(0)).numpy()
    for value in range(3):
        shares = (anchors == value).mean(1)
        assert shares.mean() == pytest.approx(1 / 3, abs=0.04)
        assert shares.var() == pytest.approx(1 / 18 + 1 / 6 / 30, rel=0.2)


def test_variables_of_fewer_values_draw_a_subset_of_the_shares_each() -> None:
    """In any order, so both values of a binary variable are as likely in every anchor: 100 fair coins."""
    anchors = draw_anchors([3] + [2] * 100, 200, np.random.default_rng(0)).numpy()[:, 1:]
    assert anchors.mean() == pytest.approx(0.5, abs=0.02)
    assert anchors.mean(1).var() == pytest.approx(0.25 / 100, rel=0.4)


def test_wavelet_anchors_are_any_columns() -> None:
    W, rng = wavelet_matrix(8), np.random.default_rng(0)
    columns = [W[:, k].tolist() for k in range(8)]
    places = [columns.index(row) for _ in range(200) for row in draw_wavelet_anchors(8, 2, rng).tolist()]
    assert np.bincount(places, minlength=8).min() > 25  # 50 are expected of each


def test_lengthscales_begin_at_softplus_of_zero() -> None:
    kernel, _, _ = golden_kernel(GOLDEN[0])
    (theta,) = kernel.parameters
    np.testing.assert_allclose(theta.start(np.random.default_rng(0), (1, theta.size)), np.log1p(np.exp(0.0)))


def test_without_discrete_variables_there_is_no_anchor() -> None:
    space = Space([Real("x", 0.0, 1.0)])
    kernel = BODi(space).kernel(space)
    assert len(kernel.anchors) == 0
    assert sum(parameter.size for parameter in kernel.parameters) == 1


def test_another_dictionary_is_drawn_at_every_suggestion() -> None:
    optimizer = BODi(Space([Real("x", 0.0, 1.0), *(Nominal(f"n{p}", [0, 1]) for p in range(5))]), anchors=4)
    seen = []
    for _ in range(13):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, trial.configuration["x"] + sum(trial.configuration[f"n{p}"] for p in range(5)))
        seen.append(optimizer.surrogate.kernel)
    assert not torch.equal(seen[-1].anchors, seen[-2].anchors)


def test_it_finds_the_minimum_of_a_binary_problem() -> None:
    target = [1, 0, 1, 1, 0, 0, 1, 0]
    optimizer = BODi(Space([Nominal(f"n{p}", [0, 1]) for p in range(8)]), seed=1)
    for _ in range(40):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, float(sum(a != b for a, b in zip(trial.configuration.values(), target, strict=True))))
    assert min(evaluation.objective for _, evaluation in optimizer.history) == 0.0


def test_a_dictionary_has_anchors() -> None:
    with pytest.raises(OptimizerError):
        BODi(Space([Real("x", 0.0, 1.0)]), anchors=0)
