"""`fmnas status`: the same numbers as the driver's own state, at any moment, and never a trace of having looked."""

import json
import os
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from support import restored

from fmnas.platform.cli import main
from fmnas.platform.display.status import print_status, status_of
from fmnas.platform.experiment.lock import locked, look
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.search_spaces import Evaluation

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
CALM = ["workers.kind=in-process", "tracking.enabled=false"]


def flags(*overrides: str) -> list[str]:
    return [flag for override in (*CALM, *overrides) for flag in ("-o", override)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(["run", "smoke", *flags("optimizers=[random, bohb]"), "--progress", "quiet", "--out", str(out)]) == 0
    return out


def files(out: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(out.rglob("*")) if path.is_file()
    }


@settings(max_examples=20)
@given(data=st.data())
def test_it_agrees_with_the_replayed_state_wherever_the_journal_ends(
    data: st.DataObject, whole: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)
    cut = data.draw(st.integers(1, len(lines)))
    torn = lines[cut][: data.draw(st.integers(0, 30))] if cut < len(lines) else b""
    out = tmp_path_factory.mktemp("cut") / "run"
    out.mkdir()
    (out / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    (out / "journal.jsonl").write_bytes(b"".join(lines[:cut]) + torn)
    before = files(out)
    facts = status_of(RunDirectory(out))
    assert files(out) == before
    state = restored(out)
    assert facts["state"] == (state.ledger.status or "killed")
    assert [run["run"] for run in facts["runs"]] == list(state.ledger.runs)
    for told, run in zip(facts["runs"], state.ledger.runs.values(), strict=True):
        assert (told["spent_epochs"], told["budget_epochs"]) == (run.budget.spent, run.budget.epochs)
        assert told["trials"] == run.ended
        assert (told["incumbent"] or {}).get("objective") == run.incumbent
        assert told["running"] == []
    assert facts["spent_epochs"] == sum(run.budget.spent for run in state.ledger.runs.values())
    assert (facts["again"] is None) == (state.ledger.status == "finished")


def records(*given_: dict[str, Any]) -> list[dict[str, Any]]:
    config = {"name": "t", "problem": "joint", "optimizers": [{"name": "a"}], "repeats": 1}
    config |= {"fidelity": {"epochs": 2}, "budget": {"evaluations": 5}}
    return [{"event": "experiment", "id": "1", "config": config, "at": 0.0}, *given_]


def asked(trial: int, at: float) -> dict[str, Any]:
    described = {"id": trial, "configuration": {}, "epochs": 2, "origin": "random"}
    return {"event": "asked", "run": "a/repeat-0", "trial": described, "suggest_seconds": 0.0, "at": at}


def told(event: str, trial: int, at: float, **more: Any) -> dict[str, Any]:
    head = {"event": event, "run": "a/repeat-0", "trial": trial, "attempt": 1, "worker": "w", "at": at}
    return {**head, **more}


EVALUATION = Evaluation(0.3, 2, (0.1, 0.2)).to_dict()
HISTORY = records(
    asked(0, 1.0),
    told("started", 0, 2.0),  # by a driver that was killed
    told("started", 0, 101.0, attempt=2),
    told("finished", 0, 110.0, evaluation=EVALUATION),
    asked(1, 110.0),
    told("started", 1, 111.0),
    told("lost", 1, 115.0, reason="gone", final=False),
    told("started", 1, 116.0, attempt=2),
    asked(2, 116.0),
    told("started", 2, 117.0),
    told("timed_out", 2, 120.0, reason="late"),
)


def written(out: Path, history: list[dict[str, Any]]) -> RunDirectory:
    (out / "config.yaml").write_text("{}")
    (out / "journal.jsonl").write_text("".join(json.dumps(record) + "\n" for record in history))
    return RunDirectory(out)


def test_what_runs_for_how_long_and_how_long_it_will_take(tmp_path: Path) -> None:
    directory = written(tmp_path, HISTORY)
    with locked(directory.lock, print) as note:
        assert status_of(directory, now=130.0)["state"] == "starting"
        note(work="experiment", workers=3, since=100.0)
        facts = status_of(directory, now=130.0)
    assert facts["state"] == "working"
    assert facts["driver"]["pid"] == os.getpid()
    assert facts["driver"]["visible"]
    assert (facts["workers_busy"], facts["workers"], facts["again"]) == (1, 3, None)
    (run,) = facts["runs"]
    assert run["incumbent"] == {"trial": 0, "objective": 0.3, "error": pytest.approx(0.15)}
    assert (run["trials"], run["unfinished"], run["spent_epochs"], run["budget_epochs"]) == (2, 1, 4, 10)
    expected = {
        "trial": 1,
        "origin": "random",
        "epochs": 2,
        "epoch": None,
        "attempt": 2,
        "worker": "w",
        "seconds": 14.0,
    }
    assert run["running"] == [expected]
    assert facts["seconds_left"] == 45.0, "4 epochs took 30 seconds, 6 are ahead"
    assert [event["event"] for event in facts["events"]][-1] == "timed_out"
    assert facts["events"][-1]["text"] == "late"


@pytest.mark.parametrize(
    ("ending", "ended", "unfinished", "spent"),
    [
        (told("finished", 0, 3.0, evaluation=EVALUATION), 1, 0, 2),
        (told("failed", 0, 3.0, reason="ValueError: no"), 1, 1, 2),
        (told("timed_out", 0, 3.0, reason="late"), 1, 1, 2),
        (told("lost", 0, 3.0, reason="gone", final=True), 1, 1, 0),
        (told("lost", 0, 3.0, reason="gone", final=False), 0, 0, 0),
        (told("cancelled", 0, 3.0, reason="stopped"), 0, 0, 0),
    ],
    ids=["finished", "failed", "timed out", "lost for good", "lost once", "cancelled"],
)
def test_what_is_charged_is_spent_and_nothing_else(
    tmp_path: Path, ending: dict[str, Any], ended: int, unfinished: int, spent: int
) -> None:
    facts = status_of(written(tmp_path, records(asked(0, 1.0), told("started", 0, 2.0), ending)), now=4.0)
    (run,) = facts["runs"]
    assert (run["trials"], run["unfinished"], run["spent_epochs"]) == (ended, unfinished, spent)
    assert (run["evaluations"], facts["spent_epochs"], facts["spent_share"]) == (spent / 2, spent, spent / 10)


def test_what_was_known_says_nothing_of_the_pace(tmp_path: Path) -> None:
    known = asked(3, 121.0)
    known["trial"] |= {"origin": "warm_start"}
    directory = written(tmp_path, [*HISTORY, known, told("finished", 3, 121.0, evaluation=EVALUATION)])
    with locked(directory.lock, print) as note:
        note(work="experiment", workers=3, since=100.0)
        facts = status_of(directory, now=130.0)
    assert facts["spent_epochs"] == 6
    assert facts["seconds_left"] == 30.0, "4 epochs took 30 seconds, 4 are ahead"


def test_the_epoch_that_the_driver_noted_is_told_of_what_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(tmp_path, HISTORY)
    with locked(directory.lock, print) as note:
        reached = [["a/repeat-0", 1, 7], ["a/repeat-0", 0, 2], ["b/repeat-0", 1, 9]]
        note(work="experiment", workers=3, since=100.0, reached=reached)
        facts = status_of(directory, now=130.0)
        (running,) = facts["runs"][0]["running"]
        assert (running["trial"], running["epoch"]) == (1, 7)
        print_status(facts, Console(width=150))
        assert "trial 1 on w (epoch 7 of 2, 14 s)" in capsys.readouterr().out
        note(work="experiment", workers=3, since=100.0)
        print_status(status_of(directory, now=130.0), Console(width=150))
        assert "trial 1 on w (14 s)" in capsys.readouterr().out


def test_a_run_without_a_trial_in_flight_waits_while_its_driver_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = written(tmp_path, records(asked(0, 101.0)))
    with locked(directory.lock, print) as note:
        note(work="experiment", workers=3, since=100.0)
        print_status(status_of(directory, now=130.0), Console(width=150))
    assert "waiting" in capsys.readouterr().out
    print_status(status_of(directory, now=130.0), Console(width=150))
    assert "waiting" not in capsys.readouterr().out


def test_what_a_dead_driver_left_does_not_run(tmp_path: Path) -> None:
    directory = written(tmp_path, HISTORY)
    facts = status_of(directory, now=130.0)
    assert (facts["state"], facts["driver"], facts["workers_busy"]) == ("killed", None, 0)
    assert facts["runs"][0]["running"] == []
    assert facts["again"] == f"fmnas resume {tmp_path}"
    with locked(directory.lock, print) as note:
        note(work="experiment", workers=1, since=125.0)
        facts = status_of(directory, now=130.0)
    assert (facts["workers_busy"], facts["seconds_left"]) == (0, None)


@pytest.mark.parametrize(("work", "state"), [("retraining", "retraining"), ("sync", "syncing")])
def test_other_work_is_told_apart(work: str, state: str, tmp_path: Path) -> None:
    directory = written(tmp_path, HISTORY)
    with locked(directory.lock, print) as note:
        note(work=work, since=100.0)
        facts = status_of(directory, now=130.0)
    assert (facts["state"], facts["again"]) == (state, None)
    assert facts["runs"][0]["running"] == []


def test_a_journal_of_nonsense_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, records(told("finished", 7, 1.0, evaluation=EVALUATION)))
    assert main(["status", str(tmp_path)]) == 2
    assert "does not follow" in capsys.readouterr().err
    assert main(["status", str(tmp_path / "nowhere")]) == 2
    assert "no run directory" in capsys.readouterr().err


def test_a_person_is_told_of_a_finished_experiment(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(whole)]) == 0
    printed = capsys.readouterr().out
    assert f"smoke (func2c) in {whole}: finished" in printed
    assert "bohb/repeat-0" in printed
    assert "100% of all budgets spent" in printed
    assert "go on with" not in printed


