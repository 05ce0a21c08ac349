"""How long an evaluation of the joint problem takes, beside a training loop as people write it.

    python benchmarks/training.py [--quick] [--json FILE] [--threads K] [--part cpu|gpu|alone|sharing|all] [--seconds S]

gpu: both alone and sharing. Five cells: the largest, and four random ones (`joint_space`, generator 0). Three loops for
four seeds:

- ordinary: the same network in torch's own arrangement, a DataLoader with 2 workers, torchvision's RandomCrop and flip
  on PIL images, torch.optim.SGD, one seed after another, torch's own number of threads.
  Without torchvision it is left out, and with it the speedup.
- plain: the trainer's reference, one seed after another (one is timed). fast: what the trainer chooses on CPUs.

The trainer's loops run as in a worker process, whose allocator keeps freed memory; the ordinary one runs in another
process, with the default allocator.

Steps and validation are timed for each loop in turn, several rounds, medians. The seconds of a full evaluation (30,000
+ 30,000 images, batch 32, 25 epochs, 4 seeds) are EXTRAPOLATED: 4 x 25 x (938 steps + 30,000 validation images).
Data are noise of FashionMNIST's size per image: the time does not depend on what they show.

On a machine with a GPU, see `training_gpu.py` for what is measured there. torch and numpy suffice.
"""

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from training_gpu import PARTS, Plan, measure_gpu, noise

from fmnas.search_spaces import Cell, Schedule, joint_space, largest_cell
from fmnas.trainers.images.batches import Streams, streams, to_device
from fmnas.trainers.images.cpu_fast import fast_learner
from fmnas.trainers.images.devices import evaluation_batch
from fmnas.trainers.images.model import MEAN, STANDARD_DEVIATION, Network
from fmnas.trainers.images.network import build_network, flops_ratio
from fmnas.trainers.images.training import Learner, TrainingContext, build_optimizer, plain_learner
from fmnas.trainers.memory import tune_malloc
from fmnas.trainers.split import Split

IMAGES, EPOCHS, SEEDS, BATCH = 30_000, 25, 4, 32
STEPS = -(-IMAGES // BATCH)
ORDINARY_BATCH = 250  # validation images at once in the ordinary loop
SCHEDULE = Schedule(0.01, 0.9, 1e-4, 0.5, 0.5, 0.5)


Make = Callable[[Network, Schedule, Streams, TrainingContext], Learner]


def cells() -> dict[str, Cell]:
    """The five cells."""
    rng, space = np.random.default_rng(0), joint_space()
    return {"largest": largest_cell()} | {
        f"random {i}": Cell.from_configuration(space.sample(rng)) for i in range(1, 5)
    }


def import_torchvision() -> Any:
    """torchvision, also if its compiled operators do not match the installed torch: this benchmark does not use them.

    The wheel on PyPI is built for CUDA; with a CPU-only torch its import fails with "operator torchvision::nms does not
    exist". Its Python part can be imported once these schemas exist.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for name in ("torchvision::nms", "torchvision::qnms"):
            torch.library.define(name, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


class PilImages(torch.utils.data.Dataset[tuple[Tensor, int]]):
    """Images as torchvision's data sets give them: PIL, then transforms."""

    def __init__(self, images: Any, labels: Any, augment: bool) -> None:
        transforms = import_torchvision().transforms
        steps = [transforms.RandomCrop(28, padding=4), transforms.RandomHorizontalFlip()] if augment else []
        steps += [transforms.ToTensor(), transforms.Normalize((MEAN,), (STANDARD_DEVIATION,))]
        self.images, self.labels, self.transform = images, labels, transforms.Compose(steps)

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        return self.transform(Image.fromarray(self.images[index])), int(self.labels[index])


class Ordinary:
    """The loop as people write it, for one seed."""

    def __init__(self, cell: Cell, split: Split, seed: int) -> None:
        self.network: nn.Module = build_network(cell, torch.Generator().manual_seed(seed))
        self.optimizer = build_optimizer(self.network, SCHEDULE)
        train = PilImages(split.train_inputs, split.train_labels, True)
        validation = PilImages(split.held_out_inputs, split.held_out_labels, False)
        # A process that was spawned would spawn in its turn; on Linux, loaders fork by default.
        load = partial(torch.utils.data.DataLoader, num_workers=2, multiprocessing_context="fork")
        self.train_loader = load(train, BATCH, shuffle=True)
        self.validation_loader = load(validation, ORDINARY_BATCH)

    def train(self) -> Iterator[None]:
        """An epoch, a step at a time."""
        self.network.train()
        for images, labels in self.train_loader:
            self.optimizer.zero_grad()
            loss = functional.cross_entropy(self.network(images), labels)
            loss.backward()
            self.optimizer.step()
            if not np.isfinite(loss.item()):
                raise SystemExit("the ordinary loop diverged")
            yield

    def validate(self) -> Iterator[None]:
        """The validation error, a batch at a time."""
        self.network.eval()
        wrong = 0
        for images, labels in self.validation_loader:
            with torch.no_grad():
                wrong += int((self.network(images).argmax(1) != labels).sum())
            yield


def time_ordinary(cell: Cell, split: Split, threads: int) -> tuple[float, float]:
    """Seconds per step and per validation image of one seed, once the loader's processes are at work."""
    torch.set_num_threads(threads)
    loop, seconds = Ordinary(cell, split, 0), []
    for pieces in (loop.train(), loop.validate()):
        next(pieces)
        start = time.perf_counter()
        count = sum(1 for _ in pieces)
        seconds.append((time.perf_counter() - start) / count)
    return seconds[0], seconds[1] / ORDINARY_BATCH


def time_learners(make: Make, cell: Cell, split: Split, threads: int, seeds: int) -> tuple[float, float]:
    """Seconds per step and per validation image, of one seed: those of all seeds, side by side, over their number."""
    cpu = torch.device("cpu")
    context = TrainingContext(to_device(split, cpu), BATCH, evaluation_batch(cpu))
    learners = []
    for number in range(seeds):
        draws = streams(0, number)
        learners.append(make(build_network(cell, draws.initialisation), SCHEDULE, draws, context))
    workers = min(threads, seeds)
    seconds = []
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,)) as pool:
        list(pool.map(lambda learner: learner.validation_error(), learners))  # first use is slower
        for work in (lambda learner: learner.train_epoch(0.01), lambda learner: learner.validation_error()):
            start = time.perf_counter()
            list(pool.map(work, learners))
            seconds.append((time.perf_counter() - start) / seeds)
    return seconds[0] * BATCH / len(split.train_inputs), seconds[1] / len(split.held_out_inputs)


