"""Opening the pool of workers that a configuration asks for."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fmnas.platform.config.schema import AUTO, Config
from fmnas.platform.errors import ClusterError
from fmnas.platform.problems import problem
from fmnas.platform.references import SourceFile, load_source, read_source_file
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.cluster import connect, live_nodes, max_workers
from fmnas.platform.workers.evaluation import warm_up_torch
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import Pool
from fmnas.platform.workers.simulated import SimulatedPool, SimulatedTime
from fmnas.platform.workers.system_metrics import SystemMonitor
from fmnas.trainers import TrainerError
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.problem import Data


@dataclass(frozen=True)
class PoolSpec:
    """What a pool is for.

    config: its problem and workers. data: of the problem. seeds: trainings per job. max_jobs: that may run at a time.
    trial_seconds: deadline of a job. checkpoints: of unfinished trainings. print_tracebacks: of failed jobs in process.
    simulation: the time of simulated workers.
    """

    config: Config
    data: Data | None
    seeds: int
    max_jobs: int
    trial_seconds: float = math.inf
    checkpoints: Checkpoints | None = None
    print_tracebacks: bool = True
    simulation: SimulatedTime | None = None


@contextmanager
def open_pool(spec: PoolSpec, address: str | None, stop: StopRequest, notify: Callable[[str], None]) -> Iterator[Pool]:
    """Yield a pool, on the Ray cluster at the address unless it is in this process; disconnect at the end.

    Raises ClusterError if the cluster cannot be reached, or it or this process lacks the resources.
    """
    config, workers = spec.config, spec.config.workers
    settings = replace(config.problem_settings, seeds=spec.seeds, checkpoints=spec.checkpoints)
    most = spec.max_jobs if workers.count == AUTO else int(workers.count)
    if workers.is_in_driver:
        task = problem(config.problem, settings)
        try:
            monitor = SystemMonitor(workers.hardware.device) if workers.system_metrics else None
            trainer = task.build(spec.data, workers.hardware)
        except TrainerError as error:
            keys = f"workers.gpus = {workers.gpus:g}, workers.arrangement = {workers.arrangement}"
            raise ClusterError(f"{keys}: {error}") from error
        if task.function is None or _uses_torch(task.function):  # an optimizer may have loaded torch for itself
            warm_up_torch(workers.hardware.device)
        options: dict[str, Any] = {
            "trial_seconds": spec.trial_seconds,
            "stop": stop,
            "grace_seconds": workers.grace_seconds,
            "print_tracebacks": spec.print_tracebacks,
        }
        if spec.simulation is None:
            yield InProcessPool(trainer, **options, monitor=monitor)
        else:
            yield SimulatedPool(trainer, most, spec.simulation, **options)
        return
    from fmnas.platform.workers.ray_pool import RayPool
    from fmnas.platform.workers.ray_worker import build_trainer

    notify("starting Ray on this machine" if address is None else f"joining the Ray cluster at {address}")
    if workers.autoscale and address is None:
        notify("ignored: workers.autoscale = true: without --address, Ray has this machine alone")
        workers = workers.model_copy(update={"autoscale": False})
    ray = connect(address, f"fmnas-{config.name}")
    try:
        nodes = live_nodes(ray).values()
        if not workers.autoscale:
            most = max_workers(nodes, workers.count, workers.cpus, workers.gpus, spec.max_jobs)
        source = _ship_source(ray, config.problem)
        build = partial(build_trainer, config.problem, settings, workers.hardware, file=source)
        node = ray._private.worker._global_node if address is None else None
        pool = RayPool(
            ray, build, spec.data, workers, most, trial_seconds=spec.trial_seconds, notify=notify, own_node=node
        )
        with closing(pool):
            yield pool
    finally:
        ray.shutdown()


def _ship_source(ray: Any, name: str) -> SourceFile | None:
    """Return the file of a user-defined problem, for nodes that lack it; classes in it are pickled by value."""
    file = read_source_file(name)
    if file is not None:
        ray.cloudpickle.register_pickle_by_value(load_source(file))
    return file


def _uses_torch(function: Callable[..., Any]) -> bool:
    """Return whether the module of a function imports torch or something of torch."""
    values = getattr(function, "__globals__", {}).values()
    names = (getattr(value, "__module__", None) or getattr(value, "__name__", None) for value in values)
    return any(isinstance(name, str) and name.partition(".")[0] == "torch" for name in names)
