"""The pool on Ray: long-lived actors, one trial at a time in each, as many as the live nodes hold."""

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import LONGEST, ExperimentFailed, legible, one_line
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers.cluster import fitting, live_nodes, own_logs
from fmnas.platform.workers.evaluation import Unfinished, timed_out
from fmnas.platform.workers.pool import Event
from fmnas.platform.workers.progress_actor import BoardReader
from fmnas.platform.workers.ray_worker import NODE, PLACE, Build, Worker, refusal, remark, versions
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import FAILED, LOST
from fmnas.trainers.problem import Data

NODES_SECONDS = 1.0
"""How often the pool looks which nodes there are."""

GRACE_SECONDS = 5.0
"""How long after a job's deadline its worker may take to say so before it is killed."""

SILENT_SECONDS = 30.0
"""How long no worker may be ready before a person is told."""


@dataclass
class _Member:
    """An actor. node, place: where it is, by Ray's id and as host:pid; empty until it is ready."""

    name: str
    actor: Any
    node: str = ""
    place: str = ""

    @property
    def whole_name(self) -> str:
        """Under which its trials are recorded, however they end."""
        return f"{self.name}@{self.place}"


@dataclass(frozen=True)
class _Task:
    """A job in flight, its number, and when its worker must have answered, in monotonic seconds."""

    job: Job
    number: int
    member: _Member
    ends_by: float


@dataclass(frozen=True)
class Watch:
    """say: told what a person should know. lives: whether a cluster of our own still does; None: it is not ours.

    board: where workers leave word how far their trials are; None: nowhere.
    """

    say: Callable[[str], None] = print
    lives: Callable[[], bool] | None = None
    board: Any = None


