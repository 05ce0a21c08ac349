"""What every test shares."""

import gc
import os
from collections.abc import Callable

import networkx as nx
import pytest
from hypothesis import settings

from fmnas.search_spaces import Cell

# Machines that run tests are slow and shared: an example may take long without being wrong.
settings.register_profile("fmnas", deadline=None, print_blob=True)
settings.load_profile("fmnas")

# Among the millions of objects that thousands of tests keep, looking for garbage all the time took a tenth of it.
gc.set_threshold(100_000, 50, 50)

# One trainer per core is faster than all of them on every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A test that imports mlflow itself must send nothing home either.
os.environ.update(MLFLOW_DISABLE_TELEMETRY="true", DO_NOT_TRACK="true")

SLOW = {
    "api": ("results", "minimize", "pages"),
    "benchmarks": ("paper_tables",),
    "baselines": ("ask_tell_contract", "boundary", "bofm_beats_random_search", "bohb", "wrapped"),
    "comparison": ("duplicates", "figures", "page", "page_in_browser", "report", "retrained", "tradeoff"),
    "integrations": ("botorch", "examples", "optuna", "optuna_own_tests", "ray_tune"),
    "optimizers": ("bofm", "gp_methods", "autograd_kernel"),
    "on_ray": ("board", "deadline", "device_failures", "own_problem_on_ray", "pool"),
    "platform": (
        *("check", "checkpoints", "cluster", "command_line", "doctor"),
        *("failures", "given", "inputs", "light_doors", "lock", "merging", "output", "own_cluster", "own_optimizer"),
        *("extend", "extend_command", "options", "own_data", "own_problem"),
        *("problems", "progress", "promotion", "provenance", "published_quality", "replay", "retrain"),
        *("safety", "status", "stop", "strange_optimizer"),
    ),
    "mlflow": ("background", "credentials", "own_store", "postgresql", "reconciler", "sync", "ui"),
    "trainers": (
        *("capture_guard", "early_validation", "fast_network"),
        *("image_trainer", "interruption", "largest_cell", "memory", "promotion", "stacked_training"),
    ),
    "tests": (
        "contributing",
        "examples",
        "mutants",
        "own_optimizer_docs",
    ),
}
"""The files of each folder whose tests take long, one by one or together. In other files, a slow test has the mark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is slow, and puts it first: quick files fill up what is left at the end, when workers run dry."""
    for item in items:
        if item.path.stem.removeprefix("test_") in SLOW.get(item.path.parent.name, ()):
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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