def test_a_driver_at_work_is_seen_and_not_disturbed_and_its_death_is_seen(tmp_path: Path) -> None:
    out = tmp_path / "run"
    overrides = ["data.name=digits", "data.train=200", "data.validation=64", "seeds=1", "optimizers=[random]"]
    command = [*FMNAS, "run", "quickstart", *flags(*overrides, "fidelity.epochs=1000000"), "--out", str(out)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        journal = out / "journal.jsonl"
        while not journal.exists() or '"event":"started"' not in journal.read_text():
            assert driver.poll() is None
            time.sleep(0.1)
        while not status_of(RunDirectory(out))["runs"][0]["running"][0]["epoch"]:
            assert driver.poll() is None
            time.sleep(0.1)
        driver.send_signal(signal.SIGSTOP)  # it notes how far its trial is; who looks must write nothing
        before = files(out)
        done = subprocess.run([*FMNAS, "status", str(out), "--json"], capture_output=True, text=True, check=True)
        assert files(out) == before
        facts = json.loads(done.stdout)
        assert (facts["state"], facts["driver"]["pid"]) == ("working", driver.pid)
        assert (facts["workers_busy"], facts["workers"]) == (1, 1)
        (running,) = facts["runs"][0]["running"]
        assert (running["trial"], running["worker"].split("@")[0]) == (0, "in-process")
        assert 0 < running["epoch"] < running["epochs"]
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    at_work = look(out / "driver.lock")
    assert at_work is not None
    assert at_work.dead
    facts = status_of(RunDirectory(out))
    assert (facts["state"], facts["again"]) == ("killed", f"fmnas resume {out}")


def test_who_has_no_seconds_left_has_nothing_ahead(tmp_path: Path) -> None:
    history = json.loads(json.dumps(HISTORY))
    history[0]["config"]["budget"]["seconds"] = 3.0
    history[4]["evaluation"]["seconds"] = 5.0
    directory = written(tmp_path, history)
    with locked(directory.lock, print) as note:
        note(work="experiment", workers=3, since=100.0)
        assert status_of(directory, now=130.0)["seconds_left"] == 15.0, "2 epochs are in flight, and no more will be"


def test_what_is_not_the_best_any_more_is_not_retrained(tmp_path: Path) -> None:
    directory = written(tmp_path, HISTORY)
    for trial, count in ((0, 1), (1, 0)):
        directory.retrained.write_text(f"run,optimizer,repeat,trial\na/repeat-0,a,0,{trial}\n")
        assert status_of(directory)["retrained"] == count
    directory.retrained.write_bytes(b"run,trial\n\xff,0\n")
    assert status_of(directory)["retrained"] == 0, "the report says what is wrong with it"


def test_a_search_from_python_is_gone_on_with_there(tmp_path: Path) -> None:
    history = json.loads(json.dumps(HISTORY).replace('"joint"', '"<minimize>:bowl"'))
    facts = status_of(written(tmp_path, history))
    assert (facts["state"], facts["again"]) == ("killed", None)
    console = Console(file=StringIO(), width=150)
    print_status(facts, console)
    assert "t (bowl) in" in console.file.getvalue()
