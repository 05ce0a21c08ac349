"""The pool on Ray: long-lived actors, one trial at a time in each."""

import math
import os
import socket
from typing import Any

from fmnas.platform.config import WorkersConfig
from fmnas.platform.pool import Event, Failed, Finished, Job, Lost, one_line
from fmnas.platform.problems import Data, Hardware, ProblemSettings, problem
from fmnas.search_spaces import Evaluation, Trial


class Worker:
    """What runs inside an actor: a trainer, built once from data that all workers of a node share."""

    def __init__(self, problem_name: str, settings: ProblemSettings, data: Data | None, hardware: Hardware) -> None:
        self._trainer = problem(problem_name, settings).build(data, hardware)
        self._host = f"{socket.gethostname()}:{os.getpid()}"

    def evaluate(self, trial: Trial) -> tuple[Evaluation, str]:
        """The evaluation, and where it was made (host:pid)."""
        return self._trainer.evaluate(trial), self._host


class RayPool:
    """`size` actors on the connected cluster.

    Ray neither restarts an actor nor retries a method: both would hide a loss from the journal. A dead actor is
    reported as lost and replaced.
    """

    def __init__(
        self,
        ray: Any,
        problem_name: str,
        settings: ProblemSettings,
        data: Data | None,
        workers: WorkersConfig,
        size: int,
    ) -> None:
        self._ray = ray
        device, threads = "cuda" if workers.gpus > 0 else "cpu", max(1, math.floor(workers.cpus))
        hardware = Hardware(device, threads, workers.arrangement)
        self._actor_class = ray.remote(Worker).options(
            num_cpus=workers.cpus, num_gpus=workers.gpus, max_restarts=0, max_task_retries=0
        )
        # Only the data go through the object store; every actor of a node maps the same copy.
        self._arguments = (problem_name, settings, ray.put(data) if data is not None else None, hardware)
        self._idle: list[tuple[str, Any]] = [(f"worker-{i}", self._start()) for i in range(size)]
        self._busy: dict[Any, tuple[Job, str, Any]] = {}  # future -> (job, worker's name, actor)
        self._size = size

    @property
    def capacity(self) -> int:
        """The number of workers."""
        return self._size

    def submit(self, job: Job) -> str:
        """Give the job to an idle worker."""
        name, actor = self._idle.pop(0)
        self._busy[actor.evaluate.remote(job.trial)] = (job, name, actor)
        return name

    def next_event(self, timeout: float) -> Event | None:
        """Wait for any worker."""
        if not self._busy:
            return None
        done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=timeout)
        return self._collect(done[0]) if done else None

    def close(self) -> None:
        """Kill every worker."""
        for actor in [*(actor for _, actor in self._idle), *(actor for _, _, actor in self._busy.values())]:
            self._ray.kill(actor, no_restart=True)
        self._idle, self._busy = [], {}

    def _start(self) -> Any:
        return self._actor_class.remote(*self._arguments)

    def _collect(self, future: Any) -> Event:
        job, name, actor = self._busy.pop(future)
        errors = self._ray.exceptions
        try:
            evaluation, where = self._ray.get(future)
        except errors.RayTaskError as error:  # the trial's own exception: the worker lives on
            self._idle.append((name, actor))
            return Failed(job, name, one_line(error.cause if error.cause is not None else error))
        except errors.RayError as error:  # died, unreachable, out of memory, its result gone with its node
            self._ray.kill(actor, no_restart=True)
            self._idle.append((name, self._start()))
            return Lost(job, name, one_line(error))
        self._idle.append((name, actor))
        return Finished(job, f"{name}@{where}", evaluation)
