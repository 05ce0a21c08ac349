"""The thread that logs while an experiment runs, against stores that are slow, down or hanging."""

import threading
import time
from collections.abc import Callable

import pytest

from fmnas.platform.mlflow import sync
from fmnas.platform.mlflow.sync import LAST_TRIES, MlflowSync, TrackingReport

pytestmark = pytest.mark.slow


class FakeReconciler:
    """Counts its passes; `before` is called at the beginning of each and may raise or return a reason."""

    experiment, remark, deadline = "1", "", float("inf")

    def __init__(self, before: Callable[[int], str] = lambda number: "") -> None:
        self.before = before
        self.passes: list[str] = []
        self.threads: set[int] = set()
        self.logged = 0

    def reconcile(self, status: str = "") -> str:
        self.threads.add(threading.get_ident())
        self.passes.append(status)
        reason = self.before(len(self.passes))
        self.logged = 0 if reason else 3
        return reason

    def count(self) -> tuple[int, int]:
        return self.logged, 0


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(20_000):
        if condition():
            return
        time.sleep(0.001)
    raise AssertionError("the condition was never true")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "POLL_SECONDS", 0.001)


def down(number: int) -> str:
    raise ConnectionError("down: http://me:secret@host")


def test_everything_is_logged_by_one_other_thread() -> None:
    reconciler = FakeReconciler()
    tracker = MlflowSync(reconciler)
    tracker.start()
    wait_for(lambda: len(reconciler.passes) > 3)
    assert tracker.finish("finished", 3) == TrackingReport(written=3, store_experiment="1")
    assert set(reconciler.passes[:-1]) == {""}
    assert reconciler.passes[-1] == "finished"
    assert len(reconciler.threads) == 1
    assert threading.get_ident() not in reconciler.threads


def test_a_store_that_comes_back_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "LONGEST_PAUSE", 0.001)
    reconciler = FakeReconciler(lambda number: down(number) if number < 30 else "")
    tracker = MlflowSync(reconciler)
    tracker.start()
    wait_for(lambda: reconciler.logged == 3)
    assert tracker.finish("finished", 3) == TrackingReport(written=3, store_experiment="1")


def test_a_store_that_is_down_costs_neither_the_driver_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the end wait for a long pause to be over."""
    monkeypatch.setattr(sync, "POLL_SECONDS", 0.5)
    reconciler = FakeReconciler(down)
    tracker = MlflowSync(reconciler)
    began = time.monotonic()
    tracker.start()
    assert time.monotonic() - began < 0.4
    wait_for(lambda: len(reconciler.passes) == 1)
    assert tracker.finish("finished", 1000).missed == 1000
    assert reconciler.passes[1:] == ["finished"] * LAST_TRIES
    assert time.monotonic() - began < 5


def test_the_reason_has_no_password() -> None:
    report = MlflowSync(FakeReconciler(down)).finish("finished", 3)
    assert report.reason == "ConnectionError: down: http://me:***@host"


def test_at_the_end_what_was_rejected_is_tried_again() -> None:
    report = MlflowSync(FakeReconciler(lambda number: "500" if number == 1 else "")).finish("finished", 3)
    assert (report.written, report.missed, report.reason) == (3, 0, "")


def test_a_store_that_hangs_is_left_behind_in_time() -> None:
    release = threading.Event()
    tracker = MlflowSync(FakeReconciler(lambda number: str(release.wait(20))), flush_seconds=0.3)
    began = time.monotonic()
    report = tracker.finish("finished", 3)
    assert time.monotonic() - began < 5
    assert report.missed == 3
    assert "0.3 s" in report.reason
    release.set()


def test_no_trial_is_begun_after_the_deadline() -> None:
    reconciler = FakeReconciler()
    began = time.monotonic()
    MlflowSync(reconciler, flush_seconds=7.0).finish("finished", 3)
    assert 6.9 < reconciler.deadline - began < 8
