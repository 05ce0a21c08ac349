"""Simulated workers: trials are evaluated in this process, one after the other, and their time is computed.

A trial takes the seconds that its evaluation reports; one that fails, those that its failure reports or that it took
here. An ask or a tell takes its measured seconds or none, by `workers.suggestions`. All else that the driver does takes
none. So any number of workers costs no more than one, and an optimizer that thinks for long leaves workers idle, as the
one driver of a real experiment does.

    time = SimulatedTime()
    pool = SimulatedPool(trainer, 64, time)      # and the driver's clock is time.now

The ends of the running jobs are a heap; of several at the same time, the job that was submitted first ends first.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count as counter
from time import perf_counter
from typing import Any

from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cancellation import Stopped
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Outcome, timed_out
from fmnas.trainers import Trainer

BEGINNING = 946_684_800.0
"""2000-01-01 00:00 UTC, where simulated time begins: always the same, so that equal experiments have equal times."""


class SimulatedTime:
    """The clock of a simulation, in seconds since the epoch.

    starts: (run, trial) -> when a job that an earlier driver left running was started: it ends as if nothing had
    interrupted it.
    """

    def __init__(self, now: float = BEGINNING, starts: Mapping[tuple[str, int], float] | None = None) -> None:
        self._now = now
        self.starts = dict(starts or {})

    def now(self) -> float:
        """Return how far the simulation has come."""
        return self._now

    def advance(self, to: float) -> None:
        """Continue at a time, unless it has passed."""
        self._now = max(self._now, to)

    @contextmanager
    def measure(self, elapsed: Callable[[], float] = perf_counter) -> Iterator[None]:
        """Let simulated time pass as real time does while in the context. elapsed: real seconds, monotonic."""
        began = elapsed()
        try:
            yield
        finally:
            self._now += elapsed() - began


class SimulatedPool(InProcessPool):
    """Evaluates each job in this process once the driver waits for it, and ends it at its simulated time.

    count: workers. simulation: its time, which `next_event` advances. in_process: see InProcessPool. A job whose
    seconds exceed `trial_seconds` has timed out at that time.
    """

    def __init__(self, trainer: Trainer, count: int, simulation: SimulatedTime, **in_process: Any) -> None:
        super().__init__(trainer, **in_process)
        self.capacity = self.size = count
        self._time = simulation
        self._idle = list(range(count))
        self._submitted: deque[tuple[Job, int, float]] = deque()  # with the worker's number, and when it started
        self._ends: list[tuple[float, int, int, JobEnded]] = []  # when, the number of the job, and that of its worker
        self._numbers = counter()

    def submit(self, job: Job) -> str:
        """Start a job now, or where an earlier driver started it."""
        if not self._idle:
            raise RuntimeError(f"{self.size} jobs are running already")
        number = heapq.heappop(self._idle)
        self._submitted.append((job, number, self._time.starts.pop(job.key, self._time.now())))
        return _worker_name(number)

    def next_event(self, timeout: float) -> JobEnded | None:
        """Return the end of the job that ends first, and advance the time to it.

        None, and the jobs still run, after a stop request, or without a job. Raises as InProcessPool.
        """
        while self._submitted:
            job, number, start = self._submitted[0]
            began = perf_counter()
            try:
                event = self._evaluate(job)
            except Stopped:
                return None
            self._submitted.popleft()
            result, seconds = self._take_time(event.result, perf_counter() - began)
            event = replace(event, worker=_worker_name(number), result=result)
            heapq.heappush(self._ends, (start + seconds, next(self._numbers), number, event))
        if not self._ends:
            return None
        end, _, number, event = heapq.heappop(self._ends)
        heapq.heappush(self._idle, number)
        self._time.advance(end)
        return event

    def _take_time(self, result: Outcome, measured: float) -> tuple[Outcome, float]:
        """Return the result of a job and its seconds. measured: what the evaluation took here."""
        seconds = measured if result.seconds is None else max(0.0, result.seconds)
        if seconds > self._seconds:
            result, seconds = timed_out(self._seconds), self._seconds
        return (replace(result, seconds=seconds) if isinstance(result, FailedEvaluation) else result), seconds


def _worker_name(number: int) -> str:
    return f"simulated-{number}"
