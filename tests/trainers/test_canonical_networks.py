"""Cells of one canonical form have the same logits, with the weights mapped, and the same FLOPs and parameters."""

from collections.abc import Callable

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

from fmnas.search_spaces import Cell, canonical_form
from fmnas.trainers.images.model import Network
from fmnas.trainers.images.network import count_flops

GraphOf = Callable[[Cell], nx.DiGraph]
PLAIN = ("identity", "maxpool3x3")
THERE, BACK = ("conv3x3", "sepconv5x5"), ("sepconv5x5", "conv3x3")
MIRRORED = tuple(
    Cell(((-1, 0), (-1, 1), (-1, 0), (0, 1)), (first, second, PLAIN, last), 2)
    for first, second, last in ((THERE, PLAIN, BACK), (BACK, BACK, PLAIN))
)
SELF_MIRRORED = tuple(
    Cell(((-1, 0), (-1, 0), (1, 2), (1, 2)), (THERE, BACK, *outputs), 3) for outputs in ((THERE, BACK), (BACK, THERE))
)


def isomorphism(a: nx.DiGraph, b: nx.DiGraph) -> dict[str, str]:
    """Node of a -> node of b."""
    matcher = nx.isomorphism.DiGraphMatcher(a, b, node_match=lambda x, y: x["kind"] == y["kind"])
    assert matcher.is_isomorphic()
    return dict(matcher.mapping)


def with_weights_of(source: Network, cell: Cell, names: dict[str, str]) -> Network:
    """The network of `cell` with the weights of `source`, mapped by the names of its modules."""
    network = Network(cell.states, cell.output).double()
    for name in ("stem", "reduction", "norm", "classifier"):
        network.get_submodule(name).load_state_dict(source.get_submodule(name).state_dict())
    for old, new in names.items():
        if old.rpartition(".")[2] in ("first", "second") or ".inputs." in old:
            network.get_submodule(new).load_state_dict(source.get_submodule(old).state_dict())
    if names["cells.2.outputs.0"] == "cells.2.outputs.1":
        weight = network.reduction.weight.data  # [32, 64, 1, 1]: the first output's channels, then the second's
        weight.copy_(weight.roll(32, dims=1))
    return network


def random_network(cell: Cell) -> Network:
    network, generator = Network(cell.states, cell.output).double(), torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


def logits(network: Network) -> Tensor:
    images = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        return network.train()(images)


@pytest.mark.parametrize(
    ("cell", "other"),
    [MIRRORED, SELF_MIRRORED],
)
def test_cells_of_one_form_compute_the_same_logits(network_graph: GraphOf, cell: Cell, other: Cell) -> None:
    assert canonical_form(cell) == canonical_form(other)
    assert count_flops(cell) == count_flops(other)
    network = random_network(cell)
    names = isomorphism(network_graph(cell), network_graph(other))
    expected = logits(network)
    torch.testing.assert_close(logits(with_weights_of(network, other, names)), expected, rtol=1e-9, atol=1e-9)
