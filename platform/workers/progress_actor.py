"""Progress of trials on Ray: workers report epochs to an actor on the driver's node, which the driver polls.

Nobody waits for it: if the actor or a node is gone, only the progress is unknown.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

JobKey = tuple[str, int]
"""The run and the trial of a job."""

REPORT_SECONDS = 1.0
"""How often a worker reports at most; its first report comes after as long."""

POLL_SECONDS = 2.0
"""How often the driver polls."""


class ProgressBoard:
    """The state of the actor: (run, trial) -> epochs done."""

    def __init__(self) -> None:
        self._epochs: dict[JobKey, int] = {}

    def write(self, job: JobKey, epochs: int) -> None:
        """Replace the epochs of a job."""
        self._epochs[job] = epochs

    def read(self, jobs: Collection[JobKey]) -> dict[JobKey, int]:
        """Return the epochs of these jobs and forget the others."""
        self._epochs = {job: epochs for job, epochs in self._epochs.items() if job in jobs}
        return self._epochs


def progress_reporter(actor: Any, job: JobKey) -> Callable[[int], None]:
    """Return a callback that reports a job's epochs to the actor."""
    due = time.monotonic() + REPORT_SECONDS

    def report(epochs: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + REPORT_SECONDS
            with suppress(Exception):  # the trial continues whatever happens to the actor
                actor.write.remote(job, epochs)

    return report


class ProgressReader:
    """Starts the actor on the driver's node and polls it; Ray ends the actor when no handle to it is left.

    epochs: (run, trial) -> epochs done, as of the last answer.
    """

    def __init__(self, ray: Any) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        self.actor = ray.remote(ProgressBoard).options(num_cpus=0, scheduling_strategy=here).remote()
        self.epochs: Mapping[JobKey, int] = {}
        self._ray = ray
        self._answer: Any = None
        self._due = time.monotonic() + POLL_SECONDS

    def poll(self, jobs: Collection[JobKey]) -> None:
        """Take the answer if there is one; else ask about the jobs if it is time."""
        if self._answer is not None:
            if self._ray.wait([self._answer], num_returns=1, timeout=0.0)[0]:
                answer, self._answer, self.epochs = self._answer, None, {}
                with suppress(self._ray.exceptions.RayError):
                    self.epochs = self._ray.get(answer)
        elif jobs and time.monotonic() >= self._due:
            self._due = time.monotonic() + POLL_SECONDS
            self._answer = self.actor.read.remote(list(jobs))
