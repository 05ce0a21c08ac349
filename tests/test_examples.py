"""Every example runs as its first line says, and finds something."""

import json
import re
import shutil
from pathlib import Path

import pytest

from fmnas.platform.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("figures_as_svg")]

ROOT = Path(__file__).resolve().parent.parent
CONFIGS = sorted((ROOT / "examples").glob("*.yaml"))
QUICK = ("workers.kind=in-process", "tracking.enabled=false", "budget.evaluations=6", "repeats=1")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_it_runs_from_the_folder_above(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    overrides = [word for override in QUICK for word in ("-o", override)]
    assert main(["run", f"examples/{path.name}", *overrides, "--out", "run", "--progress", "quiet"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert all(facts["best"] < 0.5 for facts in summary["optimizers"].values())


def test_the_page_on_own_problems_shows_one_that_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "own-problem.md").read_text()
    for name, kind in (("tune_me.py", "python"), ("mine.yaml", "yaml")):
        match = re.search(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL)
        assert match is not None
        (tmp_path / name).write_text(match[1])
    monkeypatch.chdir(tmp_path)
    overrides = [word for override in (*QUICK, "initial_design=3") for word in ("-o", override)]
    assert main(["run", "mine.yaml", *overrides, "--out", "run", "--progress", "quiet"]) == 0


def test_an_own_problem_is_twenty_lines() -> None:
    lines = (ROOT / "examples" / "tune_svm.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 20
