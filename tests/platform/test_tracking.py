"""The background tracker against stores that are slow, down, or refuse; none of it may reach the driver."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.experiment.trial_result import RunStanding, TrialResult
from fmnas.platform.mlflow.tracker import TRIES_IN_A_ROW, BackgroundTracker, NoTracker, Tracker, TrackingReport
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FINISHED

RUNS = [("random", 0)]


def outcome(number: int) -> TrialResult:
    trial = Trial(number, {"x": 0.5}, 1, "random")
    standing = RunStanding(1.0, 1, 0.5)
    return TrialResult("random", 0, trial, FINISHED, Evaluation(0.5), 0.0, 0.0, 1.0, "worker-0", standing=standing)


class RefusalError(Exception):
    pass


class FakeStore:
    """Notes what it is told; `before` runs at the beginning of every call and may raise."""

    def __init__(self, before: Callable[[str], None] = lambda call: None) -> None:
        self.before = before
        self.calls: list[str] = []
        self.experiment = self.gone = self.remark = ""
        self.threads: set[int] = set()

    def _call(self, name: str) -> None:
        self.threads.add(threading.get_ident())
        self.before(name)
        self.calls.append(name)

    def open(self, runs: Sequence[tuple[str, int]]) -> None:
        self._call("open")
        self.experiment = "1"

    def write(self, outcome: TrialResult) -> bool:
        self._call(f"write {outcome.trial.id}")
        return outcome.trial.id != 99

    def close(self, status: str, artifacts: Sequence[Path], summary: Mapping[str, Any]) -> None:
        self._call(f"close {status}")

    def is_refusal(self, error: Exception) -> bool:
        return isinstance(error, RefusalError)


def run(tracker: Tracker, trials: Sequence[int]) -> TrackingReport:
    tracker.start(RUNS)
    for number in trials:
        tracker.trial(outcome(number))
    return tracker.finish("finished", [], {})


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; fails where it never does."""
    for _ in range(20_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("it did not come about")


def test_everything_arrives_in_order_from_one_other_thread() -> None:
    store = FakeStore()
    report = run(BackgroundTracker(store), [0, 1, 99])
    assert store.calls == ["open", "write 0", "write 1", "write 99", "close finished"]
    assert report == TrackingReport(written=2, present=1, missed=0, reason="", store_experiment="1")
    assert len(store.threads) == 1
    assert threading.get_ident() not in store.threads


def test_a_store_that_comes_back_gets_everything() -> None:
    failures = iter([ConnectionError("down")] * 3)

    def fail_three_times(call: str) -> None:
        if call == "write 1" and (error := next(failures, None)):
            raise error

    store = FakeStore(fail_three_times)
    tracker = BackgroundTracker(store, first_pause=0.001)
    tracker.start(RUNS)
    for number in range(3):
        tracker.trial(outcome(number))
    while len(store.calls) < 4:
        time.sleep(0.001)
    assert tracker.finish("finished", [], {}) == TrackingReport(written=3, store_experiment="1")


def test_a_refused_trial_is_missed_and_the_next_are_written() -> None:
    def refuse(call: str) -> None:
        if call == "write 1":
            raise RefusalError("no such run")

    store = FakeStore(refuse)
    report = run(BackgroundTracker(store), [0, 1, 2])
    assert store.calls == ["open", "write 0", "write 2", "close finished"]
    assert report == TrackingReport(written=2, missed=1, reason="RefusalError: no such run", store_experiment="1")


def test_a_trial_that_only_fails_lets_the_others_pass() -> None:
    """As a server does that answers 500 to one run and takes every other."""
    tried: list[str] = []

    def fail(call: str) -> None:
        tried.append(call)
        if call == "write 1":
            raise ConnectionError("500")

    store = FakeStore(fail)
    tracker = BackgroundTracker(store, first_pause=0.001)
    tracker.start(RUNS)
    for number in range(4):
        tracker.trial(outcome(number))
    wait_for(lambda: "write 3" in store.calls)
    assert tried.count("write 1") >= TRIES_IN_A_ROW
    report = tracker.finish("finished", [], {})
    assert store.calls == ["open", "write 0", "write 2", "write 3", "close finished"]
    assert report == TrackingReport(written=3, missed=1, reason="ConnectionError: 500", store_experiment="1")


def test_at_the_end_a_trial_that_fails_stops_none_of_the_others() -> None:
    def fail(call: str) -> None:
        if call == "write 0":
            raise ConnectionError("500")

    store = FakeStore(fail)
    report = run(BackgroundTracker(store, first_pause=0.001), range(6))
    assert store.calls == ["open", *(f"write {number}" for number in range(1, 6)), "close finished"]
    assert (report.written, report.missed, report.reason) == (5, 1, "ConnectionError: 500")


def test_a_trial_that_was_passed_is_tried_again() -> None:
    failures = iter([ConnectionError("500")] * TRIES_IN_A_ROW)

    def fail_at_first(call: str) -> None:
        if call == "write 0" and (error := next(failures, None)):
            raise error

    store = FakeStore(fail_at_first)
    tracker = BackgroundTracker(store, first_pause=0.001)
    tracker.start(RUNS)
    for number in range(2):
        tracker.trial(outcome(number))
    wait_for(lambda: len(store.calls) == 3)
    assert tracker.finish("finished", [], {}) == TrackingReport(written=2, store_experiment="1")
    assert store.calls == ["open", "write 1", "write 0", "close finished"]


def test_what_is_no_longer_in_the_store_was_missed() -> None:
    store = FakeStore()
    tracker = BackgroundTracker(store)
    tracker.start(RUNS)
    tracker.trial(outcome(0))
    store.gone = "it was removed"
    assert tracker.finish("finished", [], {}) == TrackingReport(missed=1, reason="it was removed", store_experiment="1")


def test_a_store_that_is_down_costs_neither_the_driver_nor_the_end() -> None:
    def fail(call: str) -> None:
        raise ConnectionError("down")

    tracker = BackgroundTracker(FakeStore(fail), flush_seconds=30, first_pause=0.001)
    began = time.monotonic()
    report = run(tracker, range(1000))
    assert time.monotonic() - began < 5
    assert report == TrackingReport(missed=1000, reason="ConnectionError: down")


def test_a_store_that_was_down_for_days_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """After some thousand attempts, of which each doubles the pause up to the longest."""
    monkeypatch.setattr("fmnas.platform.mlflow.tracker.LONGEST_PAUSE", 0.0)
    failures = iter([ConnectionError("down")] * 1100)

    def fail_at_first(call: str) -> None:
        if error := next(failures, None):
            raise error

    store = FakeStore(fail_at_first)
    tracker = BackgroundTracker(store, first_pause=0.001)
    tracker.start(RUNS)
    tracker.trial(outcome(0))
    wait_for(lambda: "write 0" in store.calls)
    assert tracker.finish("finished", [], {}) == TrackingReport(written=1, store_experiment="1")


def test_finish_does_not_sit_out_a_long_pause() -> None:
    tried = threading.Event()

    def fail(call: str) -> None:
        tried.set()
        raise ConnectionError("down")

    tracker = BackgroundTracker(FakeStore(fail), first_pause=30)
    tracker.start(RUNS)
    assert tried.wait(5)
    began = time.monotonic()
    assert tracker.finish("interrupted", [], {}).reason == "ConnectionError: down"
    assert time.monotonic() - began < 3


def test_a_store_that_hangs_is_left_behind_in_time() -> None:
    release = threading.Event()

    def hang(call: str) -> None:
        if call == "write 1":
            release.wait(20)

    tracker = BackgroundTracker(FakeStore(hang), flush_seconds=0.3)
    began = time.monotonic()
    report = run(tracker, [0, 1, 2])
    assert time.monotonic() - began < 5
    assert (report.written, report.missed) == (1, 2)
    assert "0.3 s" in report.reason
    release.set()


@pytest.mark.parametrize("tracker", [NoTracker(), BackgroundTracker(FakeStore())])
def test_a_tracker_that_was_never_started_reports_nothing(tracker: Tracker) -> None:
    assert tracker.finish("failed", [], {}).written == 0
