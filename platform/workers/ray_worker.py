"""The actor on Ray's nodes: a trainer, and the versions that the driver checks before it submits jobs."""

import gc
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from fmnas.platform.environment import package_version
from fmnas.platform.errors import LET_THROUGH, one_line
from fmnas.platform.problems import problem
from fmnas.platform.references import SourceFile, load_source
from fmnas.platform.workers.cancellation import deadline
from fmnas.platform.workers.evaluation import evaluate_trial, warm_up_torch
from fmnas.platform.workers.pool import FailedEvaluation, Outcome
from fmnas.platform.workers.progress_actor import JobKey, progress_reporter
from fmnas.platform.workers.system_metrics import SystemMonitor
from fmnas.search_spaces import Trial
from fmnas.trainers import Trainer, TrainerError
from fmnas.trainers.memory import release_gpu_cache, tune_malloc
from fmnas.trainers.problem import Data, Hardware, ProblemSettings

BuildTrainer = Callable[[Data | None], Trainer]
"""Builds a worker's trainer from the data; pickled to the node."""

VERSIONS, PLACE, NODE = "versions", "place", "node"
"""The keys of what a worker says of itself: plain strings, which another version of fmnas understands."""


def build_trainer(
    problem_name: str, settings: ProblemSettings, hardware: Hardware, data: Data | None, file: SourceFile | None = None
) -> Trainer:
    """Return the problem's trainer. file: the source of a user-defined problem, which this node may lack."""
    if file is not None:
        load_source(file)
    trainer = problem(problem_name, settings).build(data, hardware)
    warm_up_torch(hardware.device)
    return trainer


class Worker:
    """The actor: a trainer, built once from data that all workers of a node share.

    progress_actor: where it reports epochs. monitored_device: whose use is measured, as torch names it; empty: none.
    """

    def __init__(self, build: BuildTrainer, data: Data | None, progress_actor: Any, monitored_device: str = "") -> None:
        tune_malloc()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray's handler raises SystemExit in the trial, which then failed
        self._place, self._progress_actor = f"{socket.gethostname()}:{os.getpid()}", progress_actor
        try:
            self._monitor = SystemMonitor(monitored_device) if monitored_device else None
            self._trainer = build(data)
        except LET_THROUGH:
            raise
        except BaseException as error:  # one line, the last of Ray's message
            raise TrainerError(f"on {self._place}: {one_line(error)}") from None

    def ready(self) -> dict[str, str]:
        """Return versions and place, once the trainer is built."""
        import ray

        return {VERSIONS: versions(), PLACE: self._place, NODE: ray.get_runtime_context().get_node_id()}

    def evaluate(self, trial: Trial, seconds: float, job: JobKey) -> Outcome:
        """Return the evaluation, or why it failed. seconds: deadline. job: its key in reports of progress.

        At the deadline `stop` tells the trainer to end; the pool kills the worker if it does not. No exception leaves,
        as pickle may fail for it. Memory of a failed job is released for the next one and others on the same GPU.
        """
        report = progress_reporter(self._progress_actor, job)
        result = evaluate_trial(self._trainer, trial, report, deadline(seconds), seconds, monitor=self._monitor)
        if isinstance(result, FailedEvaluation):
            gc.collect()  # cycles of exceptions and frames hold tensors
            release_gpu_cache()
        return result


def versions() -> str:
    """Return the versions that must agree on all nodes: of fmnas, and of torch by minor version. Ray compares Python's.

    Another torch rounds differently.
    """
    torch = ".".join((package_version("torch") or "unknown").split(".")[:2])
    return f"fmnas {package_version('fmnas')} and torch {torch}"
