"""What runs on the nodes: a trainer in an actor, and how it introduces itself before it is given work."""

import gc
import math
import os
import platform
import socket
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from fmnas.platform.environment import package_version
from fmnas.platform.errors import LET_THROUGH, one_line
from fmnas.platform.problems import problem
from fmnas.platform.registry import SourceFile, load_source
from fmnas.platform.workers.cancellation import deadline
from fmnas.platform.workers.evaluation import Evaluator, Unfinished, warm_up_torch
from fmnas.platform.workers.progress_actor import BoardWriter
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers import Trainer, TrainerError
from fmnas.trainers.allocator import give_back_memory, keep_freed_memory
from fmnas.trainers.problem import Data, Hardware, ProblemSettings

Build = Callable[[Data | None], Trainer]
"""Makes a worker's trainer from the data; it travels to the node by pickle."""

FMNAS, PYTHON, TORCH, PLACE, NODE = "fmnas", "python", "torch", "place", "node"
"""The keys of an introduction. Plain text: a worker of another version must be understood, too."""


def build_trainer(
    problem_name: str,
    settings: ProblemSettings,
    hardware: Hardware,
    data: Data | None,
    file: SourceFile | None = None,
) -> Trainer:
    """The trainer of a problem, ready for its first trial.

    file: what a user's own stands in, as this node may lack it.
    """
    if file is not None:
        load_source(file)
    trainer = problem(problem_name, settings).build(data, hardware)
    warm_up_torch(hardware.device)
    return trainer


class Worker:
    """Inside the actor: a trainer, built once from data that all workers of a node share.

    board: the actor that is told how far trials are; None: nobody is.
    """

    def __init__(self, build: Build, data: Data | None, board: Any) -> None:
        keep_freed_memory()
        self._place, self._board = f"{socket.gethostname()}:{os.getpid()}", board
        try:
            self._evaluator = Evaluator(build(data))
        except LET_THROUGH:
            raise
        except BaseException as error:  # on one line, and the last of what Ray says: where it was and what went wrong
            raise TrainerError(f"on {self._place}: {one_line(error)}") from None

    def ready(self) -> dict[str, str]:
        """Its introduction; answered once the trainer is built."""
        import ray

        node = ray.get_runtime_context().get_node_id()
        return {**versions(), PLACE: self._place, NODE: node}

    def evaluate(self, trial: Trial, seconds: float, job: int) -> Evaluation | Unfinished:
        """The evaluation, or why there is none, e.g. as it was not done after so many seconds.

        job: its number, for the board. No exception leaves: pickle may not bring it home, and Ray would call its worker
        lost.
        Ray calls this in the main thread of the process, which can be watched. What a job without a result took of
        memory is given back at once, not with the next job: that one, and others on the same GPU, need it. One that
        finishes may keep it for the next, unless its trainer gives it back.
        """
        tell = BoardWriter(self._board, job).tell
        check = None if seconds == math.inf else deadline(seconds)
        result = self._evaluator.result(trial, tell, check, seconds, _clear_frames)
        if isinstance(result, Unfinished):
            gc.collect()  # frames and the exceptions that went through them hold each other
            give_back_memory()
        return result


def _clear_frames(error: BaseException) -> None:
    """Free what the frames that an exception went through, or one behind it, hold of memory."""
    found: BaseException | None = error
    while found is not None:
        traceback.clear_frames(found.__traceback__)
        found = found.__cause__ or found.__context__


def versions() -> dict[str, str]:
    """What must be the same on every node: fmnas whole, Python and torch by major and minor number."""
    return {
        FMNAS: package_version("fmnas") or "unknown",
        PYTHON: _minor(platform.python_version()),
        TORCH: _minor(package_version("torch") or "unknown"),
    }


def refusal(worker: Any, own: Mapping[str, str]) -> str:
    """Why a worker that introduces itself so cannot serve a driver of these versions; empty if it can."""
    theirs = worker if isinstance(worker, dict) else {}
    found = theirs.get(FMNAS, "another version, too old to say which,")
    if found == own[FMNAS]:
        return ""
    return (
        f"fmnas {found} is installed on {theirs.get(PLACE, 'a node')}, and the driver is fmnas {own[FMNAS]}: results "
        f"of two versions must not be mixed. Install fmnas {own[FMNAS]} on every node (or the other one here), start "
        "Ray there again, and resume"
    )


def remark(worker: Mapping[str, str], own: Mapping[str, str]) -> str:
    """What else differs, and may move results by rounding; empty if nothing does."""
    differ = [name for name in (PYTHON, TORCH) if worker[name] != own[name]]
    told = ", ".join(f"{name} {worker[name]} (the driver has {own[name]})" for name in differ)
    return f"{worker[PLACE]} has {told}: its results may differ from those of the other workers" if told else ""


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
