"""What docs/python.md, docs/paper.md, docs/notebook.ipynb and examples/minimize.py show happens.

The notebook keeps its outputs.
"""

import ast
import inspect
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

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


def run_quickly(config: str) -> None:
    """Runs two optimizers into runs/CONFIG."""
    quick = ("workers.kind=in-process", "tracking.enabled=false", "optimizers=[bo-fm, random]")
    quick += ("repeats=1", "initial_design=3", "budget.evaluations=5")
    words = (word for override in quick for word in ("-o", override))
    assert main(["run", config, *words, "--progress", "quiet"]) == 0


def test_a_figure_gets_names_and_colours_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_quickly("func3c")
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "paper.md").read_text(), flags=re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    shown = {text.get_text() for text in names["figure"].findobj(Text)}
    assert {"BO-FM (ours)", "random"} <= shown
    assert "bo-fm" not in shown
    colours = [line.get_color() for line in names["figure"].findobj(Line2D)]
    assert colours.count("black") == 2, "of the line and in the legend"
    assert Path("figure.pdf").is_file()


def test_the_page_runs_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_quickly("smoke")
    names: dict[str, Any] = {"__name__": "page"}
    for block in BLOCKS:
        exec(block, names)
    assert names["again"].objective == names["result"].objective
    assert names["both"].best().objective == names["more"].objective
    assert names["rebuilt"].ask() == names["opt"].ask()
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


def test_the_example_is_short_and_comes_near_the_least_value(capsys: pytest.CaptureFixture[str]) -> None:
    path = ROOT / "examples" / "minimize.py"
    assert len([line for line in path.read_text().splitlines() if line.strip()]) <= 10
    runpy.run_path(str(path), run_name="__main__")
    assert 0 <= float(capsys.readouterr().out.split()[0]) < 0.01
