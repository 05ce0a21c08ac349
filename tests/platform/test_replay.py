"""Replaying journals: an honest one is followed to the last number, a changed one is found out where it was changed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import drive
from support import write_journal

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.experiment.events import Asked, Event, Failed, Finished, Lost
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.replay import Mismatch, replay

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


def run_badly(config: Config, journal: Path, seed: int = 0) -> list[Event]:
    """The events of a run to the end, from whatever the journal holds. Jobs end in any order, and sometimes badly."""
    rng = np.random.default_rng(seed)
    drive(config, journal, capacity=4, fate=lambda job: str(rng.choice(["finish"] * 16 + ["fail", "time out", "lose"])))
    return read_journal(journal)


def replay_events(config: Config, events: list[Event]) -> tuple[dict[str, int], list[Mismatch]]:
    return replay(events, [build_experiment(config, with_optimizers=False)])


def suggestion(events: list[Event], run: str, origin: str) -> int:
    """The index of a run's last suggestion of that origin."""
    return max(i for i, e in enumerate(events) if isinstance(e, Asked) and (e.run, e.trial.origin) == (run, origin))


def with_value(event: Event, value: float) -> Asked:
    """The suggestion with another x1."""
    assert isinstance(event, Asked)
    changed = {**event.trial.configuration, "x1": value}
    return replace(event, trial=replace(event.trial, configuration=changed))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Path]:
    """A run of every optimizer, and its journal."""
    config, journal = make_config(on_failure="skip"), tmp_path_factory.mktemp("honest") / "j"
    run_badly(config, journal)
    return config, journal


def test_an_honest_run_of_every_optimizer_is_followed_to_the_last_number(honest: tuple[Config, Path]) -> None:
    config, journal = honest
    events = read_journal(journal)
    for optimizer, origin in MODEL_BASED.items():
        assert suggestion(events, f"{optimizer}/repeat-0", origin)
    assert {event.status for event in events if isinstance(event, Failed)} == {"failed", "timed_out"}
    assert any(isinstance(event, Lost) for event in events)
    counts, mismatches = replay_events(config, events)
    assert mismatches == []
    assert sum(counts.values()) == sum(isinstance(event, Asked) for event in events)
    old = [replace(e, trial=replace(e.trial, run="")) if isinstance(e, Asked) else e for e in events]
    assert replay_events(config, old)[1] == [], "the trials of an old journal do not name their run"


def test_a_run_that_was_cut_and_resumed_is_followed_too(honest: tuple[Config, Path], tmp_path: Path) -> None:
    config, journal = honest
    lines = journal.read_bytes().splitlines(keepends=True)
    (tmp_path / "j").write_bytes(b"".join(lines[: int(0.6 * len(lines))]))
    assert replay_events(config, run_badly(config, tmp_path / "j", seed=5))[1] == []


@pytest.mark.parametrize("optimizer", ["bo-fm", "regularized-evolution"])
def test_a_changed_configuration_is_found_where_it_is(tmp_path: Path, optimizer: str) -> None:
    config, run = make_config(optimizer, concurrency=1), f"{optimizer}/repeat-0"
    events = run_badly(config, tmp_path / "j")
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
    events = run_badly(config, tmp_path / "j")
    place = next(i for i, event in enumerate(events) if isinstance(event, Finished))
    finished = events[place]
    assert isinstance(finished, Finished)
    lower = replace(finished.evaluation, objective=finished.evaluation.objective - 0.5)
    events[place] = replace(finished, evaluation=lower)
    first = replay_events(config, events)[1][0]
    assert first.line > place + 1
    assert first.changes


def test_a_run_that_cannot_be_replayed_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    config = make_config(concurrency=1, optimizers=["bohb", "random"])
    events = run_badly(config, tmp_path / "j")
    place = suggestion(events, "bohb/repeat-0", "promotion")
    events[place] = with_value(events[place], 0.123)
    counts, mismatches = replay_events(config, events)
    assert {mismatch.run for mismatch in mismatches} == {"bohb/repeat-0"}
    assert (mismatches[0].line, "cannot be replayed" in mismatches[0].reason) == (place + 1, True)
    assert counts["random/repeat-0"] == 18


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


def test_after_so_many_differences_the_rest_of_a_run_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.platform.experiment.replay.MOST_MISMATCHES", 4)
    config = make_config("random", concurrency=1)
    events = run_badly(config, tmp_path / "journal.jsonl")
    _, mismatches = replay_events(config, [with_value(e, 0.125) if isinstance(e, Asked) else e for e in events])
    assert [bool(mismatch.reason) for mismatch in mismatches] == [False, False, False, True]
    assert all(mismatch.changes for mismatch in mismatches)
