"""What the first run on a GPU uses: cells, learners, images, a clock, and the loop over the jobs of a part.

Part of `gpu_first_run.py`.
"""

import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from training import cells
from training_gpu import noise

from fmnas.search_spaces import Cell, Schedule, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images.batches import streams, to_device
from fmnas.trainers.images.cuda_graph import capture_graph
from fmnas.trainers.images.data import fashion_mnist_set, search_split
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import TrainingContext
from fmnas.trainers.split import Split

TIMED = 0.3
"""About how many seconds the timing of one operation takes."""

ENOUGH = 8.0
"""Seconds that suffice for any job; longer ones end by themselves."""

RATE = 0.01
SCHEDULE = Schedule(RATE, 0.9, 1e-4, 0.5, 0.5, 0.5)

Job = Callable[[], dict[str, Any]]
"""Measures something. "ok": whether it is right."""

Jobs = dict[str, Job]


@dataclass(frozen=True)
class Plan:
    """The device and sizes of a part, and its end.

    seeds: trainings in one program. batch: images of a step. images: of a timed epoch. sizes: of validation batches.
    cells: the largest number of rows of a kind. lengths: images and epochs of full evaluations. processes: at a time;
    epochs: in each, of `images` images; together: the cell that they train. ends: in seconds of `time.monotonic`.
    """

    device: str = "cuda"
    seeds: int = 4
    batch: int = 32
    images: int = 3_200
    sizes: tuple[int, ...] = (250, 1_000, 5_000)
    cells: int = 99
    lengths: tuple[tuple[int, int], ...] = ((2_000, 6), (30_000, 25))
    processes: tuple[int, ...] = (1, 2, 4, 8)
    epochs: int = 3
    together: str = "random 1"
    ends: float = 0.0
    data: Path | None = None

    def until(self, ends: float, data: Path | None) -> "Plan":
        """Return the plan with an end."""
        return replace(self, ends=ends, data=data)

    def seconds_left(self) -> float:
        """Seconds."""
        return self.ends - time.monotonic()

    def split(self, images: int) -> Split:
        """Return that number of images to train on, and the same number to validate on; real ones if `data` is set."""
        return search_split(fashion_mnist_set(self.data), images, images) if self.data else noise(images)


FULL = Plan()
DRY = Plan("cpu", 2, 4, 8, (4,), 1, ((8, 2),), (1,), 2, "identity")


def named_cells() -> dict[str, Cell]:
    """The largest cell and four random ones: those of `training.py`."""
    return cells()


def cells_of_each() -> dict[str, Cell]:
    """For each operation the chain of it, and one cell that has them all. That of conv5x5 is the largest cell."""
    big = largest_cell()
    mixed = replace(big, operations=tuple(zip(OPERATIONS[::2], OPERATIONS[1::2], strict=True)))
    return {name: replace(big, operations=((name, name),) * 4) for name in OPERATIONS} | {"all operations": mixed}


def some(named: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """Return the first ones, up to the plan's number."""
    return dict(list(named.items())[: plan.cells])


def learner_of(
    cell: Cell,
    split: Split,
    plan: Plan,
    capture: bool = True,
    ill: float | None = None,
    kind: type[StackedLearner] = StackedLearner,
) -> StackedLearner:
    """The trainer's learner on the device. ill: what the second training's first weights are."""
    device = torch.device(plan.device)
    draws = [streams(0, number) for number in range(plan.seeds)]
    networks = [build_network(cell, draw.initialisation) for draw in draws]
    if ill is not None:
        networks[1].stem.weight.data.fill_(ill)
    context = TrainingContext(to_device(split, device), plan.batch, min(1_000, len(split.held_out_inputs)))
    learner = kind(Stack(networks, cell, device), SCHEDULE, draws, context)
    if capture and device.type == "cuda":
        learner.capture()
    return learner


def begin_epoch(learner: StackedLearner) -> None:
    """Prepare an epoch."""
    learner._stack.train()
    learner._draw_epoch()
    learner._rate.fill_(RATE)
    learner._position.zero_()


def wait(device: str) -> None:
    """Wait until the device is idle."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()


def answers(device: str) -> bool:
    """Whether the device still works; after some errors it does not until the process ends."""
    try:
        wait(device)
        return bool(torch.ones(8, device=device).sum().item() == 8.0)
    except RuntimeError:
        return False


def median_seconds(run: Callable[[], object], times: int, device: str) -> float:
    """Return the median seconds of one run."""
    seconds = []
    for _ in range(times):
        wait(device)
        start = time.perf_counter()
        run()
        wait(device)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def replayed_seconds(run: Callable[[], object], plan: Plan) -> float:
    """Median seconds of one of many runs in a CUDA graph: what the device takes, without asking it. On a CPU: a run."""
    if torch.device(plan.device).type != "cuda":
        return median_seconds(run, 1, plan.device)
    run()  # where memory runs out, it does so here, and not in a capture
    once = median_seconds(run, 2, plan.device)
    runs = round(min(max(TIMED / once, 5), 400))  # at least 5, whatever they take
    inside = max(1, runs // 10)

    def many() -> list[Any]:
        return [run() for _ in range(inside)]

    replay, seconds = capture_graph(many, run, list[Tensor]()), []
    for _ in range(runs // inside):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        replay()
        last.record()
        last.synchronize()
        seconds.append(first.elapsed_time(last) / 1e3 / inside)
    return statistics.median(seconds)


def run_jobs(part: str, jobs: Jobs, plan: Plan) -> Iterator[dict[str, Any]]:
    """Yield a row for each job while there is time and the device answers; the last row names the skipped jobs."""
    skipped, needed = [], 0.0
    for name, job in jobs.items():
        if plan.seconds_left() <= needed:
            skipped.append(name)
            continue
        begun = plan.seconds_left()
        result = outcome(job)
        needed = max(needed, min(begun - plan.seconds_left(), ENOUGH))  # the next may take as long
        yield {"part": part, "row": name, "result": result}
        if "error" in result and not answers(plan.device):
            yield {"part": part, "row": "device", "result": {"error": f"{plan.device} does not answer any more"}}
            return
    if skipped:
        yield {"part": part, "skipped": skipped}


def outcome(job: Job) -> dict[str, Any]:
    """Return the job's result, or its error."""
    try:
        return job()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500], "at": traceback.format_exc()[-2000:]}
