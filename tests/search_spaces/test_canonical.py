"""The canonical form against the definition of sameness: isomorphism of the networks' computation graphs."""

from collections import defaultdict
from collections.abc import Callable
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Cell, canonical_form
from fmnas.search_spaces.canonical import CanonicalCell
from fmnas.search_spaces.nasnet import OPERATIONS, input_pairs

GraphOf = Callable[[Cell], nx.DiGraph]
MIRROR = {-1: 0, 0: -1}
WIRINGS = tuple(product(input_pairs(2), input_pairs(3), input_pairs(4), (1, 2, 3)))


def same_network(a: nx.DiGraph, b: nx.DiGraph) -> bool:
    return nx.is_isomorphic(a, b, node_match=lambda x, y: x["kind"] == y["kind"])


def encodings(cell: Cell, mirrored: bool) -> list[dict[int, dict[int, str]]]:
    """The live states as number -> input -> operation, renumbered in every way that a cell can express."""
    exchange = MIRROR if mirrored else {}
    live = cell.live_states()
    summands = {
        s: [(exchange.get(i, i), op) for i, op in zip(cell.inputs[s - 1], cell.operations[s - 1], strict=True)]
        for s in live
    }
    first, last = (4, cell.output) if mirrored else (cell.output, 4)
    rest = [s for s in live if s != last]
    result = []
    for places in permutations((1, 2, 3), len(rest)):
        new = {-1: -1, 0: 0, last: 4, **dict(zip(rest, places, strict=True))}
        if all(new[i] < new[s] for s in live for i, _ in summands[s]):
            result.append({new[s]: {new[i]: op for i, op in summands[s]} for s in live} | {0: new[first]})
    return result


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    operations = draw(st.sampled_from([OPERATIONS[:2], OPERATIONS]))
    wiring = draw(st.sampled_from(WIRINGS))
    drawn = [draw(st.sampled_from(operations)) for _ in range(8)]
    return Cell(((-1, 0), *wiring[:3]), tuple(zip(drawn[::2], drawn[1::2], strict=True)), wiring[3])


@st.composite
def two_encodings(draw: st.DrawFn) -> tuple[Cell, Cell]:
    """A cell, and the same network encoded in another way: renumbered, perhaps mirrored, its dead states anything."""
    cell = draw(cells())
    choices = encodings(cell, mirrored=False) + encodings(cell, mirrored=True)
    states = dict(draw(st.sampled_from(choices)))
    output = states.pop(0)
    for dead in {1, 2, 3} - set(states):
        pair = draw(st.sampled_from(input_pairs(dead)))
        states[dead] = {i: draw(st.sampled_from(OPERATIONS)) for i in pair}
    inputs = tuple(tuple(sorted(states[s])) for s in (1, 2, 3, 4))
    operations = tuple(tuple(states[s][i] for i in inputs[s - 1]) for s in (1, 2, 3, 4))
    return cell, Cell(inputs, operations, output)


@given(pair=two_encodings())
def test_a_network_has_one_form_however_it_is_encoded(pair: tuple[Cell, Cell]) -> None:
    cell, other = pair
    assert canonical_form(cell) == canonical_form(other)
    assert hash(canonical_form(cell)) == hash(canonical_form(other))


def few_operations(rng: np.random.Generator) -> list[tuple[str, ...]]:
    """All places alike, one place different, and random places different."""
    marks = [np.zeros(8, int), *np.eye(8, dtype=int), *rng.integers(0, 2, (7, 8))]
    return [tuple(("identity", "conv3x3")[i] for i in mark) for mark in marks]


