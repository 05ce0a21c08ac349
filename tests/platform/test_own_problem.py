"""A problem of a user's own, named in a configuration: it runs like any other; what is wrong with it is said."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from support import restore_run

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import display_name, problem
from fmnas.platform.references import SourceFile, load_source, read_source_file

pytestmark = pytest.mark.slow

HEAD = """
from fmnas.search_spaces import Integer, Nominal, Real
from fmnas.trainers import objective
from fmnas.trainers.problem import ConfigurableProblem, Problem

"""
MINE = """
VARIABLES = [Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"])]

@objective(VARIABLES, epochs=2)
def bowl(configuration, epochs, seed, report):
    for epoch in range(1, epochs + 1):
        report(epoch, configuration["x"] + 1 / epoch)
    return (configuration["x"] - 0.3) ** 2 + (configuration["op"] != "b") + 1e-9 * (seed % 7)
"""
SEVERAL = """
@objective(VARIABLES)
def flat(configuration):
    return 1.0

MADE = ConfigurableProblem(lambda settings: bowl)
BREAKS = ConfigurableProblem(lambda settings: 1 / 0)

def undecorated(configuration):
    return 0.0

def load():
    raise OSError("the table is gone")

PLAIN = Problem(bowl.space, bowl.build, penalty=None, load=load)
"""


def write(path: Path, text: str) -> Path:
    path.write_text(HEAD + text)
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    write(tmp_path / "mine.py", MINE)
    write(tmp_path / "several.py", MINE + SEVERAL)
    return tmp_path


def config(use: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "problem": use,
        "optimizers": ["random", {"name": "regularized-evolution", "population": 3, "tournament": 2}],
        "initial_design": 2,
        "budget": {"evaluations": 6},
        "workers": {"kind": "in-process", "failures": 20},
        "tracking": {"enabled": False},
        **changes,
    }


def run(folder: Path, use: str, name: str = "run", **changes: Any) -> int:
    (folder / f"{name}.yaml").write_text(json.dumps(config(use, **changes)))
    return main(["run", f"{name}.yaml", "--out", str(folder / name), "--progress", "quiet"])


def trials(directory: Path) -> list[dict[str, str]]:
    with (directory / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def journal(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / "journal.jsonl").read_text().splitlines()]


def test_it_runs_resumes_replays_and_is_reported_with_another(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(here, "./mine.py") == 0
    assert run(here, "mine.py:bowl", "more", seed=1) == 0
    rows = trials(here / "run")
    assert len(rows) == 12
    assert {row["epochs"] for row in rows} == {"2"}  # the problem's own
    assert all(float(row["objective"]) < 2 for row in rows)
    finished = next(record for record in journal(here / "run") if record["event"] == "finished")
    assert len(finished["evaluation"]["curve"]) == 2
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")  # the configuration kept the file's whole path
    for command in ("resume", "report", "replay", "status"):
        assert main([command, str(here / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err
    assert main(["report", str(here / "run"), str(here / "more"), "--out", "both"]) == 0
    page = (here / "elsewhere" / "both" / "report" / "index.html").read_text()
    assert "mine.py:bowl" in page
    assert "several versions" not in page


@pytest.mark.parametrize(
    ("use", "epochs", "seeds"),
    [("mine.py", 2, 1), ("several.py:flat", 1, 1), ("several.py:MADE", 2, 4), ("several:flat", 1, 1)],
)
def test_what_is_left_out_is_as_the_problem_has_it(here: Path, use: str, epochs: int, seeds: int) -> None:
    checked = check_config(config(use), "own.yaml")
    assert (checked.fidelity.epochs, checked.seeds) == (epochs, seeds)
    assert check_config(checked.model_dump(mode="json"), "own.yaml") == checked
    assert check_config(config(use, fidelity={"epochs": 7}), "own.yaml").fidelity.epochs == 7
    assert problem(checked.problem).space.names == ("x", "op")


def test_a_name_is_whole_in_the_record_and_short_where_people_read_it(here: Path) -> None:
    checked = check_config(config("./mine.py"), "own.yaml")
    assert checked.problem == f"{here}/mine.py:bowl"
    assert display_name(checked.problem) == "mine.py:bowl"
    assert display_name("several:flat") == "several:flat"
    assert display_name("func2c") == "func2c"


def test_a_file_finds_the_modules_next_to_it_and_is_found_without_its_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "helper_of_own_problem.py").write_text("LOW = -1.0\n")
    text = 'from helper_of_own_problem import LOW\nhelped = objective([Real("x", LOW, 1.0)])(lambda c: c["x"])\n'
    path = write(here / "deep" / "helped.py", text)
    file = read_source_file(f"{path}:helped")
    assert file == SourceFile(str(path), path.read_bytes())
    sent = SourceFile(str(here / "nowhere" / "sent.py"), file.text)  # as on a node that lacks it
    monkeypatch.syspath_prepend(str(here / "deep"))
    assert load_source(sent).helped.space == problem(f"{path}:helped").space
    assert problem(f"{sent.path}:helped").space == problem(f"{path}:helped").space
    assert read_source_file("a_module:helped") is None


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("nowhere.py", ["nowhere.py"]),
        ("nowhere.at_all:mine", ["No module named 'nowhere'"]),
        ("several.py:flatt", ["has no flatt"]),
        ("several.py:undecorated", ["several.py:undecorated", "@objective"]),
        ("several.py", ["bowl, flat, MADE, BREAKS, PLAIN", "several.py:bowl"]),
        ("several.py:BREAKS", ["ZeroDivisionError"]),
        ("1 / 0", ["ZeroDivisionError"]),
        ("raise SystemExit(3)", ["SystemExit"]),
        ("def f(:", ["SyntaxError", "line 6"]),
        ("X = 1", ["given.py", "@objective"]),
        ("f = objective([Real('x', 0, 1), Real('x', 0, 1)])", ["duplicates: ['x']", "line 6"]),
        ("f = objective([Real('x', 0, 1)])(lambda c, depth: 0)", ["'depth'", "configuration", "line 6"]),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_touched(
    here: Path, capsys: pytest.CaptureFixture[str], use: str, words: list[str]
) -> None:
    if not use.partition(":")[0].endswith((".py", "at_all")):
        write(here / "given.py", use)
        use = "given.py"
    assert run(here, use) == 2
    said = capsys.readouterr().err
    assert "problem = " in said
    assert "Traceback" not in said
    assert "Errno" not in said
    for word in words:
        assert word in said
    assert not (here / "run").exists()


def test_an_optimizer_that_refuses_the_space_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(here / "large.py", "f = objective([Real('x', 0, 1), Integer('n', 1, 5000)])(lambda c: c['x'])\n")
    assert run(here, "large.py", optimizers=["random", {"name": "bo-fm", "label": "b"}]) == 2
    assert "optimizers.1.name = 'bo-fm': n has 5000 values" in capsys.readouterr().err
    assert run(here, "large.py", optimizers=["random"]) == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": 4}, "seeds = 4"),
        ({"data": {"train": 5}}, "does not take it"),
        ({"problem": "jiont"}, "FILE.py:NAME"),
    ],
)
def test_keys_that_it_does_not_take_are_refused(here: Path, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({"fidelity": {"epochs": 1}, **config("mine.py"), **changes}, "own.yaml")
    assert words in str(caught.value)


def test_data_that_cannot_be_loaded_are_said_before_anything_is_touched(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(here, "several.py:PLAIN") == 2
    assert "OSError: the table is gone" in capsys.readouterr().err
    assert not (here / "run").exists()


FAILING = """
import asyncio
import sys
import numpy
RESULTS = {
    "raise": lambda: 1 / 0, "exit": lambda: sys.exit(3), "none": lambda: None, "text": lambda: "0.5",
    "nan": lambda: float("nan"), "truth": lambda: True, "fine": lambda: numpy.float32(0.5),
}

def cancel():
    raise asyncio.CancelledError("by whom")

RESULTS["cancel"] = cancel

@objective([Real("x", 0, 1), Nominal("what", list(RESULTS))])
def failing(configuration):
    if configuration["what"] == "raise":
        print("x" * 10**6)
    return RESULTS[configuration["what"]]()
"""
REASONS = {
    "raise": "ZeroDivisionError: division by zero (failing.py, line 11)",
    "exit": "SystemExit: 3 (failing.py, line 11)",
    "cancel": "CancelledError: by whom (failing.py, line 16)",
    "none": "it returned None (NoneType)",
    "text": "it returned '0.5' (str)",
    "nan": "it returned nan (float)",
    "truth": "it returned True (bool)",
    "fine": "",
}


def test_a_trial_that_comes_to_no_number_has_failed_and_says_why(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(here / "failing.py", FAILING)
    assert run(here, "failing.py", optimizers=["random"], budget={"evaluations": 40}) == 0
    rows = trials(here / "run")
    assert {row["what"] for row in rows} == set(REASONS)
    for row in rows:
        assert row["reason"].startswith(REASONS[row["what"]])
        assert row["status"] == ("finished" if row["what"] == "fine" else "failed")
    assert main(["replay", str(here / "run")]) == 0
    written = sum(path.stat().st_size for path in (here / "run").iterdir() if path.is_file())
    assert written < 300_000  # what the function prints is nowhere in it


@pytest.mark.parametrize(("progress", "traced"), [("json", False), ("lines", True)])
def test_what_a_trial_raised_in_this_process_is_shown_to_who_follows(
    here: Path, capsys: pytest.CaptureFixture[str], progress: str, traced: bool
) -> None:
    write(here / "raises.py", 'raises = objective([Real("x", 0, 1)])(lambda c: 1 / 0)\n')
    (here / "raises.yaml").write_text(json.dumps(config("raises.py", workers={"kind": "in-process", "failures": 2})))
    assert main(["run", "raises.yaml", "--out", "run", "--progress", progress]) == 1
    assert ("Traceback" in capsys.readouterr().err) == traced


def test_without_a_penalty_a_failure_is_as_bad_as_the_worst_so_far(here: Path) -> None:
    write(here / "failing.py", FAILING.replace("RESULTS[configuration", "configuration['x'] + RESULTS[configuration"))
    competitors = ["random", {"name": "regularized-evolution", "population": 3, "tournament": 2}]
    assert run(here, "failing.py", optimizers=competitors, budget={"evaluations": 40}) == 0
    state = restore_run(here / "run")
    for name, done in state.experiment.runs.items():
        outcomes = [outcome for outcome in state.ledger.results if outcome.run == name]
        worst, expected = None, []
        for outcome in outcomes:
            if outcome.evaluation is not None:
                worst = max(worst or 0.0, outcome.evaluation.objective)
            if worst is not None:  # before it there is nothing to tell
                expected.append(outcome.evaluation.objective if outcome.evaluation else worst)
        assert [evaluation.objective for _, evaluation in done.optimizer.history] == expected
        assert len(expected) <= len(outcomes) == 40
        assert not done.optimizer.pending


def test_a_configured_penalty_is_the_result_of_a_failure(here: Path) -> None:
    write(here / "failing.py", FAILING.replace("))])", "))], penalty=9)"))
    assert run(here, "failing.py", optimizers=["random"], budget={"evaluations": 20}) == 0
    state = restore_run(here / "run")
    (done,) = state.experiment.runs.values()
    assert {evaluation.objective for _, evaluation in done.optimizer.history} == {9.0, 0.5}
    assert state.ledger.runs[done.name].incumbent == 0.5  # a penalty is not a result


TWO = """
@objective([Real("x", 0, 1), Real("y", 0, 1)], objectives={"error": 1.0, "seconds": 9.0}, weights=(1, 0.1), penalty=5)
def two(configuration):
    if configuration["y"] > 0.5:
        raise ValueError("too slow")
    return configuration["x"], 8 - 7 * configuration["x"] + configuration["y"]
"""


def test_a_function_of_two_objectives(here: Path) -> None:
    """A failure is reported as the reference point; the report has hypervolumes; without the file, too."""
    write(here / "two.py", TWO)
    competitors = [{"name": "nsga2", "population": 4}, "random"]
    workers = {"kind": "in-process", "failures": 99}
    assert run(here, "two.py", optimizers=competitors, budget={"evaluations": 12}, workers=workers) == 0
    state = restore_run(here / "run")
    for name, done in state.experiment.runs.items():
        outcomes = [outcome.evaluation for outcome in state.ledger.results if outcome.run == name]
        expected = [evaluation.values if evaluation else (1.0, 9.0) for evaluation in outcomes]
        assert [evaluation.objectives for _, evaluation in done.optimizer.history] == expected
        assert (1.0, 9.0) in expected
    known = next(outcome.evaluation for outcome in state.ledger.results if outcome.evaluation)
    assert known.objective == pytest.approx(known.values[0] + 0.1 * known.values[1])
    (here / "two.py").unlink()
    assert main(["report", "run"]) == 0
    volumes = json.loads((here / "run" / "summary.json").read_text())["hypervolumes"]
    assert volumes["reference"] == {"error": 1.0, "seconds": 9.0}
    assert all(0 < row["mean"] < 9 for row in volumes["rows"])


def test_code_that_changes_the_working_directory_leaves_the_results_where_they_belong(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """
import os, tempfile

def leave():
    os.chdir(tempfile.gettempdir())

leave()

@objective([Real("x", 0, 1)])
def moving(configuration):
    leave()
    return configuration["x"]

def make(space, seed):
    return lambda: leave() or {"x": 0.5}, lambda configuration, objective: leave()
"""
    write(here / "moving.py", text)
    optimizers = [{"name": "made", "use": "moving.py:make"}]
    (here / "moving.yaml").write_text(json.dumps(config("moving.py:moving", optimizers=optimizers)))
    assert main(["run", "moving.yaml", "--out", "out", "--progress", "lines"]) == 0
    assert Path.cwd() == here
    printed = capsys.readouterr().out
    assert str(here / "out" / "report" / "index.html") in printed
    for file in ("trials.csv", "summary.json", "report/index.html"):
        assert (here / "out" / file).is_file()
    assert not (here / "out" / "driver.json").exists()
    lines = (here / "out" / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (here / "out" / "journal.jsonl").write_bytes(b"".join(lines[:-4]))
    for command in ("resume", "replay", "report"):
        assert main([command, "out"]) == 0
        assert Path.cwd() == here
