"""The pool on Ray: long-lived actors, one trial at a time in each."""

import math
import os
import socket
import time
from dataclasses import dataclass
from typing import Any

from fmnas.platform.config import WorkersConfig
from fmnas.platform.pool import Event, Failed, Finished, Job, Lost, TimedOut, one_line, past_deadline
from fmnas.platform.problems import Data, Hardware, ProblemSettings, problem
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.memory import keep_freed_memory


class Worker:
    """What runs inside an actor: a trainer, built once from data that all workers of a node share."""

    def __init__(self, problem_name: str, settings: ProblemSettings, data: Data | None, hardware: Hardware) -> None:
        keep_freed_memory()
        self._trainer = problem(problem_name, settings).build(data, hardware)
        self._host = f"{socket.gethostname()}:{os.getpid()}"

    def ready(self) -> None:
        """Answered once the trainer is built."""

    def evaluate(self, trial: Trial) -> tuple[Evaluation, str]:
        """The evaluation, and where it was made (host:pid)."""
        return self._trainer.evaluate(trial), self._host


@dataclass
class _Member:
    """An actor. ready_at: when it was built, in monotonic seconds; None until it is."""

    name: str
    actor: Any
    ready_at: float | None = None


@dataclass(frozen=True)
class _Task:
    """A job in flight, and when it was submitted, in monotonic seconds."""

    job: Job
    member: _Member
    submitted_at: float

    def ends_by(self, seconds: float) -> float:
        """Its deadline. While its worker is still being built, or waits for a place, the time does not count."""
        ready_at = self.member.ready_at
        return math.inf if ready_at is None else max(ready_at, self.submitted_at) + seconds


class RayPool:
    """`size` actors on the connected cluster.

    Ray neither restarts an actor nor retries a method: both would hide a loss from the journal. A dead actor is
    reported as lost and replaced.

    trial_seconds: how long a job may take; None: for ever.
    """

    def __init__(
        self,
        ray: Any,
        problem_name: str,
        settings: ProblemSettings,
        data: Data | None,
        workers: WorkersConfig,
        size: int,
        trial_seconds: float | None = None,
    ) -> None:
        self._ray = ray
        device, threads = "cuda" if workers.gpus > 0 else "cpu", max(1, math.floor(workers.cpus))
        hardware = Hardware(device, threads, workers.arrangement)
        self._actor_class = ray.remote(Worker).options(
            num_cpus=workers.cpus, num_gpus=workers.gpus, max_restarts=0, max_task_retries=0
        )
        # Only the data go through the object store; every actor of a node maps the same copy.
        self._arguments = (problem_name, settings, ray.put(data) if data is not None else None, hardware)
        self._seconds = math.inf if trial_seconds is None else trial_seconds
        self._starting: dict[Any, _Member] = {}  # future of `ready` -> whose
        self._idle: list[_Member] = []
        self._busy: dict[Any, _Task] = {}  # future of `evaluate` -> what
        self._size = size
        for i in range(size):
            self._start(f"worker-{i}")

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return self._size

    def submit(self, job: Job) -> str:
        """Give the job to an idle worker."""
        member = self._idle.pop(0)
        self._busy[member.actor.evaluate.remote(job.trial)] = _Task(job, member, time.monotonic())
        return member.name

    def next_event(self, timeout: float) -> Event | None:
        """Wait for any worker."""
        if not self._busy:
            return None
        now = time.monotonic()
        first = min(self._busy, key=lambda future: self._busy[future].ends_by(self._seconds))
        left = self._busy[first].ends_by(self._seconds) - now
        # What has come in is taken first: a result in time is a result.
        done, _ = self._ray.wait([*self._busy, *self._starting], num_returns=1, timeout=max(0.0, min(timeout, left)))
        if done:
            if done[0] in self._busy:
                return self._collect(done[0])
            # It is ready, or it died meanwhile; then its job's future says so.
            self._starting.pop(done[0]).ready_at = time.monotonic()
            return None
        return self._give_up(first) if left <= 0 else None

    def close(self) -> None:
        """Kill every worker."""
        for member in [*self._idle, *(task.member for task in self._busy.values())]:
            self._ray.kill(member.actor, no_restart=True)
        self._idle, self._busy, self._starting = [], {}, {}

    def _start(self, name: str) -> None:
        member = _Member(name, self._actor_class.remote(*self._arguments))
        self._starting[member.actor.ready.remote()] = member
        self._idle.append(member)

    def _replace(self, member: _Member) -> None:
        self._starting = {future: other for future, other in self._starting.items() if other is not member}
        self._ray.kill(member.actor, no_restart=True)
        self._start(member.name)

    def _give_up(self, future: Any) -> Event:
        task = self._busy.pop(future)
        self._replace(task.member)
        return TimedOut(task.job, task.member.name, past_deadline(self._seconds))

    def _collect(self, future: Any) -> Event:
        task = self._busy.pop(future)
        job, member, errors = task.job, task.member, self._ray.exceptions
        try:
            evaluation, where = self._ray.get(future)
        except errors.RayTaskError as error:  # the trial's own exception: the worker lives on
            self._idle.append(member)
            return Failed(job, member.name, one_line(error.cause if error.cause is not None else error))
        except errors.OutOfMemoryError as error:  # Ray killed the worker before its node ran out
            self._replace(member)
            return Failed(job, member.name, f"out of memory: {one_line(error)}"[:500])
        except errors.RayError as error:  # died, unreachable, its result gone with its node
            self._replace(member)
            return Lost(job, member.name, one_line(error))
        self._idle.append(member)
        return Finished(job, f"{member.name}@{where}", evaluation)
