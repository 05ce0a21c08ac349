"""What every test shares."""

import gc
import os
from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import settings

from fmnas.search_spaces import Cell

# Machines that run tests are slow and shared: an example may take long without being wrong, and each run draws others.
settings.register_profile("fmnas", deadline=None, print_blob=True, max_examples=50)
settings.load_profile("fmnas")

# Among the millions of objects that thousands of tests keep, looking for garbage all the time took a tenth of it.
gc.set_threshold(100_000, 50, 50)

# One trainer per core is faster than all of them on every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A test that imports mlflow itself must send nothing home either.
os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run slow tests first: quick files then fill up the end, when workers run out of tests."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def figures_as_svg(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that looks at no file of a figure, only at the page: fonts for PDF take most of the time."""
    monkeypatch.setattr("fmnas.comparison.figures.files.FORMATS", ("svg",))


def _network_graph(cell: Cell) -> nx.DiGraph:
    graph = nx.DiGraph()

    def add(node: str, kind: str, *sources: str) -> str:
        graph.add_node(node, kind=kind)
        graph.add_edges_from((source, node) for source in sources)
        return node

    a = b = add("stem", "stem")
    for depth in range(3):
        here = f"cells.{depth}"
        values = {i - 1: add(f"{here}.inputs.{i}", f"{here} input", source) for i, source in enumerate((a, b))}
        for state in cell.live_states():
            wires = zip(("first", "second"), cell.operations[state - 1], cell.inputs[state - 1], strict=True)
            parts = [add(f"{here}.states.{state}.{slot}", f"{here} {op}", values[i]) for slot, op, i in wires]
            values[state] = add(f"{here}.states.{state}", f"{here} sum", *parts)
        a, b = (add(f"{here}.outputs.{i}", f"{here} pool", values[s]) for i, s in enumerate((cell.output, 4)))
    add("reduction", "reduction", a, b)
    return graph


@pytest.fixture(scope="session")
def network_graph() -> Callable[[Cell], nx.DiGraph]:
    """network_graph(cell): the computation graph of the whole network, written out.

    A node per module, named as in the network, of a `kind` that two modules share when they could change places.
    """
    return _network_graph
