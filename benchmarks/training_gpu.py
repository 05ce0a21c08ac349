"""How long an evaluation of the joint problem takes on a GPU, alone and when several processes share it.

Part of `training.py`. Needs torch and numpy alone.

- stacked: what the trainer takes on a GPU, a CUDA graph of a step of all seeds. plain: its reference, seed after seed.
- An evaluation has 25 epochs, 4 seeds, 30,000 + 30,000 images, batch 32. It is EXTRAPOLATED: the first epoch (which
  holds building and capturing) + 24 times the median of the next ones. An epoch ends when it is reported.
- It ends by itself when its seconds are over; what it had no time for is named. Each result is written at once, and
  one that fails does not stop the others. plain is timed on few images: it takes some ten times as long. So are
  processes that share the device; what they take until they are built is not part of `evaluation`, `ready` has it.
"""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from queue import Empty
from threading import BrokenBarrierError
from typing import Any

import numpy as np
import torch

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.search_spaces.nasnet import pair_name
from fmnas.trainers import EvaluationStoppedError, Stop
from fmnas.trainers.contract import never_stop
from fmnas.trainers.images.batches import streams, to_device
from fmnas.trainers.images.devices import deterministic_float32
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.images.training import TrainingContext
from fmnas.trainers.problem import Arrangement
from fmnas.trainers.split import Split

EPOCHS, SEEDS, BATCH, IMAGES = 25, 4, 32, 30_000
PARTS = ("sharing", "alone")


@dataclass(frozen=True)
class Plan:
    """What is measured: on which device, with how many images, epochs per timing, and processes at a time.

    plain_images: for the plain way. shared_images: for processes that share. seconds: for all of it.
    """

    device: str = "cuda"
    images: int = IMAGES
    plain_images: int = 3_200
    shared_images: int = 7_500
    epochs: int = 4
    processes: tuple[int, ...] = (1, 2, 4, 8)
    seconds: float = 540.0


def noise(train: int, validation: int | None = None) -> Split:
    """Images of noise, by default the same number for both parts: times do not depend on what they show."""
    rng = np.random.default_rng(0)
    parts: list[Any] = []
    for n in (train, train if validation is None else validation):
        parts += [rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), rng.integers(0, 10, n, dtype=np.uint8)]
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


def epoch_seconds(chosen: ImageTrainer, cell: Cell, epochs: int, stop: Stop = never_stop) -> list[float]:
    """Seconds of each epoch of the first seed; of a stack, they are those of all. Fewer epochs when it is stopped.

    Raises TimeoutError when it is stopped before the second has ended.
    """
    ends = [time.perf_counter()]

    def report(number: int, epoch: int, error: float) -> None:
        if number == 0:
            ends.append(time.perf_counter())

    try:
        if chosen.evaluate(trial(cell, epochs), report, stop).diverged:
            print("  note: a training diverged and ended early, so the time is too short")
    except EvaluationStoppedError:
        if len(ends) < 3:
            raise TimeoutError(f"there was no time for two epochs, but for {len(ends) - 1}") from None
    return [b - a for a, b in pairwise(ends)]


def whole(seconds: list[float], images: int) -> float:
    """Seconds of a full evaluation, extrapolated from epochs of this many images."""
    later = statistics.median(seconds[1:])
    start = max(0.0, seconds[0] - later)
    return start + EPOCHS * later * IMAGES / images


def first_step(plan: Plan, split: Split, cell: Cell) -> float:
    """Seconds from built data to the end of the first step, building and capturing included."""
    device, begin = torch.device(plan.device), time.perf_counter()
    with deterministic_float32(device):
        draws = [streams(0, number) for number in range(SEEDS)]
        networks = [build_network(cell, draw.initialisation) for draw in draws]
        context = TrainingContext(to_device(split, device), BATCH, 1000)
        learner = StackedLearner(Stack(networks, cell, device), Schedule(0.01, 0.9, 0, 0.5, 0.5, 0.5), draws, context)
        if device.type == "cuda":
            learner.capture()
        learner.step(BATCH).tolist()
    return time.perf_counter() - begin


def process(
    plan: Plan, cell: Cell, begun: float, ends: float, barrier: Barrier, queue: "Queue[dict[str, Any]]"
) -> None:
    """One of several that share the device: what it measured, or how it failed; then the others wait for it no more.

    begun, ends: by `time.time`, which all processes have in common.
    """
    try:
        queue.put(measure_one(plan, cell, begun, ends, barrier))
    except Exception as error:
        barrier.abort()
        queue.put({"error": f"{type(error).__name__}: {error}"[:300], "aborted": isinstance(error, BrokenBarrierError)})


