"""A user-defined file that changes between two drivers: a resume warns of it, and so does every report."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main

PROBLEM = """
from fmnas.search_spaces import Real
from fmnas.trainers import objective

f = objective([Real("x", 0, 1)])(lambda c: c["x"] + 0)
"""
OPTIMIZER = """
from fmnas.optimizers import Optimizer, Suggestion


class Mine(Optimizer):
    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")
"""
CONFIG = {
    "name": "t",
    "optimizers": ["random", {"name": "mine", "use": "mine.py:Mine"}],
    "initial_design": 1,
    "budget": {"evaluations": 3},
    "workers": {"kind": "in-process"},
    "tracking": {"enabled": False},
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    Path("problem.py").write_text(PROBLEM)
    Path("mine.py").write_text(OPTIMIZER)


def run(name: str = "out", **changes: Any) -> None:
    Path(f"{name}.yaml").write_text(json.dumps({**CONFIG, "problem": "problem.py:f", **changes}))
    assert main(["run", f"{name}.yaml", "--out", name, "--progress", "quiet"]) == 0


def change(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Change a file, which the next command reads as another process would."""
    Path(file).write_text(Path(file).read_text() + "\n# changed\n")
    for name in [name for name in sys.modules if name.startswith("fmnas_own.")]:
        monkeypatch.delitem(sys.modules, name)


def caution(folder: str = "out") -> str:
    return str(json.loads(Path(folder, "summary.json").read_text())["caution"])


def extend(capsys: pytest.CaptureFixture[str], override: str) -> str:
    capsys.readouterr()
    assert main(["extend", "out", "-o", override, "--progress", "lines"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("file", "label"), [("mine.py", "mine (mine.py:Mine)"), ("problem.py", "problem.py:f")])
def test_a_changed_file_is_warned_of_at_once_and_in_every_report(
    file: str, label: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert label not in caution()
    change(file, monkeypatch)
    assert [line for line in extend(capsys, "budget.evaluations=4").splitlines() if "has changed" in line] == [
        f"{label} has changed since the experiment was begun: results before and after the change may not be comparable"
    ]
    assert f"{label} was changed" in caution()
    assert main(["report", "out"]) == 0
    assert f"{label} was changed" in Path("out/report/index.html").read_text()


def test_a_file_that_was_restored_was_changed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    change("mine.py", monkeypatch)
    extend(capsys, "budget.evaluations=4")
    Path("mine.py").write_text(OPTIMIZER)
    assert "mine.py:Mine) has changed" in extend(capsys, "budget.evaluations=5")


def test_directories_with_different_files_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    run("one")
    run("same", seed=1)
    change("mine.py", monkeypatch)
    run("two", seed=2)
    assert main(["report", "one", "same", "--out", "alike"]) == 0
    assert "mine.py" not in caution("alike")
    assert main(["report", "one", "two", "--out", "both"]) == 0
    assert "mine (mine.py:Mine) differs" in caution("both")
    assert "problem.py" not in caution("both")
