"""Graphs as adjacency matrices, and the spectrum of their Laplacian.

| symbol | shape | meaning |
|---|---|---|
| A | [n, n] | adjacency, 0 or 1, symmetric, zero diagonal |
| L | [n, n] | Laplacian D - A, unnormalised |
| lambda | [n] | eigenvalues of L, ascending, lambda[0] = 0 |
| U | [n, n] | orthonormal eigenvectors, one per column: L = U diag(lambda) U^T |
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Adjacency = NDArray[np.float64]


def complete_graph(n: int) -> Adjacency:
    """Every vertex beside every other: a nominal variable with n values."""
    return np.ones((n, n)) - np.eye(n)


def path_graph(n: int) -> Adjacency:
    """Vertices in a row: an ordinal variable with n values."""
    return np.eye(n, k=1) + np.eye(n, k=-1)


def graph_from_edges(n: int, edges: Iterable[tuple[int, int]]) -> Adjacency:
    """The undirected graph on n vertices with these edges, given as pairs of indices."""
    adjacency = np.zeros((n, n))
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1.0
    return adjacency


def is_connected(adjacency: Adjacency) -> bool:
    """Whether every vertex can be reached from vertex 0."""
    reached, frontier = {0}, [0]
    while frontier:
        vertex = frontier.pop()
        fresh = {int(j) for j in np.flatnonzero(adjacency[vertex])} - reached
        reached |= fresh
        frontier.extend(fresh)
    return len(reached) == len(adjacency)


def laplacian(adjacency: Adjacency) -> NDArray[np.float64]:
    """L = D - A."""
    return np.asarray(np.diag(adjacency.sum(axis=1)) - adjacency)


def spectrum(adjacency: Adjacency) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues [n] and eigenvectors [n, n] of the Laplacian; rounding below zero is set to zero."""
    eigenvalues, eigenvectors = np.linalg.eigh(laplacian(adjacency))
    eigenvalues[np.abs(eigenvalues) < 1e-9] = 0.0
    return eigenvalues, eigenvectors
