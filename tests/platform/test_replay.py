"""Replaying journals: an honest one is followed to the last number, a changed one is found out where it was changed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import begin, write_journal

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.events import Asked, Event, Failed, Finished, Lost
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observer
from fmnas.platform.experiment.replay import Mismatch, replay
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.pool import Event as JobEnded
from fmnas.platform.workers.pool import FailedEvaluation
from fmnas.search_spaces.records import FAILED, LOST, TIMED_OUT

pytestmark = pytest.mark.slow

MODEL_BASED = {"bo-fm": "model", "bohb": "model", "regularized-evolution": "mutation", "random": "random"}
"""Optimizer -> the origin of what it suggests once it has learnt something."""


def make_config(optimizer: str = "", concurrency: int = 3, **changes: Any) -> Config:
    entries: list[dict[str, Any]] = [
        {"name": "bo-fm"},
        {"name": "regularized-evolution", "population": 4, "tournament": 2},
        {"name": "bohb"},
        {"name": "random"},
    ]
    chosen = [{**entry, "concurrency": concurrency} for entry in entries if optimizer in ("", entry["name"])]
    data = {"name": "t", "problem": "func2c", "optimizers": chosen, "initial_design": 3}
    return check_config({**data, "budget": {"evaluations": 18}, "fidelity": {"epochs": 3}, **changes}, "here")


class Shuffled:
    """A pool of four whose jobs end in any order, and sometimes badly."""

    capacity = size = 4

    def __init__(self, config: Config, seed: int) -> None:
        self._trainer = build_experiment(config).problem.trainer
        self._rng = np.random.default_rng(seed)
        self._running: list[Job] = []

    def submit(self, job: Job) -> str:
        self._running.append(job)
        return "w"

    def next_event(self, timeout: float) -> JobEnded | None:
        job = self._running.pop(int(self._rng.integers(len(self._running))))
        fate = self._rng.random()
        for bound, status in ((0.05, FAILED), (0.1, TIMED_OUT), (0.2, LOST)):
            if fate < bound:
                return JobEnded(job, "w", FailedEvaluation(status, "because"))
        return JobEnded(job, "w", self._trainer.evaluate(job.trial))

    def progress(self) -> dict[tuple[str, int], int]:
        return {}


def drive(config: Config, journal: Path, seed: int = 0) -> list[Event]:
    """The events of a run to the end, from whatever the journal holds."""
    if not journal.exists():
        begin(journal, config)
    state = restore_state(build_experiment(config), read_journal(journal))
    with Journal(journal) as log:
        driver = Driver(state, SearchJobs(state), log, Shuffled(config, seed), Observer(), RunContext())
        assert driver.run() == (Ending.FINISHED, "")
    return read_journal(journal)


def replay_events(config: Config, events: list[Event]) -> tuple[dict[str, int], list[Mismatch]]:
    return replay(events, [lambda: build_experiment(config, with_optimizers=False)])


def suggestion(events: list[Event], run: str, origin: str) -> int:
    """The index of a run's last suggestion of that origin."""
    return max(i for i, e in enumerate(events) if isinstance(e, Asked) and (e.run, e.trial.origin) == (run, origin))


def with_value(event: Event, value: float) -> Asked:
    """The suggestion with another x1."""
    assert isinstance(event, Asked)
    changed = {**event.trial.configuration, "x1": value}
    return replace(event, trial=replace(event.trial, configuration=changed))


@pytest.mark.parametrize("policy", ["penalty", "skip"])
def test_an_honest_run_of_every_optimizer_is_followed_to_the_last_number(tmp_path: Path, policy: str) -> None:
    config = make_config(on_failure=policy)
    events = drive(config, tmp_path / "j")
    for optimizer, origin in MODEL_BASED.items():
        assert suggestion(events, f"{optimizer}/repeat-0", origin)
    assert {event.status for event in events if isinstance(event, Failed)} == {"failed", "timed_out"}
    assert any(isinstance(event, Lost) for event in events)
    counts, mismatches = replay_events(config, events)
    assert mismatches == []
    assert sum(counts.values()) == sum(isinstance(event, Asked) for event in events)


def test_a_run_that_was_cut_and_resumed_is_followed_too(tmp_path: Path) -> None:
    config, journal = make_config(), tmp_path / "j"
    drive(config, journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    for share in (0.4, 0.7):
        journal.write_bytes(b"".join(lines[: int(share * len(lines))]))
        assert replay_events(config, drive(config, journal, seed=5))[1] == []


@pytest.mark.parametrize("optimizer", list(MODEL_BASED))
def test_a_changed_configuration_is_found_where_it_is(tmp_path: Path, optimizer: str) -> None:
    config, run = make_config(optimizer, concurrency=1), f"{optimizer}/repeat-0"
    events = drive(config, tmp_path / "j")
    place = suggestion(events, run, MODEL_BASED[optimizer])
    trial = events[place].trial  # type: ignore[union-attr]
    before = trial.configuration["x1"]
    changed = float(np.nextafter(before, 0.0))
    events[place] = with_value(events[place], changed)
    first = replay_events(config, events)[1][0]
    assert (first.line, first.run, first.trial) == (place + 1, run, trial.id)
    assert first.changes == {"configuration.x1": (changed, before)}
    assert f"line {place + 1}: {run}, trial {trial.id}: configuration.x1 is" in str(first)


def test_a_changed_result_is_found_in_what_it_would_have_led_to(tmp_path: Path) -> None:
    config = make_config("bo-fm", concurrency=1)
    events = drive(config, tmp_path / "j")
    place = next(i for i, event in enumerate(events) if isinstance(event, Finished))
    finished = events[place]
    assert isinstance(finished, Finished)
    lower = replace(finished.evaluation, objective=finished.evaluation.objective - 0.5)
    events[place] = replace(finished, evaluation=lower)
    first = replay_events(config, events)[1][0]
    assert first.line > place + 1
    assert first.changes


def test_a_run_that_cannot_be_replayed_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    config = make_config(concurrency=1)
    events = drive(config, tmp_path / "j")
    place = suggestion(events, "bohb/repeat-0", "promotion")
    events[place] = with_value(events[place], 0.123)
    counts, mismatches = replay_events(config, events)
    assert {mismatch.run for mismatch in mismatches} == {"bohb/repeat-0"}
    assert (mismatches[0].line, "cannot be replayed" in mismatches[0].reason) == (place + 1, True)
    assert counts["random/repeat-0"] == 18


def test_after_so_many_mismatches_the_rest_of_a_run_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.platform.experiment.replay.MAX_MISMATCHES", 4)
    config = make_config("random", concurrency=1)
    events = [with_value(e, 0.125) if isinstance(e, Asked) else e for e in drive(config, tmp_path / "j")]
    _, mismatches = replay_events(config, events)
    assert [bool(mismatch.reason) for mismatch in mismatches] == [False, False, False, True]
    assert all(mismatch.changes for mismatch in mismatches)


def test_the_command_ends_with_0_or_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    fast = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
    assert main(["run", "smoke", *fast, "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["replay", str(out)]) == 0
    assert "bo-fm/repeat-0: suggestions = 8, different = 0" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    events = read_journal(out / "journal.jsonl")
    place = suggestion(events, "bo-fm/repeat-0", "model")
    events[place] = with_value(events[place], 0.5)
    write_journal(out / "journal.jsonl", events)
    assert main(["replay", str(out)]) == 1
    assert f"line {place + 1}: bo-fm/repeat-0" in capsys.readouterr().out
