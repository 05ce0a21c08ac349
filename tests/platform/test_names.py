"""Names that others rely on: those of README and of programs that use fmnas as a library."""

import importlib

import pytest

NAMES = {
    "fmnas.search_spaces": ("Space", "Real", "Integer", "Ordinal", "Nominal", "Graph", "joint_space"),
    "fmnas.optimizers": ("BOFM", "BayesianOptimizer", "Optimizer", "Suggestion"),
    "fmnas.platform.problems": ("problem",),
    "fmnas.api": ("minimize", "load_run"),
}


@pytest.mark.parametrize(("module", "names"), NAMES.items(), ids=list(NAMES))
def test_a_promised_name_is_where_it_was(module: str, names: tuple[str, ...]) -> None:
    package = importlib.import_module(module)
    assert [name for name in names if not hasattr(package, name)] == []
