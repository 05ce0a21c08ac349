"""How long an evaluation of the joint problem takes on a GPU, alone and when several processes share it.

Part of `training.py`. Needs torch and numpy alone.

- stacked: what the trainer takes on a GPU, a CUDA graph of a step of all seeds. plain: its reference, seed after seed.
- An evaluation has 25 epochs, 4 seeds, 30,000 + 30,000 images, batch 32. With `--real`, that of the largest cell is
  MEASURED at this length; everything else is EXTRAPOLATED: the first epoch (which holds building and capturing) + 24
  times the median of the next ones. An epoch ends when it is reported.
- Floors: a training image takes 3 times the multiplications of a forward pass, a validation image 1; at the device's
  float32 rate. Layers that do not fuse move some 13 TB for the largest cell; at its bandwidth. Shares are given for
  devices whose rates are known here.
"""

import multiprocessing
import statistics
import time
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
import torch

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.search_spaces.cell import pair_name
from fmnas.trainers import ImageTrainer, Split, TrainingSettings, build_network, count_flops
from fmnas.trainers.arrangement import Arrangement
from fmnas.trainers.devices import exactly
from fmnas.trainers.stacked_network import Stack
from fmnas.trainers.stacked_training import StackedLearner
from fmnas.trainers.training import Surroundings, streams, to_device

EPOCHS, SEEDS, BATCH, IMAGES = 25, 4, 32, 30_000
BYTES_OF_LARGEST = 13e12
RATES = {"H200": (67e12, 4.8e12), "H100": (67e12, 3.35e12), "A100": (19.5e12, 2.0e12)}
"""A part of the device's name -> float32 operations and bytes per second, by its maker."""


@dataclass(frozen=True)
class Plan:
    """What is measured: on which device, with how many images, epochs per timing, and processes at a time."""

    device: str = "cuda"
    images: int = IMAGES
    epochs: int = 4
    processes: tuple[int, ...] = (1, 2, 4, 8)
    real: bool = False


def noise(images: int) -> Split:
    """Images of noise: the time does not depend on what they show."""
    rng = np.random.default_rng(0)
    parts: list[Any] = []
    for _ in range(2):
        parts += [rng.integers(0, 256, (images, 28, 28), dtype=np.uint8), rng.integers(0, 10, images, dtype=np.uint8)]
    return Split(*parts, name="noise", place="memory")


def trial(cell: Cell, epochs: int) -> Trial:
    """The cell with a mild schedule."""
    names = [name for pair in cell.operations for name in pair]
    configuration: dict[str, Any] = {f"op{i}": name for i, name in enumerate(names, start=1)}
    configuration |= {f"in{state}": pair_name(cell.inputs[state - 1]) for state in (2, 3, 4)}
    configuration |= {"output": cell.output, "learning_rate": 0.001, "momentum": 0.9, "weight_decay": 1e-4}
    configuration |= {"lr_reduction": 0.5, "reduction_point_1": 0.5, "reduction_point_2": 0.5}
    return Trial(0, configuration, epochs, "random")


def trainer(plan: Plan, split: Split, arrangement: Arrangement = "stacked", seeds: int = SEEDS) -> ImageTrainer:
    """A trainer on the device."""
    return ImageTrainer(split, TrainingSettings(seeds, BATCH, device=plan.device, arrangement=arrangement))


def epoch_seconds(chosen: ImageTrainer, cell: Cell, epochs: int) -> list[float]:
    """Seconds of each epoch of the first seed; of a stack, they are those of all."""
    ends = [time.perf_counter()]

    def report(number: int, epoch: int, error: float) -> None:
        if number == 0:
            ends.append(time.perf_counter())

    if chosen.evaluate(trial(cell, epochs), report).diverged:
        print("  note: a training diverged and ended early, so the time is too short")
    return [b - a for a, b in pairwise(ends)]


def whole(seconds: list[float], images: int) -> float:
    """Seconds of a full evaluation, extrapolated from epochs of this many images."""
    later = statistics.median(seconds[1:])
    start = max(0.0, seconds[0] - later)
    return start + EPOCHS * later * IMAGES / images