def measure_one(plan: Plan, cell: Cell, begun: float, ends: float, barrier: Barrier) -> dict[str, Any]:
    """What one of several processes measures."""
    split = noise(plan.shared_images)
    chosen = trainer(plan, split)
    ready = time.time() - begun
    first = first_step(plan, split, cell)
    barrier.wait(ends - time.time())
    seconds = epoch_seconds(chosen, cell, plan.epochs, lambda: time.time() > ends)
    barrier.wait(max(ends - time.time(), 1.0))  # everyone still holds its memory
    row = {"evaluation": whole(seconds, plan.shared_images), "ready": ready, "first_step": first}
    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        row |= {"reserved_mb": torch.cuda.max_memory_reserved() / 1e6, "device_mb": (total - free) / 1e6}
    barrier.wait(max(ends - time.time(), 1.0))
    return row


def share(plan: Plan, cell: Cell, count: int, seconds: float) -> dict[str, Any]:
    """Several processes with evaluations of the cell at once: evaluations per minute, and means over the processes.

    seconds: the limit, after which processes are killed. "error": why it failed, if it did.
    """
    context, ends = multiprocessing.get_context("spawn"), time.time() + seconds
    barrier, queue = context.Barrier(count), context.Queue()
    arguments = (plan, cell, time.time(), ends - min(5.0, seconds / 4), barrier, queue)
    members = [context.Process(target=process, args=arguments, daemon=True) for _ in range(count)]
    rows: list[dict[str, Any]] = []
    try:
        for member in members:
            member.start()
        while len(rows) < count and time.time() < ends:
            try:
                rows.append(queue.get(timeout=0.2))
            except Empty:
                if any(member.exitcode for member in members):  # killed, as for memory: it says nothing any more
                    barrier.abort()
                    ends = min(ends, time.time() + 5.0)
        codes = [member.exitcode for member in members]  # of those that ended by themselves
    finally:
        for member in members:
            if member.pid is not None:
                member.join(5 if len(rows) == count else 0)
            if member.is_alive():
                member.kill()
                member.join(5)
    return summary(rows, codes, seconds)


def summary(rows: list[dict[str, Any]], codes: list[int | None], seconds: float) -> dict[str, Any]:
    """Of what processes measured; of several failures, the one that came first."""
    errors = sorted((row for row in rows if "error" in row), key=lambda row: row["aborted"])
    if any(codes) and (not errors or errors[0]["aborted"]):
        return {"error": f"of {len(codes)} processes, some ended with codes {[code for code in codes if code]}"}
    if errors:
        return {"error": errors[0]["error"]}
    if len(rows) < len(codes):
        return {"error": f"only {len(rows)} of {len(codes)} processes were done after {seconds:.0f} s"}
    means = {key: statistics.fmean(row[key] for row in rows) for key in rows[0]}
    return {**means, "evaluations_per_minute": sum(60 / row["evaluation"] for row in rows)}


def alone(cell: Cell, plan: Plan, stop: Stop) -> dict[str, float]:
    """The cell's evaluation with the device to itself, stacked and plain."""
    stacked = whole(epoch_seconds(trainer(plan, noise(plan.images)), cell, plan.epochs, stop), plan.images)
    one_seed = epoch_seconds(trainer(plan, noise(plan.plain_images), "plain", seeds=1), cell, 2, stop)
    plain = SEEDS * whole(one_seed, plan.plain_images)
    return {"stacked": stacked, "plain": plain, "speedup": plain / stacked}


def measure_gpu(
    cells: dict[str, Cell], plan: Plan, keep: Callable[[dict[str, Any]], object], parts: Collection[str] = PARTS
) -> dict[str, Any]:
    """Measure the named parts and print; the numbers. keep: given all of them so far, whenever one is new."""
    ends = time.monotonic() + plan.seconds
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else plan.device
    images = {"alone": plan.images, "sharing": plan.shared_images}
    sizes = ", ".join(f"{part}: of {images[part]} images" for part in PARTS if part in parts)
    print(f"{name}: seconds of a full evaluation, extrapolated from {plan.epochs} epochs ({sizes})")
    result: dict[str, Any] = {"device": name, "alone": {}, "shared": {}, "left_out": []}

    def stop() -> bool:
        return time.monotonic() >= ends

    def together(count: int) -> dict[str, Any]:
        return share(plan, cells[shared], count, ends - time.monotonic())

    def add(place: dict[Any, Any], key: Any, what: str, job: Callable[[], Any]) -> None:
        if stop():
            result["left_out"].append(what)
            print(f"  {what}: no time left")
        else:
            try:
                place[key] = job()
            except Exception as error:
                place[key] = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(f"  {what}: {format_numbers(place[key])}", flush=True)
        keep(result)

    shared = "random 1"
    for label, cell in cells.items() if "alone" in parts else ():
        add(result["alone"], label, label, partial(alone, cell, plan, stop))
    for count in plan.processes if "sharing" in parts else ():
        what = f"{count} processes that share the device, evaluations of {shared}"
        add(result["shared"], count, what, partial(together, count))
    return result


def format_numbers(values: dict[str, Any]) -> str:
    """Numbers on one line."""
    return ", ".join(
        f"{key} {value:.2f}" if isinstance(value, float) else f"{key} {value}" for key, value in values.items()
    )