class Expressions:
    """A network as an expression of the image, as a number: equal where the networks differ at most in sharing."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def of(self, graph: nx.DiGraph) -> int:
        value: dict[str, int] = {}
        for node in nx.topological_sort(graph):
            key = (graph.nodes[node]["kind"], *sorted(value[source] for source in graph.predecessors(node)))
            value[node] = self._numbers.setdefault(key, len(self._numbers))
        return value["reduction"]


def test_forms_are_equal_exactly_where_networks_are_isomorphic(network_graph: GraphOf) -> None:
    """Every wiring, two operations. Different expressions are different networks; those of one are compared."""
    rng = np.random.default_rng(0)
    members: dict[object, list[Cell]] = defaultdict(list)
    for wiring in WIRINGS:
        for ops in few_operations(rng):
            cell = Cell(((-1, 0), *wiring[:3]), tuple(zip(ops[::2], ops[1::2], strict=True)), wiring[3])
            members[canonical_form(cell)].append(cell)
    assert 1000 < len(members) < 16 * 486
    expressions, alike = Expressions(), defaultdict(list)
    for number, result in enumerate(members.values()):
        graph = network_graph(result[0])
        alike[expressions.of(graph)].append(graph)
        if number % 20 == 0:
            assert all(same_network(graph, network_graph(cell)) for cell in result[1:5])
    compared = [pair for graphs in alike.values() for pair in combinations(graphs, 2)]
    assert len(compared) > 100
    assert not any(same_network(a, b) for a, b in compared)


PLAIN = (("identity", "identity"),) * 4


def test_the_mirror_image_is_the_same_network_and_half_of_it_is_not() -> None:
    inputs, exchanged = ((-1, 0), (-1, 1), (-1, 0), (0, 1)), ((-1, 0), (0, 1), (-1, 0), (-1, 1))
    x, y, z = ("conv1x1", "conv3x3"), ("conv5x5", "identity"), ("sepconv3x3", "maxpool3x3")
    cell = Cell(inputs, (x, y, PLAIN[2], z), 2)
    mirror_image = Cell(inputs, (x[::-1], z, PLAIN[2], y), 2)
    inputs_alone = Cell(exchanged, (x[::-1], y, PLAIN[2], z), 2)
    outputs_alone = Cell(exchanged, (x, z, PLAIN[2], y), 2)
    assert canonical_form(cell) == canonical_form(mirror_image) != canonical_form(inputs_alone)
    assert canonical_form(inputs_alone) == canonical_form(outputs_alone), "mirror images of one another"


def test_a_cell_that_is_its_own_mirror_image_may_exchange_its_inputs_alone(network_graph: GraphOf) -> None:
    inputs = ((-1, 0), (-1, 0), (1, 2), (1, 2))
    forth, back = ("conv3x3", "identity"), ("identity", "conv3x3")
    a, b = (Cell(inputs, (forth, back, *outputs), 3) for outputs in ((forth, back), (back, forth)))
    assert same_network(network_graph(a), network_graph(b))
    assert canonical_form(a) == canonical_form(b)


def test_the_form_is_the_least_of_both_mirror_images() -> None:
    """S3 and S4 read the inputs alone: either may be the last, and as the first that of the lesser operations is."""
    cell = Cell(((-1, 0),) * 4, (("identity",) * 2, ("identity",) * 2, ("conv3x3", "identity"), ("conv1x1",) * 2), 3)
    lesser, greater = ((-1, "conv1x1"), (0, "conv1x1")), ((-1, "identity"), (0, "conv3x3"))
    assert canonical_form(cell) == CanonicalCell((lesser, greater), 1)


@given(st.integers(0, 2**32 - 1))
def test_states_of_a_form_use_earlier_ones_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    wiring = WIRINGS[rng.integers(len(WIRINGS))]
    operations = tuple((OPERATIONS[a], OPERATIONS[b]) for a, b in rng.integers(len(OPERATIONS), size=(4, 2)))
    form = canonical_form(Cell(((-1, 0), *wiring[:3]), operations, wiring[3]))
    assert all(source < number for number, state in enumerate(form.states, start=1) for source, _ in state)
    assert 1 <= form.output < len(form.states)
