"""The closed form of a long path's factor, held to the inverse matrix and to the sum over eigenvalues."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers.gp.factors import Factors
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS
from fmnas.optimizers.gp.graph_part import GraphPart, GraphPartWithGradient
from fmnas.optimizers.gp.graphs import LongPath, is_long_path, path_factor, path_factor_and_decay
from fmnas.search_spaces import Graph, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import Discrete, laplacian

scales = st.floats(-4, 4).map(lambda power: 10.0**power)


@given(V=st.integers(2, 150), b=scales, u=st.floats(1.0, 1e5))
@settings(max_examples=60)
def test_the_factor_is_the_inverse_and_its_decay_the_square_of_that(V: int, b: float, u: float) -> None:
    variable = Integer("n", 1, V)
    inverse = np.linalg.inv(u * np.eye(V) + b * laplacian(variable.adjacency))
    lengths = LongPath(*variable.spectrum).columns(torch.arange(V))[None, None]  # [1, 1, 3, V, V]
    b_, u_ = (torch.full((1, 1, 1, 1), value, dtype=torch.float64) for value in (b, u))
    S, decay = path_factor_and_decay(V, lengths, b_, u_)
    np.testing.assert_allclose(S[0, 0], inverse, rtol=1e-7, atol=1e-13 / u)
    np.testing.assert_allclose(decay[0, 0], inverse @ inverse, rtol=1e-7, atol=1e-13 / u)
    np.testing.assert_array_equal(path_factor(V, lengths, b_, u_), S.clamp(min=1e-300))


def _circle(V: int) -> Graph:
    return Graph("g", tuple(range(V)), tuple((i, (i + 1) % V) for i in range(V)))


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (Integer("n", 3, 18), True),
        (Ordinal("o", [2.0**k for k in range(16)]), True),
        (Integer("n", 3, 17), False),
        (Nominal("c", list(range(16))), False),
        (_circle(16), False),
        (Graph("g", tuple(range(16)), ((0, 15), *((i, i + 1) for i in range(1, 15)), (1, 0))), False),
    ],
)
def test_a_long_path_is_in_its_order(variable: Discrete, expected: bool) -> None:
    assert is_long_path(variable) == expected


@pytest.mark.parametrize("kernel", ["modlap", "prodlap", "addlap", "moddif"])
def test_only_kernels_of_the_laplacian_use_the_closed_form(kernel: str) -> None:
    space = Space([Integer("n", 1, 20), Real("x", 0, 1)])
    assert FMKernel(space, FAST_KERNELS[kernel]).factors.groups[0].path == (0 if kernel == "moddif" else 20)


SPACE = Space([Integer("n", 1, 40), Nominal("c", list("abc")), Ordinal("o", list(range(40))), Integer("k", 1, 5)])


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_the_graph_part_is_that_of_the_sum_over_eigenvalues(seed: int) -> None:
    rng, n, form = np.random.default_rng(seed), 8, BLENDED_KERNELS["modlap"]
    v1, v2 = (torch.from_numpy(SPACE.sample_encoded(rng, n)).long() for _ in range(2))
    d2 = torch.from_numpy(rng.uniform(0, 4, (n, n)))
    alpha, beta = (torch.from_numpy(rng.uniform(0.1, 4, (1, 4))) for _ in range(2))
    by_s = torch.from_numpy(rng.standard_normal((1, n)))
    results = []
    for factors in (Factors(SPACE, closed_paths=True), Factors(SPACE)):
        graphs, rows = GraphPart(factors, form, alpha, beta), factors.rows(v2)
        tables = graphs.tables(rows, d2)
        every = graphs.evaluate(factors.pairs_with(rows, v1), d2.reshape(1, -1))
        traced = GraphPartWithGradient(graphs, factors.pairs(v1, v2), d2.diagonal()[None])
        pulls = traced.pull(by_s * traced.q, by_s)
        results.append([*tables, *every, traced.q, traced.s, *traced.slopes(), *pulls])
    for closed, summed in zip(*results, strict=True):
        np.testing.assert_allclose(closed, summed, rtol=1e-7, atol=1e-12)


def test_a_fit_far_apart_has_finite_slopes() -> None:
    """At the ends of a path with a small beta the factor is below the smallest number."""
    space, form = Space([Integer("n", 1, 300), Real("x", 0, 1)]), BLENDED_KERNELS["modlap"]
    factors = Factors(space, closed_paths=True)
    one = torch.full((1, 1), 1e-4, dtype=torch.float64)
    traced = GraphPartWithGradient(
        GraphPart(factors, form, one * 1e4, one), factors.pairs(*torch.tensor([[[0]], [[299]]])), one * 1e4
    )
    for value in (traced.q, traced.s, *traced.slopes(), *traced.pull(one, one)):
        assert torch.isfinite(value).all()
