"""`fmnas status`: what the journal says, at any moment, and nothing is written."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from support import begun_event, write_journal

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.display.formatting import format_activity, format_epochs
from fmnas.platform.display.status import collect_status, print_status
from fmnas.platform.experiment.events import (
    Asked,
    Begun,
    Cancelled,
    Event,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    Started,
)
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.lock import driver_lock, update_driver
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.search_spaces import Evaluation, Trial

pytestmark = pytest.mark.slow

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
CALM = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
RUN = "a/repeat-0"
EVALUATION = Evaluation(0.3, 2, (0.1, 0.2))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment."""
    out = tmp_path_factory.mktemp("finished") / "run"
    options = [*CALM, "-o", "optimizers=[random, bohb]", "--progress", "quiet"]
    assert main(["run", "smoke", *options, "--out", str(out)]) == 0
    return out


def files(out: Path) -> dict[str, tuple[bytes, int]]:
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in out.rglob("*") if path.is_file()}


@settings(max_examples=20)
@given(data=st.data())
def test_status_agrees_with_the_ledger_wherever_the_journal_ends(
    data: st.DataObject, finished: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = (finished / "journal.jsonl").read_bytes().splitlines(keepends=True)
    end = data.draw(st.integers(1, len(lines)))
    torn = lines[end][: data.draw(st.integers(0, 30))] if end < len(lines) else b""
    out = tmp_path_factory.mktemp("cut")
    (out / "journal.jsonl").write_bytes(b"".join(lines[:end]) + torn)
    before = files(out)
    facts = collect_status(RunDirectory(out))
    assert files(out) == before
    ledger = fold(read_journal(out / "journal.jsonl"))
    assert facts["state"] == (ledger.status or "crashed")
    assert [run["run"] for run in facts["runs"]] == list(ledger.runs)
    for shown, run in zip(facts["runs"], ledger.runs.values(), strict=True):
        assert (shown["spent_epochs"], shown["budget_epochs"]) == (run.budget.spent, run.budget.epochs)
        assert (shown["trials"], shown["running"]) == (run.ended, [])
        assert (shown["incumbent"] or {}).get("objective") == run.incumbent
    assert facts["spent_epochs"] == sum(run.budget.spent for run in ledger.runs.values())
    assert (facts["resume_command"] is None) == (ledger.status == "finished")


def first_event(**budget: float) -> Begun:
    data = {"name": "t", "problem": "func2c", "optimizers": [{"name": "random", "label": "a"}], "initial_design": 1}
    config = {**data, "fidelity": {"epochs": 2}, "budget": {"evaluations": 5, **budget}}
    return begun_event(check_config(config, "here"))


def ask_event(trial_id: int, at: float, origin: str = "random") -> Asked:
    return Asked(RUN, Trial(trial_id, {}, 2, origin), 0.0, at)


HISTORY: list[Event] = [
    first_event(),
    ask_event(0, 1.0),
    Started(RUN, 0, 1, "w", 2.0),  # by a driver that was killed
    Started(RUN, 0, 2, "w", 101.0),
    Finished(RUN, 0, 2, "w", EVALUATION, 110.0),
    ask_event(1, 110.0),
    Started(RUN, 1, 1, "w", 111.0),
    Lost(RUN, 1, 1, "w", "gone", False, 115.0),
    Started(RUN, 1, 2, "w@host:1", 116.0),
    ask_event(2, 116.0),
    Started(RUN, 2, 1, "w", 117.0),
    Failed(RUN, 2, 1, "w", "late", 3.0, 120.0, "timed_out"),
]


def write_run(out: Path, events: list[Event]) -> RunDirectory:
    write_journal(out / "journal.jsonl", events)
    return RunDirectory(out)


def status_with_driver(directory: RunDirectory, work: str = "experiment", **facts: Any) -> dict[str, Any]:
    """The status at 130.0 while a driver is at work that began at 100.0."""
    with driver_lock(directory, work):
        update_driver(directory, **{"work": work, "since": 100.0, **facts})
        return collect_status(directory, now=130.0)


def status_text(facts: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    print_status(facts, Console(width=150))
    return capsys.readouterr().out


def test_a_running_experiment(tmp_path: Path) -> None:
    directory = write_run(tmp_path, HISTORY)
    assert status_with_driver(directory)["state"] == "starting", "no workers are known yet"
    facts = status_with_driver(directory, workers=3)
    assert (facts["state"], facts["driver"]["pid"]) == ("working", os.getpid())
    assert (facts["workers_busy"], facts["workers"], facts["resume_command"]) == (1, 3, None)
    (run,) = facts["runs"]
    assert run["incumbent"] == {"trial": 0, "objective": 0.3, "error": pytest.approx(0.15)}
    assert (run["trials"], run["without_result"], run["spent_epochs"], run["budget_epochs"]) == (2, 1, 4, 10)
    running = {"trial": 1, "origin": "random", "epochs": 2, "epoch": None, "attempt": 2, "worker": "w@host:1"}
    assert run["running"] == [{**running, "seconds": 14.0}]
    assert facts["seconds_left"] == 45.0, "4 epochs took 30 s, 6 are left"
    assert (facts["events"][-1]["trial"], facts["events"][-1]["event"]) == (2, "failed")
    assert "late" in facts["events"][-1]["text"]


@pytest.mark.parametrize(
    ("event", "ended", "without_result", "spent"),
    [
        (Finished(RUN, 0, 1, "w", EVALUATION, 3.0), 1, 0, 2),
        (Failed(RUN, 0, 1, "w", "ValueError: no", 1.0, 3.0), 1, 1, 2),
        (Failed(RUN, 0, 1, "w", "late", 1.0, 3.0, "timed_out"), 1, 1, 2),
        (Lost(RUN, 0, 1, "w", "gone", True, 3.0), 1, 1, 0),
        (Lost(RUN, 0, 1, "w", "gone", False, 3.0), 0, 0, 0),
        (Cancelled(RUN, 0, 1, "w", "stopped", 3.0), 0, 0, 0),
    ],
    ids=["finished", "failed", "timed out", "lost for good", "lost once", "cancelled"],
)
def test_what_is_charged_is_spent_and_nothing_else(
    tmp_path: Path, event: Event, ended: int, without_result: int, spent: int
) -> None:
    events = [first_event(), ask_event(0, 1.0), Started(RUN, 0, 1, "w", 2.0), event]
    facts = collect_status(write_run(tmp_path, events), now=4.0)
    (run,) = facts["runs"]
    last = facts["events"][-1]
    assert last["event"] not in last["text"], "said once"
    assert (run["trials"], run["without_result"], run["spent_epochs"]) == (ended, without_result, spent)
    assert (run["evaluations"], facts["spent_epochs"], facts["spent_share"]) == (spent / 2, spent, spent / 10)


def test_warm_start_trials_do_not_count_for_the_pace(tmp_path: Path) -> None:
    known = ask_event(3, 121.0, "warm_start"), Finished(RUN, 3, 1, "", EVALUATION, 121.0)
    facts = status_with_driver(write_run(tmp_path, [*HISTORY, *known]), workers=3)
    assert (facts["spent_epochs"], facts["seconds_left"]) == (6, 30.0), "4 epochs took 30 s, 4 are left"


def test_a_run_without_seconds_left_has_only_its_running_trials_ahead(tmp_path: Path) -> None:
    events = [first_event(seconds=3.0), *HISTORY[1:]]
    events[4] = Finished(RUN, 0, 2, "w", replace(EVALUATION, seconds=5.0), 110.0)
    facts = status_with_driver(write_run(tmp_path, events), workers=3)
    assert facts["seconds_left"] == 15.0, "2 epochs are running, and no more will be"


def test_the_epochs_that_the_driver_noted_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_run(tmp_path, HISTORY)
    facts = status_with_driver(directory, workers=3, epochs_done=[[RUN, 1, 1], [RUN, 0, 2], ["b/repeat-0", 1, 9]])
    assert facts["runs"][0]["running"][0]["epoch"] == 1
    assert "training 1 (epoch 1 of 2, 14 s)" in status_text(facts, capsys)
    assert "training 1 (14 s)" in status_text(status_with_driver(directory, workers=3), capsys)
    assert format_activity([(trial, None, 2, 1.0) for trial in range(6)]).endswith("3 (1 s) and 2 more")


@pytest.mark.parametrize(("epochs", "text"), [(38 / 3, "12.7"), (12, "12"), (12.0, "12"), (1_234_567, "1234567")])
def test_a_fraction_of_an_epoch_is_rounded(epochs: float, text: str) -> None:
    """As racing leaves them."""
    assert format_epochs(epochs) == text


def test_a_run_waits_only_while_a_driver_is_at_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = write_run(tmp_path, [first_event(), ask_event(0, 101.0)])
    assert "waiting" in status_text(status_with_driver(directory, workers=3), capsys)
    assert "waiting" not in status_text(collect_status(directory, now=130.0), capsys)


def test_trials_of_a_crashed_driver_are_not_running(tmp_path: Path) -> None:
    directory = write_run(tmp_path, HISTORY)
    facts = collect_status(directory, now=130.0)
    assert (facts["state"], facts["driver"], facts["workers_busy"]) == ("crashed", None, 0)
    assert (facts["runs"][0]["running"], facts["resume_command"]) == ([], f"fmnas resume {tmp_path}")
    facts = status_with_driver(directory, workers=1, since=125.0)
    assert (facts["workers_busy"], facts["seconds_left"]) == (0, None)


@pytest.mark.parametrize(("work", "state"), [("retraining", "retraining"), ("sync", "syncing")])
def test_other_work_than_the_experiment(work: str, state: str, tmp_path: Path) -> None:
    facts = status_with_driver(write_run(tmp_path, HISTORY), work, workers=1)
    assert (facts["state"], facts["resume_command"], facts["runs"][0]["running"]) == (state, None, [])


def test_only_current_incumbents_count_as_retrained(tmp_path: Path) -> None:
    for trial_id, count in ((0, 1), (1, 0)):
        retrained = Retrained(RUN, trial_id, 1, "w", (0.1,), 15, 1.0, 130.0, 131.0)
        directory = write_run(tmp_path, [*HISTORY, RetrainingBegun(2, 9, 1, (RUN,), 130.0), retrained])
        assert collect_status(directory)["retrained"] == count


def test_an_in_memory_function_is_resumed_by_minimize_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = first_event()
    facts = collect_status(write_run(tmp_path, [replace(first, config={**first.config, "problem": "<minimize>:bowl"})]))
    assert (facts["state"], facts["resume_command"]) == ("crashed", None)
    assert "(bowl)" in status_text(facts, capsys)


def test_a_damaged_or_missing_journal_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path, [first_event(), Finished(RUN, 7, 1, "w", EVALUATION, 1.0)])
    for directory, words in ((tmp_path, "line 2"), (tmp_path / "nowhere", "nowhere")):
        assert main(["status", str(directory)]) == 2
        assert words in capsys.readouterr().err


def test_a_finished_experiment_is_printed(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(finished)]) == 0
    output = capsys.readouterr().out
    assert all(word in output for word in ("smoke (func2c)", str(finished), "finished", "bohb/repeat-0", "100%"))
    assert "resume" not in output


def test_a_driver_at_work_is_seen_and_not_disturbed_and_its_death_is_seen(tmp_path: Path) -> None:
    out, journal = tmp_path / "run", tmp_path / "run" / "journal.jsonl"
    overrides = ["data.name=digits", "data.train=200", "data.validation=64", "seeds=1", "optimizers=[random]"]
    flags = [*CALM, *(flag for override in (*overrides, "fidelity.epochs=1000000") for flag in ("-o", override))]
    command = [*FMNAS, "run", "quickstart", *flags, "--out", str(out)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def is_training() -> bool:
        if not journal.exists() or '"event":"started"' not in journal.read_text():
            return False
        running = collect_status(RunDirectory(out))["runs"][0]["running"]
        return bool(running) and bool(running[0]["epoch"])

    try:
        while not is_training():
            assert driver.poll() is None
            time.sleep(0.1)
        driver.send_signal(signal.SIGSTOP)  # it updates driver.json; `status` itself must write nothing
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
    facts = collect_status(RunDirectory(out))
    assert (facts["state"], facts["resume_command"]) == ("crashed", f"fmnas resume {out}")
