"""Graphs and the spectrum of their Laplacians: golden numbers, closed forms, definitions."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces.nasnet import cell_variables, input_pairs
from fmnas.search_spaces.variables import (
    complete_graph,
    graph_from_edges,
    is_connected,
    laplacian,
    path_graph,
    spectrum,
)

GOLDEN = json.loads((Path(__file__).parent / "golden_graphs.json").read_text())


@pytest.mark.parametrize("state", [2, 3, 4])
def test_input_graph_is_the_golden_one(state: int) -> None:
    golden = GOLDEN[f"S{state}"]
    variable = {v.name: v for v in cell_variables()}[f"in{state}"]
    assert [list(pair) for pair in input_pairs(state)] == golden["vertices"]
    assert variable.vertices == tuple(f"{a},{b}" for a, b in golden["vertices"])
    np.testing.assert_array_equal(variable.adjacency, golden["adjacency"])
    np.testing.assert_allclose(variable.spectrum[0], golden["eigenvalues"], atol=1e-12)


def test_path_of_3_is_the_golden_one() -> None:
    np.testing.assert_array_equal(path_graph(3), GOLDEN["path3"]["adjacency"])
    np.testing.assert_allclose(spectrum(path_graph(3))[0], GOLDEN["path3"]["eigenvalues"], atol=1e-12)


def test_complete_graph_of_8_is_the_golden_one() -> None:
    np.testing.assert_allclose(spectrum(complete_graph(8))[0], GOLDEN["complete8"]["eigenvalues"], atol=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 9, 25])
def test_spectrum_of_a_complete_graph_is_0_and_n(n: int) -> None:
    np.testing.assert_allclose(spectrum(complete_graph(n))[0], [0.0] + [n] * (n - 1), atol=1e-10)


@pytest.mark.parametrize("n", [2, 3, 4, 9, 25])
def test_spectrum_of_a_path_is_its_closed_form(n: int) -> None:
    np.testing.assert_allclose(spectrum(path_graph(n))[0], 2 - 2 * np.cos(np.pi * np.arange(n) / n), atol=1e-10)


@pytest.mark.parametrize("n", [2, 5])
def test_named_graphs_join_each_vertex_to_the_right_ones(n: int) -> None:
    assert {(i, j) for i, j in np.argwhere(path_graph(n))} == {(i, j) for i in range(n) for j in (i - 1, i + 1)} & {
        (i, j) for i in range(n) for j in range(n)
    }
    assert {(i, j) for i, j in np.argwhere(complete_graph(n))} == {(i, j) for i in range(n) for j in range(n) if i != j}


GRAPHS = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1]), max_size=12),
    )
)


@given(graph=GRAPHS)
def test_spectrum_decomposes_the_laplacian(graph: tuple[int, list[tuple[int, int]]]) -> None:
    adjacency = graph_from_edges(*graph)
    values, vectors = spectrum(adjacency)
    np.testing.assert_array_equal(laplacian(adjacency).sum(axis=1), 0.0)
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, laplacian(adjacency), atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(len(values)), atol=1e-9)
    assert (values >= 0.0).all()
    assert (np.diff(values) >= 0.0).all()


@given(graph=GRAPHS)
def test_a_graph_is_connected_when_zero_is_a_simple_eigenvalue(graph: tuple[int, list[tuple[int, int]]]) -> None:
    adjacency = graph_from_edges(*graph)
    np.testing.assert_array_equal(adjacency, adjacency.T)
    assert is_connected(adjacency) == (int((spectrum(adjacency)[0] == 0.0).sum()) == 1)
