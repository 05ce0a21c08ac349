"""A problem of a user's own, named in a configuration: it runs like any other; what is wrong with it is said."""

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support import restore_run

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import load_state
from fmnas.platform.problems import display_name, problem
from fmnas.platform.registry import SourceFile, load_source, read_source_file

HEAD = """
from fmnas.search_spaces import Nominal, Real
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
LEAVES = ConfigurableProblem(lambda settings: exit())
ODD = ConfigurableProblem(lambda settings: Real("x", 1.0, 0.0))
NOTHING = ConfigurableProblem(lambda settings: None)

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


def test_a_registered_problem_still_says_its_epochs() -> None:
    with pytest.raises(ConfigError, match="fidelity: missing"):
        check_config(config("joint"), "own.yaml")


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
        ("~nobody_at_all/mine.py", ["~nobody_at_all/mine.py"]),
        ("a\0.py", ["null"]),
        ("x" * 5000 + ".py", ["too long"]),
        (".py:mine", ["'.py:mine'"]),
        ("several.py:ODD", ["problem = ", "low < high"]),
        ("nowhere.at_all:mine", ["nowhere", "FILE.py:NAME"]),
        ("several.py:flatt", ["has no flatt", "Did you mean 'flat'"]),
        ("several.py:undecorated", ["several.py:undecorated", "@objective"]),
        ("several.py", ["bowl, flat, MADE, BREAKS, LEAVES, ODD, NOTHING, PLAIN", "several.py:bowl"]),
        ("several.py:BREAKS", ["ZeroDivisionError"]),
        ("several.py:LEAVES", ["SystemExit"]),
        ("several.py:NOTHING", ["NoneType"]),
        ("1 / 0", ["ZeroDivisionError"]),
        ("raise SystemExit(3)", ["SystemExit"]),
        ("import asyncio; raise asyncio.CancelledError", ["CancelledError"]),
        ("def f(:", ["SyntaxError", "line 6"]),
        ("import no_such_package", ["No module named 'no_such_package'"]),
        ("X = 1", ["given.py", "@objective"]),
        ("f = objective([Real('x', 0, 1), Real('x', 0, 1)])", ["duplicates: ['x']", "line 6"]),
        (
            "f = objective([Real('objective', 0, 1)])(lambda c: 0)",
            ["'objective'", "objective_"],
        ),
        ("f = objective([Real('device', 0, 1)])(lambda c: 0)", ["'device'"]),
        ("f = objective([Real('arrangement', 0, 1)])(lambda c: 0)", ["'arrangement'"]),
        ("f = objective([Real('fallback', 0, 1)])(lambda c: 0)", ["'fallback'"]),
        ("f = objective([Real('error_seed_1', 0, 1)])(lambda c: 0)", ["'error_seed_1'"]),
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
    for word in words:
        assert word in said
    assert not (here / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": 4}, "seeds = 4"),
        ({"data": {"train": 5}}, "does not take it"),
        ({"checkpoints": {"every": 2}}, "checkpoints.every"),
        ({"initial_design": "authors"}, "give a number of random points"),
        ({"problem": "jiont"}, "FILE.py:NAME"),
        ({"problem": 3}, "problem = 3"),
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
    "exit": "it called sys.exit(3) (failing.py, line 11)",
    "cancel": "TrainingFailedError: CancelledError: by whom (failing.py, line 16)",
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
        assert REASONS[row["what"]] in row["reason"]
        assert row["status"] == ("finished" if row["what"] == "fine" else "failed")
    assert main(["replay", str(here / "run")]) == 0
    written = sum(path.stat().st_size for path in (here / "run").iterdir() if path.is_file())
    assert written < 300_000  # what the function prints is nowhere in it


@pytest.mark.parametrize(("progress", "traced"), [("quiet", False), ("json", False), ("lines", True)])
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


def test_what_hangs_is_ended_at_its_deadline(here: Path) -> None:
    text = 'import time\nhangs = objective([Real("x", 0, 1)])(lambda c: time.sleep(60) if c["x"] > 0.5 else c["x"])\n'
    write(here / "hangs.py", text)
    budget = {"evaluations": 4, "trial_seconds": 0.3}
    assert run(here, "hangs.py", optimizers=["random"], budget=budget) == 0
    assert {(row["status"], float(row["x"]) > 0.5) for row in trials(here / "run")} == {
        ("finished", False),
        ("timed_out", True),
    }


@pytest.mark.parametrize("moves", ["problem", "optimizer"])
def test_code_that_changes_the_working_directory_leaves_the_results_where_they_belong(
    here: Path, moves: str, capsys: pytest.CaptureFixture[str]
) -> None:
    leave = {name: "os.chdir(tempfile.gettempdir())" if name == moves else "pass" for name in ("problem", "optimizer")}
    text = f"""
import os, tempfile

@objective([Real("x", 0, 1)])
def moving(configuration):
    {leave["problem"]}
    return configuration["x"]

def make(space, seed):
    def ask():
        {leave["optimizer"]}
        return {{"x": 0.5}}

    def tell(configuration, objective):
        {leave["optimizer"]}

    return ask, tell
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


def test_a_file_that_is_gone_is_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(here, "mine.py", optimizers=["random"]) == 0
    text = (here / "mine.py").read_text()
    (here / "mine.py").unlink()
    monkeypatch.setattr("sys.modules", {k: v for k, v in sys.modules.items() if "fmnas_own" not in k})
    with pytest.raises(ConfigError, match=r"mine\.py"):
        load_state(RunDirectory(here / "run"))
    (here / "mine.py").write_text(text)
    assert main(["resume", str(here / "run"), "--progress", "quiet"]) == 0


def test_a_process_that_it_kills_in_process_is_the_drivers_and_the_trial_is_repeated(here: Path) -> None:
    """As docs/own-problem.md says: nothing else is lost."""
    text = """
import os
import sys
from pathlib import Path
@objective([Real("x", 0, 1)])
def kills(configuration):
    once = Path(__file__).with_name("once")
    if configuration["x"] > 0.5 and not once.exists():
        once.touch()
        os._exit(9)
    return configuration["x"]
"""
    write(here / "kills.py", text)
    child = os.fork()
    if not child:
        os._exit(run(here, "kills.py", optimizers=["random"]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert main(["resume", str(here / "run"), "--progress", "quiet"]) == 0
    rows = trials(here / "run")
    assert [row["status"] for row in rows] == ["finished"] * 6
    assert sorted(row["attempt"] for row in rows) == ["1"] * 5 + ["2"]
