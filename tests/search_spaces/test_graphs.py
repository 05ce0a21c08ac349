"""Graphs and the spectrum of their Laplacians: golden numbers, closed forms, definitions."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Graph, Nominal, Ordinal, SpaceError
from fmnas.search_spaces.nasnet import cell_variables, input_pairs
from fmnas.search_spaces.variables import laplacian

GOLDEN = json.loads((Path(__file__).parent / "golden_graphs.json").read_text())


@pytest.mark.parametrize("state", [2, 3, 4])
def test_input_graph_is_the_golden_one(state: int) -> None:
    golden = GOLDEN[f"S{state}"]
    variable = {v.name: v for v in cell_variables()}[f"in{state}"]
    assert [list(pair) for pair in input_pairs(state)] == golden["vertices"]
    assert variable.vertices == tuple(f"{a},{b}" for a, b in golden["vertices"])
    np.testing.assert_array_equal(variable.adjacency, golden["adjacency"])
    np.testing.assert_allclose(variable.spectrum[0], golden["eigenvalues"], atol=1e-12)


def test_path_of_3_and_complete_graph_of_8_are_the_golden_ones() -> None:
    path, complete = Ordinal("path", range(3)), Nominal("complete", range(8))
    np.testing.assert_array_equal(path.adjacency, GOLDEN["path3"]["adjacency"])
    np.testing.assert_allclose(path.spectrum[0], GOLDEN["path3"]["eigenvalues"], atol=1e-12)
    np.testing.assert_allclose(complete.spectrum[0], GOLDEN["complete8"]["eigenvalues"], atol=1e-12)


@pytest.mark.parametrize("n", [2, 9, 25, 100])
def test_spectra_of_a_complete_graph_and_of_a_path_are_their_closed_forms(n: int) -> None:
    path, complete = Ordinal("path", range(n)), Nominal("complete", range(n))
    np.testing.assert_allclose(complete.spectrum[0], [0.0] + [n] * (n - 1), atol=1e-10)
    np.testing.assert_allclose(path.spectrum[0], 2 - 2 * np.cos(np.pi * np.arange(n) / n), atol=1e-10)


@pytest.mark.parametrize("n", [2, 5])
def test_named_graphs_join_each_vertex_to_the_right_ones(n: int) -> None:
    pairs = {(i, j) for i in range(n) for j in range(n)}
    path, complete = Ordinal("path", range(n)), Nominal("complete", range(n))
    assert {(i, j) for i, j in np.argwhere(path.adjacency)} == {(i, j) for i, j in pairs if abs(i - j) == 1}
    assert {(i, j) for i, j in np.argwhere(complete.adjacency)} == {(i, j) for i, j in pairs if i != j}


GRAPHS = st.integers(2, 7).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1]), max_size=12),
    )
)


@given(graph=GRAPHS)
def test_the_spectrum_decomposes_the_laplacian_of_a_connected_graph(graph: tuple[int, list[tuple[int, int]]]) -> None:
    n, edges = graph
    adjacency = np.zeros((n, n))
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1.0
    is_connected = np.linalg.matrix_rank(laplacian(adjacency)) == n - 1
    if not is_connected:
        with pytest.raises(SpaceError, match="not connected"):
            Graph("g", range(n), tuple(edges))
        return
    variable = Graph("g", range(n), tuple(edges))
    np.testing.assert_array_equal(variable.adjacency, adjacency)
    values, vectors = variable.spectrum
    np.testing.assert_allclose(vectors @ np.diag(values) @ vectors.T, laplacian(adjacency), atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(n), atol=1e-9)
    assert (values >= 0.0).all()
    assert (np.diff(values) >= 0.0).all()