def full_evaluation(step: float, validation_image: float) -> float:
    """Seconds of a full evaluation, extrapolated."""
    return SEEDS * EPOCHS * (STEPS * step + IMAGES * validation_image)


def has_torchvision() -> bool:
    """Whether the ordinary loop can run."""
    try:
        import_torchvision()
    except ImportError:
        return False
    return True


def measure(
    cell: Cell, split: Split, threads: int, rounds: int, executor: Executor | None
) -> dict[str, dict[str, float]]:
    """Medians over the rounds, for each loop: seconds per step, per validation image, and of a full evaluation.

    executor: the process of the ordinary loop; without one it is left out.
    """
    loops: dict[str, Callable[[], tuple[float, float]]] = {}
    if executor:
        loops["ordinary"] = lambda: executor.submit(time_ordinary, cell, split, threads).result()
    loops |= {
        "plain": lambda: time_learners(plain_learner, cell, split, threads, 1),
        "fast": lambda: time_learners(fast_learner, cell, split, threads, SEEDS),
    }
    results: dict[str, list[tuple[float, float]]] = {name: [] for name in loops}
    for _ in range(rounds):
        for name, loop in loops.items():
            results[name].append(loop())
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in results.items()
    }
    return {
        name: {"step": step, "validation_image": image, "evaluation": full_evaluation(step, image)}
        for name, (step, image) in medians.items()
    }


def cpu_table(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the five cells on CPUs and print their table; all numbers."""
    steps, validation, rounds = (12, 1000, 1) if arguments.quick else (40, 2000, 3)
    split, table, threads = noise(steps * BATCH, validation), {}, arguments.threads
    beside = has_torchvision()
    if not beside:
        print("torchvision is not installed: the ordinary loop is left out, and with it the speedup")
    print(f"{threads} threads, torch {torch.__version__}; load of the machine before: {os.getloadavg()[0]:.1f}")
    print("ms per step and seed, ms per validation image and seed; evaluations per hour are extrapolated from them")
    titles = (["ordinary"] if beside else []) + ["plain", "fast"]
    print(f"{'cell':<9} {'FLOPs':>6} | {' '.join(f'{title:>15}' for title in titles)} | {'eval./h':>7} {'speedup':>7}")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        for name, cell in cells().items():
            row = measure(cell, split, threads, rounds, executor if beside else None)
            speedup = row["ordinary"]["evaluation"] / row["fast"]["evaluation"] if beside else None
            table[name] = {**row, "speedup": speedup, "flops_ratio": flops_ratio(cell)}
            times = " ".join(f"{1e3 * one['step']:>9.2f} {1e3 * one['validation_image']:>5.2f}" for one in row.values())
            rate, shown = 3600 / row["fast"]["evaluation"], "-" if speedup is None else f"{speedup:.2f}"
            print(f"{name:<9} {flops_ratio(cell):>6.3f} | {times} | {rate:>7.3f} {shown:>7}", flush=True)
    results: dict[str, Any] = {"threads": threads, "cells": table}
    speedups = [row["speedup"] for row in table.values() if row["speedup"] is not None]
    if speedups:
        mean, least = statistics.geometric_mean(speedups), min(speedups)
        print(f"speedup of fast over ordinary, full evaluation: geometric mean {mean:.2f}, least {least:.2f}")
        results |= {"speedup_geometric_mean": mean, "speedup_least": least}
    return results


def main() -> None:
    """Measure and print."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")  # e.g. that a graph failed
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round of few steps")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", choices=("cpu", "gpu", *PARTS, "all"), default="all")
    parser.add_argument("--seconds", type=float, default=540.0, help="on a GPU: for all of it; FILE has each finding")
    arguments = parser.parse_args()
    tune_malloc()
    results: dict[str, Any] = cpu_table(arguments) if arguments.part in ("cpu", "all") else {}
    results["gpu"] = None

    def keep(gpu: dict[str, Any] | None) -> None:
        results["gpu"] = gpu
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=2))

    if arguments.part != "cpu" and not torch.cuda.is_available():
        print("no GPU here: nothing was measured on one")
    elif arguments.part != "cpu":
        quick = Plan(images=3_200, shared_images=3_200, epochs=3, processes=(1, 2)) if arguments.quick else Plan()
        plan = replace(quick, seconds=arguments.seconds)
        keep(measure_gpu(cells(), plan, keep, {arguments.part}.intersection(PARTS) or PARTS))
    keep(results["gpu"])


if __name__ == "__main__":
    main()
