"""Cells of one canonical form have the same logits, with the weights mapped, and the same FLOPs and parameters."""

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from fmnas.search_spaces import Cell, canonical_form, joint_space
from fmnas.trainers.images.network import Network, count_flops

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


def random_cells(count: int) -> list[Cell]:
    rng, space = np.random.default_rng(4), joint_space()
    return [Cell.from_configuration(space.sample(rng)) for _ in range(count)]


def isomorphism(a: nx.DiGraph, b: nx.DiGraph) -> dict[str, str]:
    """Node of a -> node of b."""
    matcher = nx.isomorphism.DiGraphMatcher(a, b, node_match=lambda x, y: x["kind"] == y["kind"])
    assert matcher.is_isomorphic()
    return dict(matcher.mapping)


def with_weights_of(source: Network, cell: Cell, names: dict[str, str]) -> Network:
    """The network of `cell` with the weights of `source`, mapped by the names of its modules."""
    network = Network(cell).double()
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
    network, generator = Network(cell).double(), torch.Generator().manual_seed(1)
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return network


def logits(network: Network) -> Tensor:
    images = torch.randn(2, 1, 28, 28, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        return network.train()(images)


@pytest.mark.parametrize(
    ("cell", "other"),
    [MIRRORED, SELF_MIRRORED, *((cell, canonical_form(cell).representative()) for cell in random_cells(12))],
)
def test_cells_of_one_form_compute_the_same_logits(network_graph: GraphOf, cell: Cell, other: Cell) -> None:
    assert canonical_form(cell) == canonical_form(other)
    network = random_network(cell)
    names = isomorphism(network_graph(cell), network_graph(other))
    expected = logits(network)
    torch.testing.assert_close(logits(with_weights_of(network, other, names)), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("pair", [MIRRORED, SELF_MIRRORED])
def test_exchanged_outputs_are_noticed(network_graph: GraphOf, pair: tuple[Cell, Cell]) -> None:
    network = random_network(pair[0])
    names = isomorphism(network_graph(pair[0]), network_graph(pair[1]))
    exchanged = {"cells.2.outputs.0": names["cells.2.outputs.1"], "cells.2.outputs.1": names["cells.2.outputs.0"]}
    other = with_weights_of(network, pair[1], names | exchanged)
    assert (logits(other) - logits(network)).abs().max() > 0.01


@pytest.mark.parametrize("cell", [*MIRRORED, *SELF_MIRRORED, *random_cells(8)])
def test_the_form_determines_flops_and_parameters(cell: Cell) -> None:
    network, other = Network(cell).eval(), Network(canonical_form(cell).representative())
    sizes = [sorted(tuple(p.shape) for p in n.parameters()) for n in (network, other)]
    assert sizes[0] == sizes[1]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 1, 28, 28))
    assert count_flops(cell) == counter.get_total_flops()
