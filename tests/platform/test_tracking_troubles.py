"""A real store that refuses one trial for a while, or whose file is removed: what it holds then, and what is said."""

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.experiment.trial_result import RunStanding, TrialResult
from fmnas.platform.mlflow.client import MlflowExperiment, TrackingSettings
from fmnas.platform.mlflow.store import MlflowStore
from fmnas.platform.mlflow.tracker import BackgroundTracker, TrackingReport
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FINISHED

pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
OBJECTIVES = (0.4, 0.1, 0.2)
RUNS = [("random", 0)]


def told(number: int) -> TrialResult:
    """A full training; the second is the best."""
    trial = Trial(number, {"x": 0.5}, 10, "random")
    standing = RunStanding(number + 1.0, 10 * (number + 1), min(OBJECTIVES[: number + 1]))
    result, began = Evaluation(OBJECTIVES[number]), 1.0 + number
    return TrialResult("random", 0, trial, FINISHED, result, 0.0, began, began + 1.0, "w", standing=standing)


@pytest.fixture
def path(tmp_path: Path, whole_store: Path) -> Path:
    return Path(shutil.copy(whole_store, tmp_path / "mlflow.db"))


def tracker_on(path: Path) -> BackgroundTracker:
    settings = TrackingSettings(f"sqlite:///{path}", "toy", "abc", artifacts=path.parent / "files")
    return BackgroundTracker(MlflowStore(settings), first_pause=0.05)


def track(path: Path, *trials: TrialResult) -> TrackingReport:
    tracker = tracker_on(path)
    tracker.start(RUNS)
    for outcome in trials:
        tracker.trial(outcome)
    return tracker.finish("finished", [], {})


def asked(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path, timeout=20)) as database:
        return database.execute(statement).fetchall()


def line(path: Path) -> list[Any]:
    return asked(path, "select step, value from metrics where key = 'incumbent' order by step")


def test_a_trial_that_comes_late_changes_no_line_and_is_the_best_if_it_is(path: Path) -> None:
    track(path, told(0), told(2), told(1))
    assert line(path)[-1] == (3, 0.1)
    assert asked(path, "select value from tags where key = 'best_trial'") == [("1",)]
    ends = "select key, value from latest_metrics join tags using (run_uuid) where tags.key = 'best_trial'"
    found = dict(asked(path, ends.replace("select key, value", "select latest_metrics.key, latest_metrics.value")))
    assert (found["objective"], found["epochs"], found["trials"]) == (0.1, 30, 3)


def test_a_trial_that_is_not_taken_leaves_the_line_of_its_run_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = MlflowExperiment.create

    def fail(self: MlflowExperiment, name: str, *rest: Any) -> str:
        if name == "random/repeat-0/trial-1":
            raise ConnectionError("500")
        return create(self, name, *rest)

    monkeypatch.setattr(MlflowExperiment, "create", fail)
    report = track(path, *map(told, range(3)))
    assert (report.written, report.missed, report.reason) == (2, 1, "ConnectionError: 500")
    assert line(path) == [(1, 0.4), (2, 0.1), (3, 0.1)]
    monkeypatch.undo()
    report = track(path, *map(told, range(3)))
    assert (report.written, report.present, report.missed) == (1, 2, 0)
    assert line(path) == [(1, 0.4), (2, 0.1), (3, 0.1)]


def test_what_was_written_to_a_file_that_was_removed_since_is_missed(path: Path) -> None:
    tracker = tracker_on(path)
    tracker.start(RUNS)
    tracker.trial(told(0))
    while not asked(path, "select 1 from runs join tags using (run_uuid) where key = 'fmnas.trial' and end_time > 0"):
        time.sleep(0.01)
    path.unlink()
    tracker.trial(told(1))
    report = tracker.finish("finished", [], {})
    assert (report.written, report.present, report.missed) == (0, 0, 2)
    assert f"{path} was removed or replaced" in report.reason
