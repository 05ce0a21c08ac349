"""A user's own file that is altered between two drivers: who goes on is told, and so is every reader of a report."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main
from fmnas.platform.experiment.journal import OWN_FILES, Journal

PROBLEM = """
from fmnas.search_spaces import Real
from fmnas.trainers import objective

f = objective([Real("x", 0, 1)])(lambda c: c["x"] + 0)
"""
OPTIMIZER = """
from fmnas.optimizers import Optimizer, Suggestion


class Mine(Optimizer):
    def __init__(self, space, *, seed=0, epochs=1, initial_design=()):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)

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
    assert main(["run", f"{name}.yaml", "--out", name, "--progress", "lines"]) == 0


def alter(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were read by another process from now on."""
    Path(file).write_text(Path(file).read_text() + "\n# altered\n")
    for name in [name for name in sys.modules if name.startswith("fmnas_own.")]:
        monkeypatch.delitem(sys.modules, name)


def caution(folder: str = "out") -> str:
    return str(json.loads(Path(folder, "summary.json").read_text())["caution"])


def extend(capsys: pytest.CaptureFixture[str], *changes: str) -> str:
    capsys.readouterr()
    flags = [flag for change in changes for flag in ("-o", change)]
    assert main(["extend", "out", *flags, "--progress", "lines"]) == 0
    return capsys.readouterr().out


def test_an_altered_optimizer_is_said_at_once_and_in_every_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    assert "altered" not in caution()
    alter("mine.py", monkeypatch)
    said = extend(capsys, "budget.evaluations=5")
    assert (
        "mine (mine.py:Mine): its file was altered since the experiment began, and results of both stand in one row"
        in said
    )
    assert "problem.py:f: its file" not in said
    told = "mine (mine.py:Mine): its file was altered after 3 of its 5 trials had ended: its row holds results of each"
    assert told in caution()
    alter("mine.py", monkeypatch)
    extend(capsys, "budget.evaluations=6")
    assert "its file was altered after 3 and 5 of its 6 trials had ended" in caution()
    assert main(["report", "out"]) == 0
    assert "its file was altered after 3 and 5 of its 6 trials" in Path("out/report/index.html").read_text()


def test_an_altered_problem_is_said_with_whose_trials_came_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(optimizers=["random"])
    alter("problem.py", monkeypatch)
    more = 'optimizers=[random,{name: mine,use: "mine.py:Mine"}]'
    assert "problem.py:f: its file was altered since the experiment began" in extend(capsys, more)
    told = "problem.py:f: its file was altered after 3 of the 6 trials had ended: later ones, of mine, are of another"
    assert told in caution()


def test_an_optimizer_with_nothing_left_to_try_may_be_altered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    alter("mine.py", monkeypatch)
    assert "altered" not in extend(capsys, "optimizers=[random,mine,{name: random,label: more}]")
    assert "altered" not in caution()


def test_a_file_that_was_put_back_was_altered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(optimizers=[CONFIG["optimizers"][1]])
    alter("mine.py", monkeypatch)
    extend(capsys, "budget.evaluations=4")
    Path("mine.py").write_text(OPTIMIZER)
    assert "its file was altered since" in extend(capsys, "budget.evaluations=5")
    assert "after 3 and 4 of its 5 trials" in caution()


def test_directories_with_other_files_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("one")
    run("same", seed=1)
    alter("mine.py", monkeypatch)
    run("two", seed=2)
    assert main(["report", "one", "same", "--out", "alike"]) == 0
    assert "altered" not in caution("alike")
    assert main(["report", "one", "two", "--out", "both"]) == 0
    told = "mine (mine.py:Mine) was altered between these experiments: their files differ, and results of each stand in"
    assert told in caution("both")
    assert "problem.py:f was altered" not in caution("both")


def test_a_journal_that_does_not_say_goes_by_what_the_environment_has(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run()
    path = Path("out/journal.jsonl")
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert any(set(record.get(OWN_FILES, ())) == {"problem", "optimizers.mine"} for record in records)
    path.unlink()
    with Journal(path) as journal:  # as an older fmnas would have written it
        for record in records:
            journal.append({key: value for key, value in record.items() if key not in ("n", "crc", OWN_FILES)})
    alter("problem.py", monkeypatch)
    alter("mine.py", monkeypatch)
    extend(capsys, "budget.evaluations=4")
    assert "problem.py:f: its file was altered after 6 of the 8 trials had ended" in caution()
    assert "mine.py" not in caution()
