"""What docs/python.md, docs/notebook.ipynb and examples/minimize.py show happens; the notebook keeps its outputs."""

import ast
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from fmnas.api import minimize
from fmnas.platform.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), flags=re.DOTALL)
CELLS = json.loads((ROOT / "docs" / "notebook.ipynb").read_text())["cells"]
LARGEST = 40_000
"""Bytes of a kept picture, in base64."""


def value_of(code: str, names: dict[str, Any]) -> Any:
    """Runs a cell as a notebook does, but for its magics: the value of the expression that ends it, if one does."""
    body = ast.parse("\n".join(line for line in code.splitlines() if not line.startswith("%"))).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def read_output(cell: dict[str, Any]) -> dict[str, str]:
    """A cell's kept output, by type; empty without one."""
    outputs = cell["outputs"]
    assert len(outputs) <= 1
    return {kind: "".join(text) for kind, text in outputs[0]["data"].items()} if outputs else {}


def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    quick = ("workers.kind=in-process", "tracking.enabled=false", "budget.evaluations=5", "optimizers=[bo-fm, random]")
    assert (
        main(["run", "smoke", *(word for override in quick for word in ("-o", override)), "--progress", "quiet"]) == 0
    )
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(block, names)
    assert names["again"].objective == names["result"].objective
    assert names["both"].best().objective == names["more"].objective
    assert (len(names["result"].trials), len(names["more"].trials)) == (8, 12)


def test_the_page_names_every_argument() -> None:
    named = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "python.md").read_text(), flags=re.MULTILINE)
    assert named == [name for name in inspect.signature(minimize).parameters if name != "options"]


def test_the_notebook_runs_and_shows_what_it_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "notebook"}
    shown = 0
    for cell in CELLS:
        if cell["cell_type"] == "code":
            value, output = value_of("".join(cell["source"]), names), read_output(cell)
            assert (value is None) == (output == {}), cell["source"]
            shown += value is not None
            if isinstance(value, float):
                assert value == pytest.approx(float(output["text/plain"]), abs=0.02)
            if isinstance(value, Figure):
                assert 0 < len(output["image/png"]) < LARGEST
            elif hasattr(value, "_repr_html_"):
                assert "<table" in output["text/html"]
                assert "<table" in value._repr_html_()
    assert shown >= 6


def test_the_example_is_short_and_comes_near_the_least_value() -> None:
    path = ROOT / "examples" / "minimize.py"
    assert len([line for line in path.read_text().splitlines() if line.strip()]) <= 10
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0 <= float(done.stdout.split()[0]) < 0.01
