"""What the driver tells a tracker, and the tracker that passes it on from a thread of its own.

The driver never waits and never sees an error: a store that is slow, or down for hours, costs it nothing. What could
not be written is counted and named in the report; the journal has it, and the next resume sends it.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fmnas.platform.config.uri import hide_passwords
from fmnas.platform.experiment.trial_result import TrialResult

if TYPE_CHECKING:
    from fmnas.platform.mlflow.store import MlflowStore

FLUSH_SECONDS = 60.0
"""How long a store that answers may take for what is left at the end of an experiment."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds between attempts while the store does not answer; doubled each time."""

LAST_TRIES = 3
"""Failures in a row after which a store is taken to be down, once nothing else is waited for."""

TRIES_IN_A_ROW = 5
"""How often a trial is tried before it lets the others pass; it is tried again when they are through."""


@dataclass(frozen=True)
class TrackingReport:
    """What became of the trials handed to a tracker.

    written: sent to the store; present: were there already (a resume); missed: not sent, and `reason` says why.
    store_experiment: the id of the experiment in the store; empty if it was never reached.
    remark: what a person should know of how the store was found; empty if nothing.
    """

    written: int = 0
    present: int = 0
    missed: int = 0
    reason: str = ""
    store_experiment: str = ""
    remark: str = ""


class Tracker:
    """Follows an experiment. No method waits for a store or raises because of one; only `finish` takes time.

    Calls come in this order: `start` once, `trial` for each outcome (after a resume, for the replayed ones too, in
    the journal's order), `finish` once. Runs are named by (optimizer, repeat). This one tells nobody.
    """

    def start(self, runs: Sequence[tuple[str, int]]) -> None:
        """The runs of the experiment, in the order in which to show them."""

    def trial(self, outcome: TrialResult) -> None:
        """A trial ended."""

    def finish(self, status: str, artifacts: Sequence[Path], summary: Mapping[str, Any]) -> TrackingReport:
        """The experiment is "finished", "interrupted" or "failed". Returns within a bounded time."""
        return TrackingReport()


class NoTracker(Tracker):
    """For tracking.enabled = false."""


@dataclass
class _Job:
    """Something to send. may_wait: whether others may pass it."""

    send: Callable[[], None]
    may_wait: bool = False
    tries: int = 0


class BackgroundTracker(Tracker):
    """One thread with a queue, the only one that talks to the store; what raised there is called again.

    flush_seconds: how long `finish` may take. It takes far less when the store is down: a store that has failed
    LAST_TRIES times in a row by then gets one more try.
    uri: the store's, whose password no error may show.
    """

    def __init__(
        self,
        store: "MlflowStore",
        flush_seconds: float = FLUSH_SECONDS,
        first_pause: float = FIRST_PAUSE,
        uri: str = "",
    ) -> None:
        self._store = store
        self._flush_seconds = flush_seconds
        self._first_pause = first_pause
        self._uri = uri
        self._queue: deque[_Job] = deque()
        self._aside: list[_Job] = []  # trials that the store would not take while it took others
        self._news = threading.Condition()
        self._deadline: float | None = None  # on the monotonic clock; set by finish
        self._trials = self._written = self._present = 0
        self._trouble = self._refusal = ""
        # A daemon: a request that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="tracking", daemon=True)

    def start(self, runs: Sequence[tuple[str, int]]) -> None:
        """Begin to connect."""
        runs = tuple(runs)
        self._put(lambda: self._store.open(runs))
        self._thread.start()

    def trial(self, outcome: TrialResult) -> None:
        """Queue a trial."""
        self._trials += 1
        self._put(lambda: self._write(outcome), may_wait=True)

    def finish(self, status: str, artifacts: Sequence[Path], summary: Mapping[str, Any]) -> TrackingReport:
        """Send what is queued, for at most `flush_seconds`, and report."""
        artifacts, summary = tuple(artifacts), dict(summary)
        with self._news:
            self._queue.extend(self._aside)
            self._aside.clear()
            self._queue.append(_Job(lambda: self._store.close(status, artifacts, summary)))
            self._deadline = time.monotonic() + self._flush_seconds
            self._news.notify()
        if self._thread.ident is not None:  # else start was never called
            self._thread.join(self._flush_seconds)
        return self._report()

    def _report(self) -> TrackingReport:
        late = f"the store takes more than {self._flush_seconds:g} s for what was left" if self._queue else ""
        reason = self._trouble or self._refusal or late
        written, present, store = self._written, self._present, self._store
        if gone := store.gone:
            written, present, reason = 0, 0, gone
        missed = self._trials - written - present
        return TrackingReport(written, present, missed, reason, store.experiment, store.remark)

    def _put(self, send: Callable[[], None], may_wait: bool = False) -> None:
        with self._news:
            self._queue.append(_Job(send, may_wait))
            self._news.notify()

    def _write(self, outcome: TrialResult) -> None:
        if self._store.write(outcome):
            self._written += 1
        else:
            self._present += 1

    def _work(self) -> None:
        """Do the jobs in order, until none is left after `finish` or it is no use to go on."""
        failures = 0
        while (job := self._next()) is not None:
            try:
                job.send()
            except Exception as error:
                # Whatever it is, it is no reason to stop an experiment that trains for days.
                reason = " ".join(hide_passwords(f"{type(error).__name__}: {error}", self._uri).split())[:500]
                if not (self._store.experiment and self._store.is_refusal(error)):
                    failures, self._trouble = failures + 1, reason
                    if not self._let_pass(failures):
                        return
                    continue
                self._refusal = reason
            self._queue.popleft()
            failures, self._trouble = 0, ""

    def _next(self) -> _Job | None:
        """The job to do next; None when all is done, or there is no time left."""
        with self._news:
            if not self._queue and self._deadline is None:
                for job in self._aside:
                    job.tries = TRIES_IN_A_ROW - 1  # one try, so that a new trial does not wait for long
                self._queue.extend(self._aside)
                self._aside.clear()
            self._news.wait_for(lambda: self._queue or self._deadline is not None)
            in_time = self._deadline is None or time.monotonic() < self._deadline
            return self._queue[0] if self._queue and in_time else None

    def _let_pass(self, failures: int) -> bool:
        """After a failure: let others pass a trial that has been tried often enough; False: it is no use.

        And pause: longer each time, short once `finish` waits.
        """
        with self._news:
            job, ending = self._queue[0], self._deadline is not None
            job.tries += 1
            if ending and failures >= LAST_TRIES:
                self._refusal = self._trouble
                self._queue = deque(each for each in self._queue if not each.may_wait)
                return job.may_wait and bool(self._store.experiment)  # then the end is worth a try of its own
            if job.may_wait and (ending or job.tries >= TRIES_IN_A_ROW):
                self._queue.popleft()
                if ending:
                    self._queue.insert(len(self._queue) - 1, job)  # before the end
                else:
                    self._aside.append(job)
            if ending:
                self._news.wait(min(self._first_pause, FIRST_PAUSE))
            else:
                pause = min(self._first_pause * 2 ** min(failures - 1, 30), LONGEST_PAUSE)  # in reach of a float
                self._news.wait_for(lambda: self._deadline is not None, pause)
        return True