class RayPool:
    """Up to `most` actors on the connected cluster; fewer while fewer fit on its live nodes.

    Only workers that are ready are given jobs, so one that waits for a place keeps no trial waiting. Ray neither
    restarts an actor nor retries a method: both would hide a loss from the journal. A dead actor is reported as lost
    and replaced; so is one whose device failed, which is killed: CUDA's errors stay until their process ends.

    A worker ends a job at its deadline itself and lives on. One that cannot, because a call into C does not return or
    its node is out of reach, is killed GRACE_SECONDS later and replaced.

    Nodes of a standing cluster may go and others come: it is waited for. A cluster of our own is this machine: when it
    dies, the experiment ends, and can be resumed.

    build, data: what a worker makes its trainer of. trial_seconds: how long a job may take.
    """

    def __init__(
        self,
        ray: Any,
        build: Build,
        data: Data | None,
        workers: WorkersConfig,
        most: int,
        trial_seconds: float = math.inf,
        watch: Watch | None = None,
    ) -> None:
        self._ray, self._workers, self._most, self._watch = ray, workers, most, watch or Watch()
        self._actor_class = ray.remote(Worker).options(
            num_cpus=workers.cpus, num_gpus=workers.gpus, max_restarts=0, max_task_retries=0
        )
        # Only the data go through the object store; every actor of a node maps the same copy.
        self._arguments = (build, ray.put(data) if data is not None else None, self._watch.board)
        self._reader, self._jobs = BoardReader(ray, self._watch.board), 0
        self._seconds = trial_seconds
        self._versions = versions()
        self._starting: dict[Any, _Member] = {}  # future of `ready` -> whose
        self._idle: list[_Member] = []
        self._busy: dict[Any, _Task] = {}  # future of `evaluate` -> what
        self._failed_starts = 0
        self._served_at = time.monotonic()
        self._remarks: set[str] = set()
        self._look()

    @property
    def capacity(self) -> int:
        """The number of workers that are ready."""
        return len(self._idle) + len(self._busy)

    @property
    def size(self) -> int:
        """The number of workers, those that start among them."""
        return len(self._members())

    def submit(self, job: Job) -> str:
        """Give the job to an idle worker."""
        member = self._idle.pop(0)
        self._jobs += 1
        future = member.actor.evaluate.remote(job.trial, self._seconds, self._jobs)
        self._busy[future] = _Task(job, self._jobs, member, time.monotonic() + self._seconds + GRACE_SECONDS)
        return member.whole_name

    def next_event(self, timeout: float) -> Event | None:
        """Wait for any worker. Raises ExperimentFailed when workers cannot be built, or are of another version."""
        now = time.monotonic()
        if now >= self._looked_at + NODES_SECONDS:
            self._look()
        self._reader.look([task.number for task in self._busy.values()])
        if self._idle and not self._busy:
            timeout = 0.0  # no event will come
        futures = [*self._busy, *self._starting]
        if not futures:
            time.sleep(timeout)
            return None
        left = min((task.ends_by for task in self._busy.values()), default=math.inf) - now
        # What has come in is taken first, and a result that comes in the grace time is one, too: the worker's clock,
        # which began later than ours, says that it was in time.
        done, _ = self._ray.wait(futures, num_returns=1, timeout=max(0.0, min(timeout, left)))
        if done and done[0] in self._busy:
            return self._end(done[0], *self._answer(done[0]))
        if done:
            self._on_ready(done[0])
        elif left <= 0:
            overdue = min(self._busy, key=lambda future: self._busy[future].ends_by)
            return self._end(overdue, timed_out(self._seconds), gone=True)
        return None

    def progress(self) -> Mapping[tuple[str, int], int]:
        """What the board told of the jobs in flight."""
        epochs = self._reader.epochs
        flying = [(task.job, task.number) for task in tuple(self._busy.values())]
        return {(job.run, job.trial.id): epochs[number] for job, number in flying if number in epochs}

    def close(self) -> None:
        """Kill every worker."""
        for member in self._members():
            self._ray.kill(member.actor, no_restart=True)
        self._idle, self._busy, self._starting = [], {}, {}

    def _members(self) -> list[_Member]:
        busy = tuple(self._busy.values())  # copied whole: another thread may ask, too
        return [*tuple(self._starting.values()), *self._idle, *(task.member for task in busy)]

    def _look(self) -> None:
        """Let the pool have as many workers as fit on the nodes that are there now."""
        self._looked_at = time.monotonic()
        if self._watch.lives is not None and not self._watch.lives():
            self._idle, self._busy, self._starting = [], {}, {}
            logs = own_logs(self._ray)
            self._ray.shutdown()  # now: a minute after its head has died, Ray would end this process
            raise ExperimentFailed(
                "the Ray that it had started on this machine died (killed, or out of memory?), and its workers with "
                f"it; its logs are in {logs}. Resume"
            )
        nodes = live_nodes(self._ray)
        for member in [member for member in self._idle if member.node not in nodes]:
            self._idle.remove(member)
            self._ray.kill(member.actor, no_restart=True)
        size = min(self._most, fitting(nodes.values(), self._workers.cpus, self._workers.gpus))
        names = {member.name for member in self._members()}
        for name in (f"worker-{i}" for i in range(self._most)):
            if len(names) < size and name not in names:
                names.add(name)
                member = _Member(name, self._actor_class.remote(*self._arguments))
                self._starting[member.actor.ready.remote()] = member
        # One that waits for a place on a node that is gone; what is ready stays.
        for future in list(self._starting)[: max(0, len(names) - size)]:
            self._ray.kill(self._starting.pop(future).actor, no_restart=True)
        self._tell_of_silence(size)

    def _tell_of_silence(self, size: int) -> None:
        if self.capacity:
            self._served_at = self._looked_at
        elif self._looked_at > self._served_at + SILENT_SECONDS:
            self._served_at = self._looked_at
            why = "the rest of the cluster is taken, or they are still being built" if size else "no node has room"
            self._watch.say(
                f"no worker is ready (each takes {self._workers.cpus:g} CPUs and {self._workers.gpus:g} GPUs): {why}; "
                "waiting. `ray status` says who takes what"
            )

    def _on_ready(self, future: Any) -> None:
        """A worker is ready, or will never be."""
        member = self._starting.pop(future)
        try:
            introduction = self._ray.get(future)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(member.actor, no_restart=True)
            if getattr(error, "actor_init_failed", False):  # else its node is gone; the next look starts another
                self._failed_starts += 1
                if self._failed_starts >= self._workers.failures:
                    raise ExperimentFailed(
                        f"{self._failed_starts} workers in a row could not be built, the last being {member.name}: "
                        f"{_cause(error)}. Is the same fmnas installed on every node? Mend the cause and resume"
                    ) from None
            return
        reason = refusal(introduction, self._versions)
        if reason:
            raise ExperimentFailed(reason)
        words = remark(introduction, self._versions)
        if words and words not in self._remarks:
            self._remarks.add(words)
            self._watch.say(words)
        self._failed_starts = 0
        member.node, member.place = introduction[NODE], introduction[PLACE]
        self._idle.append(member)

    def _answer(self, future: Any) -> tuple[Evaluation | Unfinished, bool]:
        """What came of a job, and whether its worker is gone, or of no more use."""
        errors = self._ray.exceptions
        try:
            result = self._ray.get(future)
        except errors.OutOfMemoryError as error:  # Ray killed the worker before its node ran out
            return Unfinished(FAILED, f"out of memory: {one_line(error)}"[:500]), True
        except errors.RayError as error:  # died, unreachable, its result gone with its node
            return Unfinished(LOST, death(error)), True
        return result, isinstance(result, Unfinished) and result.status == LOST

    def _end(self, future: Any, result: Evaluation | Unfinished, gone: bool) -> Event:
        task = self._busy.pop(future)
        if gone:
            self._ray.kill(task.member.actor, no_restart=True)
            self._look()
        else:
            self._idle.append(task.member)
        return Event(task.job, task.member.whole_name, result)


def death(error: BaseException) -> str:
    """Why a worker was lost, in a short line: the same for the same cause, whatever ids Ray has for who it was."""
    text = legible(str(error))
    kind, code = (re.search(pattern, text) for pattern in (r"Worker exit type: (\w+)", r"exit code[: ]+(-?\d+)"))
    if kind:
        return f"its process died (exit type {kind[1]}{f', code {code[1]}' if code else ''})"
    if "its node has died" in text:
        return "its node died"
    nameless = re.sub(r" ?\b[0-9a-f]{16,}\b", "", text)
    first = re.split(r"(?<=\.) |\bclass_name:", nameless)[0].strip()
    return f"{type(error).__name__}: {first}"[:LONGEST] if first else type(error).__name__


def _cause(error: BaseException) -> str:
    """Why an actor's constructor raised: the last line of what Ray says, which a worker writes to be that."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return legible(lines[-1])[:700] if lines else type(error).__name__
