"""Opening the pool of workers that a configuration asks for, for whatever is to be trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from fmnas.platform.cluster import connect, pool_size
from fmnas.platform.config import Config
from fmnas.platform.pool import InProcessPool, Pool
from fmnas.platform.problems import Data, Hardware, ProblemSettings, problem
from fmnas.platform.stop import StopRequest


@dataclass(frozen=True)
class Work:
    """What is to be trained.

    config: names the problem, and says what a worker takes. data: of the problem, for a search or for the last word.
    seeds: trainings per job. wanted: how many jobs there may be at once. trial_seconds: what one may take.
    """

    config: Config
    data: Data | None
    seeds: int
    wanted: int
    trial_seconds: float | None = None


@contextmanager
def open_pool(work: Work, address: str | None, stop: StopRequest) -> Iterator[Pool]:
    """Its pool, on the cluster at the address; closed, and Ray left, whatever happens.

    Raises ClusterError when the cluster cannot be reached or lacks what is asked for.
    """
    config, workers = work.config, work.config.workers
    settings = ProblemSettings(config.data, work.seeds)
    if workers.kind == "in-process":
        trainer = problem(config.problem, settings).build(work.data, Hardware(arrangement=workers.arrangement))
        yield InProcessPool(trainer, work.trial_seconds, stop, workers.grace_seconds)
        return
    from fmnas.platform.ray_pool import RayPool

    ray = connect(address)
    try:
        size = pool_size(ray.cluster_resources(), workers.count, workers.cpus, workers.gpus, work.wanted)
        pool = RayPool(ray, config.problem, settings, work.data, workers, size, work.trial_seconds)
        try:
            yield pool
        finally:
            pool.close()
    finally:
        ray.shutdown()