def floors(cell: Cell, largest: bool, name: str) -> dict[str, float]:
    """Seconds that the multiplications, and for the largest cell the bytes, take at the device's rates."""
    for part, (operations, width) in RATES.items():
        if part in name:
            counted = count_flops(cell) * IMAGES * EPOCHS * SEEDS * (3 + 1)
            return {"compute": counted / operations, **({"memory": BYTES_OF_LARGEST / width} if largest else {})}
    return {}


def first_step(plan: Plan, split: Split, cell: Cell) -> float:
    """Seconds from built data to the end of the first step, building and capturing included."""
    device, begin = torch.device(plan.device), time.perf_counter()
    with exactly(device):
        draws = [streams(0, number) for number in range(SEEDS)]
        networks = [build_network(cell, each.initialisation) for each in draws]
        around = Surroundings(to_device(split, device), BATCH, 1000)
        learner = StackedLearner(Stack(networks, cell, device), Schedule(0.01, 0.9, 0, 0.5, 0.5, 0.5), draws, around)
        if device.type == "cuda":
            learner.capture()
        learner.step(BATCH).tolist()
    return time.perf_counter() - begin


def process(plan: Plan, cell: Cell, begun: float, barrier: Barrier, found: "Queue[dict[str, float]]") -> None:
    """One of several that share the device: what it measured."""
    split = noise(plan.images)
    chosen = trainer(plan, split)
    ready = time.time() - begun
    first = first_step(plan, split, cell)
    barrier.wait()
    seconds = epoch_seconds(chosen, cell, plan.epochs)
    barrier.wait()  # everyone still holds its memory
    row = {"evaluation": whole(seconds, plan.images), "ready": ready, "first_step": first}
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        row |= {"reserved_mb": torch.cuda.max_memory_reserved() / 1e6, "device_mb": (total - free) / 1e6}
    barrier.wait()
    found.put(row)


def share(plan: Plan, cell: Cell, count: int) -> dict[str, float]:
    """Several processes with evaluations of the cell at once: evaluations per minute, and means over the processes."""
    context = multiprocessing.get_context("spawn")
    barrier, found = context.Barrier(count), context.Queue()
    members = [
        context.Process(target=process, args=(plan, cell, time.time(), barrier, found), daemon=True)
        for _ in range(count)
    ]
    for member in members:
        member.start()
    rows = [found.get(timeout=900) for _ in members]
    for member in members:
        member.join()
    means = {key: statistics.fmean(row[key] for row in rows) for key in rows[0]}
    return {**means, "evaluations_per_minute": sum(60 / row["evaluation"] for row in rows)}


def measure_gpu(cells: dict[str, Cell], plan: Plan) -> dict[str, Any]:
    """Measure and print; the numbers."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else plan.device
    print(f"{name}: seconds of a full evaluation, extrapolated from {plan.epochs} epochs of {plan.images} images")
    split, alone = noise(plan.images), {}
    for label, cell in cells.items():
        stacked = whole(epoch_seconds(trainer(plan, split), cell, plan.epochs), plan.images)
        one_seed = epoch_seconds(trainer(plan, split, "plain", seeds=1), cell, 2)
        plain = SEEDS * whole(one_seed, plan.images)
        row = {"stacked": stacked, "plain": plain, "speedup": plain / stacked}
        row |= {f"share_of_{kind}": s / stacked for kind, s in floors(cell, label == "largest", name).items()}
        alone[label] = row
        print(f"  {label:<9} " + ", ".join(f"{key} {value:.2f}" for key, value in row.items()), flush=True)
    result: dict[str, Any] = {"device": name, "alone": alone, "shared": {}}
    if plan.real:
        seconds = sum(epoch_seconds(trainer(plan, noise(IMAGES)), cells["largest"], EPOCHS))
        result["largest_measured"] = seconds
        print(f"  largest, MEASURED at full length: {seconds:.1f} s")
    label = "random 1"
    print(f"  processes that share the device, evaluations of {label}")
    for count in plan.processes:
        row = result["shared"][count] = share(plan, cells[label], count)
        print(f"  {count}: " + ", ".join(f"{key} {value:.2f}" for key, value in row.items()), flush=True)
    return result
