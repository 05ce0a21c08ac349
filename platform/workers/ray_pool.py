"""The pool on Ray: actors that evaluate one trial at a time; their number follows the live nodes."""

import math
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import LONGEST, ExperimentFailed, legible, one_line
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cluster import live_nodes, workers_that_fit
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Outcome, short_worker_name, timed_out
from fmnas.platform.workers.progress_actor import JobKey, ProgressReader
from fmnas.platform.workers.ray_worker import NODE, PLACE, VERSIONS, BuildTrainer, Worker, versions
from fmnas.search_spaces.records import FAILED, LOST
from fmnas.trainers.problem import Data

NODES_SECONDS = 1.0
"""How often the pool compares its workers with the live nodes."""

GRACE_SECONDS = 5.0
"""How long after a job's deadline its worker may still answer before it is killed."""

IDLE_NOTICE_SECONDS = 30.0
"""How long there may be no ready worker before a notice."""


@dataclass
class _Actor:
    """A worker: its name, with HOST:PID once it is ready, and then the id of its node."""

    name: str
    handle: Any
    node: str = ""


@dataclass(frozen=True)
class _RunningJob:
    """A job, its worker, and when the worker is killed, in monotonic seconds."""

    job: Job
    actor: _Actor
    deadline: float


class RayPool:
    """Up to `max_workers` actors on the connected cluster, if they fit on its live nodes; all, with workers.autoscale.

    Ray restarts no actor and retries no method, which would hide losses from the journal: a worker that died, or whose
    device failed (CUDA errors last until the process ends), is reported as lost and replaced. Only ready workers get
    jobs.

    trial_seconds: deadline of a job. notify: called with notices to the user. own_node: Ray's record of the processes
    of a local cluster, which this process started; None for a running cluster.
    """

    def __init__(
        self,
        ray: Any,
        build: BuildTrainer,
        data: Data | None,
        workers: WorkersConfig,
        max_workers: int,
        *,
        trial_seconds: float = math.inf,
        notify: Callable[[str], None] = print,
        own_node: Any = None,
    ) -> None:
        self._ray, self._workers, self._max_workers = ray, workers, max_workers
        self._seconds, self._notify, self._own_node = trial_seconds, notify, own_node
        self._progress, self._versions = ProgressReader(ray), versions()
        self._actor_class, self._namespace = ray.remote(Worker), ray.get_runtime_context().namespace
        # In the object store, so that all actors of a node share one copy.
        monitored = workers.hardware.device if workers.system_metrics else ""
        self._arguments = (build, ray.put(data) if data is not None else None, self._progress.actor, monitored)
        self._starting: dict[Any, _Actor] = {}  # future of `ready` -> actor
        self._idle: list[_Actor] = []
        self._busy: dict[Any, _RunningJob] = {}  # future of `evaluate` -> job
        self._nodes: dict[str, dict[str, float]] = {}  # id -> resources of each live one
        self._failed_starts, self._last_ready = 0, time.monotonic()
        self._resize()

    @property
    def capacity(self) -> int:
        """The number of ready workers."""
        return len(self._idle) + len(self._busy)

    @property
    def size(self) -> int:
        """The number of workers, ready or starting."""
        return len(self._actors())

    def submit(self, job: Job) -> str:
        """Give the job to an idle worker and return its name."""
        actor = self._idle.pop(0)
        running = _RunningJob(job, actor, time.monotonic() + self._seconds + GRACE_SECONDS)
        self._busy[actor.handle.evaluate.remote(job.trial, self._seconds, job.key)] = running
        return actor.name

    def next_event(self, timeout: float) -> JobEnded | None:
        """Wait for any worker. Raises ExperimentFailed if workers cannot be built or have another version."""
        now = time.monotonic()
        if now >= self._resized_at + NODES_SECONDS:
            self._resize()
        self._progress.poll([running.job.key for running in self._busy.values()])
        futures = [*self._busy, *self._starting]
        if not futures:
            time.sleep(timeout)
            return None
        left = min((running.deadline for running in self._busy.values()), default=math.inf) - now
        done, _ = self._ray.wait(futures, num_returns=1, timeout=max(0.0, min(timeout, left)))
        if done and done[0] in self._busy:
            return self._finish(done[0], *self._collect(done[0]))
        if done:
            self._on_ready(done[0])
        elif left <= 0:
            overdue = min(self._busy, key=lambda future: self._busy[future].deadline)
            return self._finish(overdue, timed_out(self._seconds), is_gone=True)
        return None

    def progress(self) -> Mapping[JobKey, int]:
        """See Pool; as of the last poll."""
        keys = {running.job.key for running in tuple(self._busy.values())}
        return {key: epochs for key, epochs in self._progress.epochs.items() if key in keys}

    def close(self) -> None:
        """Kill every worker."""
        for actor in self._actors():
            self._kill(actor)
        self._idle, self._busy, self._starting = [], {}, {}

    def _kill(self, actor: _Actor) -> None:
        """End a worker; on a local cluster by its PID, as Ray would wait for a head that may be dying."""
        if self._own_node is None:
            self._ray.kill(actor.handle)
        elif actor.node:
            with suppress(ProcessLookupError):
                os.kill(int(actor.name.rpartition(":")[2]), signal.SIGKILL)

    def _actors(self) -> list[_Actor]:
        busy = tuple(self._busy.values())  # copied at once, as another thread may read `size`
        return [*tuple(self._starting.values()), *self._idle, *(running.actor for running in busy)]

    def _resize(self) -> None:
        """Start and kill workers so that all that there should be exist."""
        self._resized_at = time.monotonic()
        self._check_local_cluster()
        # A local cluster has one node. To ask for it would block while the head dies.
        nodes = self._nodes = self._nodes if self._nodes and self._own_node else live_nodes(self._ray)
        for actor in [actor for actor in self._idle if actor.node not in nodes]:
            self._idle.remove(actor)
            self._kill(actor)
        fit = workers_that_fit(nodes.values(), self._workers.cpus, self._workers.gpus)
        size = self._max_workers if self._workers.autoscale else min(self._max_workers, fit)  # autoscale adds nodes
        names = {short_worker_name(actor.name) for actor in self._actors()}
        for name in (f"worker-{i}" for i in range(self._max_workers)):
            if len(names) < size and name not in names:
                names.add(name)
                actor = _Actor(name, self._start_actor(name))
                self._starting[actor.handle.ready.remote()] = actor
        for future in list(self._starting)[: max(0, len(names) - size)]:  # they wait for a node that is gone
            self._kill(self._starting.pop(future))
        self._warn_if_none_ready()

    def _start_actor(self, name: str) -> Any:
        """Start a worker. On a running cluster it has a unique name; to look one up would block while a head dies."""
        return self._actor_class.options(
            name=None if self._own_node else f"{self._namespace}-{name}-{secrets.token_hex(4)}",
            num_cpus=self._workers.cpus,
            num_gpus=self._workers.gpus,
            max_restarts=0,
            max_task_retries=0,
        ).remote(*self._arguments)

    def _check_local_cluster(self) -> None:
        """Raise ExperimentFailed if the head or the node of the local cluster has died; it never recovers."""
        dead = {kind for kind, _ in self._own_node.dead_processes()} if self._own_node else set()
        if dead := dead & {"gcs_server", "raylet"}:
            self._idle, self._busy, self._starting = [], {}, {}
            self._ray.shutdown()  # else Ray ends this process a minute after its head has died
            raise ExperimentFailed(
                f"{' and '.join(sorted(dead))} of the local Ray cluster died (killed, or out of memory?); its logs are "
                f"in {self._own_node.get_logs_dir_path()}. Resume"
            )

    def _warn_if_none_ready(self) -> None:
        if self.capacity:
            self._last_ready = self._resized_at
        elif self._resized_at > self._last_ready + IDLE_NOTICE_SECONDS:
            self._last_ready = self._resized_at
            self._notify(
                f"waiting for a worker of {self._workers.cpus:g} CPUs and {self._workers.gpus:g} GPUs: it is starting, "
                "or they are in use or on no node; `ray status` shows the usage"
            )

    def _on_ready(self, future: Any) -> None:
        """Add a worker that has started, or count its failure."""
        actor = self._starting.pop(future)
        try:
            worker = self._ray.get(future)
        except self._ray.exceptions.RayError as error:
            self._kill(actor)
            if getattr(error, "actor_init_failed", False):  # else its node died, and the next resize starts another
                self._failed_starts += 1
                cause = legible(str(error).strip().rpartition("\n")[2])[:700]  # the last line of Ray's message
                if self._failed_starts >= self._workers.failures:
                    raise ExperimentFailed(
                        f"{self._failed_starts} workers in a row could not be built, the last being {actor.name}: "
                        f"{cause}. Install the same fmnas on every node, fix the cause, and resume"
                    ) from None
            return
        if worker.get(VERSIONS) != self._versions:
            raise ExperimentFailed(
                f"{worker[PLACE]} has {worker.get(VERSIONS, 'an older fmnas')}, the driver has {self._versions}; do "
                "not mix their results. Install the same on every node, restart Ray there, and resume"
            )
        self._failed_starts = 0
        actor.node, actor.name = worker[NODE], f"{actor.name}@{worker[PLACE]}"
        self._idle.append(actor)

    def _collect(self, future: Any) -> tuple[Outcome, bool]:
        """Return a job's outcome, and whether its worker must be replaced."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(future)
        except errors.OutOfMemoryError as error:  # Ray killed it to protect its node
            return FailedEvaluation(FAILED, f"out of memory: {one_line(error)}"[:500]), True
        except errors.RayError as error:  # it died, is unreachable, or its result was lost with its node
            return FailedEvaluation(LOST, describe_actor_death(error)), True
        return result, isinstance(result, FailedEvaluation) and result.status == LOST

    def _finish(self, future: Any, result: Outcome, is_gone: bool) -> JobEnded:
        running = self._busy.pop(future)
        if is_gone:
            self._kill(running.actor)
            self._resize()
        else:
            self._idle.append(running.actor)
        return JobEnded(running.job, running.actor.name, result)


def describe_actor_death(error: BaseException) -> str:
    """Return why a worker was lost: one short line without Ray's ids, the same for the same cause."""
    text = legible(str(error))
    if died := re.search(r"because (its .+? died)\.(?: Worker exit type: (\w+))?", text):
        return f"{died[1]} ({died[2]})" if died[2] else died[1]
    return f"{type(error).__name__}: {re.sub(r' ?[0-9a-f]{16,}', '', text).partition('. ')[0]}"[:LONGEST]
