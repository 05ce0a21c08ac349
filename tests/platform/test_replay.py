"""Replaying journals: an honest one is followed to the last number, a changed one is found out where it was changed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.display.modes import QuietScreen
from fmnas.platform.display.progress import ExperimentProgress
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, Record, read_journal
from fmnas.platform.experiment.replay import Replayed, difference_in_words, replay
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.sync import Tracker
from fmnas.platform.runner.driver import Driver, Stage
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.pool import Event, FailedEvaluation
from fmnas.search_spaces.records import FAILED, LOST, TIMED_OUT

MODEL_BASED = {"bo-fm": "model", "bohb": "model", "regularized-evolution": "mutation", "random": "random"}
"""Optimizer -> the origin of what it suggests once it has learnt something."""


def configured(optimizer: str = "", concurrency: int = 3, **changes: Any) -> Config:
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

    capacity = 4

    def __init__(self, config: Config, seed: int) -> None:
        self._trainer = build_experiment(config).problem.trainer
        self._rng = np.random.default_rng(seed)
        self._flying: list[Job] = []

    def submit(self, job: Job) -> str:
        self._flying.append(job)
        return "w"

    def next_event(self, timeout: float) -> Event | None:
        job = self._flying.pop(int(self._rng.integers(len(self._flying))))
        fate = self._rng.random()
        for bound, status in ((0.05, FAILED), (0.1, TIMED_OUT), (0.2, LOST)):
            if fate < bound:
                return Event(job, "w", FailedEvaluation(status, "because"))
        return Event(job, "w", self._trainer.evaluate(job.trial))


def drive(config: Config, journal: Path, seed: int = 0) -> list[Record]:
    """The records of a run to the end, from whatever the journal holds."""
    state = ExperimentState(build_experiment(config))
    if journal.exists():
        state.replay(read_journal(journal))
    with Journal(journal) as log:
        progress = ExperimentProgress(QuietScreen(), state)
        stage = Stage(Shuffled(config, seed), progress, StopRequest())
        assert Driver(state, stage, log, Tracker()).run() == Ending.FINISHED
    return read_journal(journal)


def replayed(config: Config, records: list[Record]) -> Replayed:
    return replay(lambda: build_experiment(config), records)


def suggestion(records: list[Record], run: str, origin: str) -> int:
    """The place of a run's last suggestion of that origin."""
    return max(
        i for i, r in enumerate(records) if r["event"] == "asked" and (r["run"], r["trial"]["origin"]) == (run, origin)
    )


@pytest.mark.parametrize("policy", ["penalty", "skip"])
def test_an_honest_run_of_every_optimizer_is_followed_to_the_last_number(tmp_path: Path, policy: str) -> None:
    config = configured(on_failure=policy)
    records = drive(config, tmp_path / "j")
    for optimizer, origin in MODEL_BASED.items():
        assert suggestion(records, f"{optimizer}/repeat-0", origin)
    assert {"failed", "timed_out", "lost"} <= {record["event"] for record in records}
    found = replayed(config, records)
    assert found.differences == ()
    assert sum(found.asks.values()) == sum(record["event"] == "asked" for record in records)


def test_a_run_that_was_cut_and_resumed_is_followed_too(tmp_path: Path) -> None:
    config, journal = configured(), tmp_path / "j"
    drive(config, journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    for share in (0.4, 0.7):
        journal.write_bytes(b"".join(lines[: int(share * len(lines))]))
        records = drive(config, journal, seed=5)
        assert replayed(config, records).differences == ()


@pytest.mark.parametrize("optimizer", list(MODEL_BASED))
def test_a_changed_configuration_is_found_where_it_is(tmp_path: Path, optimizer: str) -> None:
    config, run = configured(optimizer, concurrency=1), f"{optimizer}/repeat-0"
    records = drive(config, tmp_path / "j")
    place = suggestion(records, run, MODEL_BASED[optimizer])
    trial = records[place]["trial"]
    before = trial["configuration"]["x1"]
    trial["configuration"]["x1"] = float(np.nextafter(before, 0.0))
    first = replayed(config, records).differences[0]
    assert (first.line, first.run, first.trial) == (place + 2, run, trial["id"])
    assert first.changes == {"configuration.x1": (trial["configuration"]["x1"], before)}
    assert f"line {place + 2}: {run}, trial {trial['id']}: configuration.x1 is" in difference_in_words(first)


def test_a_changed_result_is_found_in_what_it_would_have_led_to(tmp_path: Path) -> None:
    config = configured("bo-fm", concurrency=1)
    records = drive(config, tmp_path / "j")
    changed = next(i for i, r in enumerate(records) if r["event"] == "finished")
    records[changed]["evaluation"]["objective"] -= 0.5
    first = replayed(config, records).differences[0]
    assert first.line > changed + 2
    assert first.changes


def test_where_a_run_cannot_be_followed_it_is_said_and_the_others_go_on(tmp_path: Path) -> None:
    config = configured(concurrency=1)
    records = drive(config, tmp_path / "j")
    place = suggestion(records, "bohb/repeat-0", "promotion")
    records[place]["trial"]["configuration"]["x1"] = 0.123
    found = replayed(config, records)
    assert {difference.run for difference in found.differences} == {"bohb/repeat-0"}
    told = difference_in_words(found.differences[0])
    assert "cannot be followed" in told
    assert f"line {place + 2} of the journal" in told  # its own line, with those of other runs before it
    assert found.asks["random/repeat-0"] == 18


def test_after_so_many_differences_the_rest_of_a_run_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.platform.experiment.replay.MOST_DIFFERENCES", 4)
    config = configured("random", concurrency=1)
    records = drive(config, tmp_path / "j")
    for record in records:
        if record["event"] == "asked":
            record["trial"]["configuration"]["x1"] = 0.125
    found = replayed(config, records)
    assert len(found.differences) == 4
    assert [bool(difference.reason) for difference in found.differences] == [False, False, False, True]
    assert found.asks == {"random/repeat-0": 4}
    assert all(difference.changes for difference in found.differences)


def test_the_command_ends_with_0_or_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    fast = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
    assert main(["run", "smoke", *fast, "--out", str(out)]) == 0
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main(["replay", str(out)]) == 0
    assert "bo-fm/repeat-0: 8 suggestions asked again, all as recorded" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    lines = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    place = suggestion([{**line, "trial": line.get("trial")} for line in lines], "bo-fm/repeat-0", "model")
    lines[place]["trial"]["configuration"]["x1"] = 0.5
    (out / "journal.jsonl").unlink()
    with Journal(out / "journal.jsonl") as journal:
        for line in lines:
            journal.append({key: value for key, value in line.items() if key not in ("n", "crc")})
    assert main(["replay", str(out)]) == 1
    printed = capsys.readouterr().out
    assert f"line {place + 1}: bo-fm/repeat-0" in printed
    assert "configuration.x1 is 0.5" in printed
    assert "random/repeat-0: 8 suggestions asked again, all as recorded" in printed
