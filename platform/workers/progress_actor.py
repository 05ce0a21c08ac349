"""Where workers on Ray leave word how far their trials are: an actor beside the driver, which reads it now and then.

Nobody waits for it: workers send a message a second at most and want no answer, the driver asks and looks later whether
an answer came. So when the board or a node is gone, nothing is late and nothing fails; the word is missing.
"""

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

TELL_SECONDS = 1.0
"""How long after its beginning a trial is told of first, and how long after each word the next may follow."""

READ_SECONDS = 2.0
"""How long the driver waits between two looks at the board."""


class ProgressBoard:
    """Inside the actor: job number -> epochs done."""

    def __init__(self) -> None:
        self._epochs: dict[int, int] = {}

    def write(self, job: int, epochs: int) -> None:
        """In the place of what was there of the job."""
        self._epochs[job] = epochs

    def read(self, jobs: Collection[int]) -> dict[int, int]:
        """What is there of these jobs; the others are forgotten."""
        self._epochs = {job: epochs for job, epochs in self._epochs.items() if job in jobs}
        return self._epochs


def start_board(ray: Any) -> Any:
    """A board on the driver's own node; it takes no CPU from the workers."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(ProgressBoard).options(num_cpus=0, scheduling_strategy=here).remote()


class BoardWriter:
    """A worker's, for one job. board: the actor; None: there is none."""

    def __init__(self, board: Any, job: int) -> None:
        self._board, self._job = board, job
        self._next = time.monotonic() + TELL_SECONDS

    def tell(self, epochs: int) -> None:
        """Write it, unless the last word is too fresh."""
        now = time.monotonic()
        if self._board is not None and now >= self._next:
            self._next = now + TELL_SECONDS
            with suppress(Exception):  # whatever it is, the trial goes on
                self._board.write.remote(self._job, epochs)


class BoardReader:
    """The driver's. epochs: job number -> epochs done, as of the last answer."""

    def __init__(self, ray: Any, board: Any) -> None:
        self._ray, self._board = ray, board
        self._asked: Any = None
        self._next = time.monotonic() + READ_SECONDS
        self.epochs: Mapping[int, int] = {}

    def look(self, jobs: Collection[int]) -> None:
        """Take the answer if it has come; else ask, where there are jobs and it is time."""
        if self._asked is not None:
            done, _ = self._ray.wait([self._asked], num_returns=1, timeout=0.0)
            if done:
                self._asked, self.epochs = None, {}
                with suppress(self._ray.exceptions.RayError):
                    self.epochs = self._ray.get(done[0])
        elif self._board is not None and jobs and time.monotonic() >= self._next:
            self._next = time.monotonic() + READ_SECONDS
            self._asked = self._board.read.remote(list(jobs))
