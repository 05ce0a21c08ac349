"""Opening the pool of workers that a configuration asks for, for whatever is to be trained."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fmnas.platform.config.schema import IN_PROCESS, Config
from fmnas.platform.errors import ClusterError
from fmnas.platform.problems import problem
from fmnas.platform.registry import SourceFile, load_source, read_source_file
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.cluster import connect, live_nodes, most_workers, own_cluster_lives
from fmnas.platform.workers.evaluation import warm_up_torch
from fmnas.platform.workers.pool import InProcessPool, Pool
from fmnas.trainers import Trainer, TrainerError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.problem import Data, ProblemSettings


@dataclass(frozen=True)
class Work:
    """What is to be trained.

    config: names the problem, and says what a worker takes. data: of the problem, for a search or for the last word.
    seeds: trainings per job. wanted: how many jobs there may be at once. trial_seconds: what one may take.
    checkpoints: where unfinished trainings are kept, if they are. traced: whether a pool in this process prints stacks.
    """

    config: Config
    data: Data | None
    seeds: int
    wanted: int
    trial_seconds: float = math.inf
    checkpoints: Checkpoints | None = None
    traced: bool = True


@contextmanager
def open_pool(work: Work, address: str | None, stop: StopRequest, say: Callable[[str], None]) -> Iterator[Pool]:
    """Its pool, on the cluster at the address; closed, and Ray left, whatever happens.

    say: told what a person should know.
    Raises ClusterError when the cluster cannot be reached, or it or this process lacks what is asked for.
    """
    config, workers = work.config, work.config.workers
    settings = replace(config.problem_settings, seeds=work.seeds, checkpoints=work.checkpoints)
    if workers.kind == IN_PROCESS:
        trainer = _trainer_here(work, settings)
        yield InProcessPool(trainer, work.trial_seconds, stop, workers.grace_seconds, work.traced)
        return
    from fmnas.platform.workers.progress_actor import start_board
    from fmnas.platform.workers.ray_pool import RayPool, Watch
    from fmnas.platform.workers.ray_worker import build_trainer

    say("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    ray = connect(address)
    try:
        nodes = live_nodes(ray).values()
        most = most_workers(nodes, workers.count, workers.cpus, workers.gpus, work.wanted)
        build = partial(build_trainer, config.problem, settings, workers.hardware, file=_sent(ray, config.problem))
        lives = partial(own_cluster_lives, ray) if address is None else None
        watch = Watch(say, lives, start_board(ray))
        with closing(RayPool(ray, build, work.data, workers, most, work.trial_seconds, watch)) as pool:
            yield pool
    finally:
        ray.shutdown()


def _sent(ray: Any, name: str) -> SourceFile | None:
    """The file of a user's own problem, which no node needs to have; None for any other.

    The class of its data, where the file has one, goes with them.
    """
    file = read_source_file(name)
    if file is not None:
        ray.cloudpickle.register_pickle_by_value(load_source(file))
    return file


def _trainer_here(work: Work, settings: ProblemSettings) -> Trainer:
    """In this process: on its GPU, if workers are promised one, or on one thread."""
    workers = work.config.workers
    task = problem(work.config.problem, settings)
    try:
        trainer = task.build(work.data, workers.hardware)
    except TrainerError as error:
        if workers.gpus == 0:
            raise
        raise ClusterError(
            f"workers.gpus = {workers.gpus:g} with workers.kind = in-process, and this process has no such GPU "
            f"({error}). workers.gpus: 0 trains on its CPU"
        ) from error
    if task.function is None or _names_torch(task.function):  # an optimizer, too, may have loaded torch here
        warm_up_torch(workers.hardware.device)
    return trainer


def _names_torch(function: Callable[..., Any]) -> bool:
    """Whether the file of a function imports torch, or something of torch, at its top."""
    values = getattr(function, "__globals__", {}).values()
    names = (getattr(value, "__module__", None) or getattr(value, "__name__", None) for value in values)
    return any(isinstance(name, str) and name.partition(".")[0] == "torch" for name in names)
