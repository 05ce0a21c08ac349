"""Checks on a GPU: equal results, the state after a failed capture, and whether captures leak memory.

    python benchmarks/gpu_checks.py equality|failure|captures [--seconds 120] [--json FILE] [--dry]

Part of `gpu_first_run.py`, which starts it. "Equal" is to the bit, where no bound is given. A failed capture may break
the device for its process, so each part is a process. `--dry` runs it on the CPU with tiny sizes.

Exit code 0: all that could be checked is right; 1: something is wrong or broke; 3: no GPU.
"""

import argparse
import faulthandler
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from training import cells
from training_gpu import noise

from fmnas.search_spaces import Cell, Schedule, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers import TrainerError
from fmnas.trainers.images import batches, multi_seed
from fmnas.trainers.images.batches import streams, to_device, training_batches
from fmnas.trainers.images.cuda_graph import CaptureError
from fmnas.trainers.images.devices import deterministic_float32, usable_device
from fmnas.trainers.images.model import MEAN, STANDARD_DEVIATION
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.stacked_convolution import StackedConvolution
from fmnas.trainers.images.training import TrainingContext, plain_learner, train_step
from fmnas.trainers.split import Split

RATE = 0.01
SCHEDULE = Schedule(RATE, 0.9, 1e-4, 0.5, 0.5, 0.5)

STEPS = 3
"""Full batches in an epoch of what is compared; then comes a rest of half a batch."""

LOSS_BOUND = 1e-9
"""Between losses of the stacked and of the plain way over the first steps, in double precision.

In single precision they were up to 0.015 apart on an H200.
"""

PRECISION_BOUND = 1e-5
"""Between single and double precision: losses of the first step, and relative, each convolution and its gradients."""

GRAPH_BOUND = 1e-5
"""Between weights after a graph's steps and after the same operations one by one, of the largest weight."""

LEAK = 1.0
"""Megabytes of the device for each capture, beyond which they are said to leak."""

ROUNDS = 3
"""Captures of each cell."""

NO_DEVICE = 3
"""The exit code without a GPU."""

Jobs = dict[str, Callable[[], dict[str, Any]]]
"""Each measures something. "ok": whether it is right."""


@dataclass(frozen=True)
class Plan:
    """The device, trainings in one program, images of a step, and the largest number of cells."""

    device: str = "cuda"
    seeds: int = 4
    batch: int = 32
    cells: int = 99

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return torch.device(self.device).type == "cuda"


DRY = Plan("cpu", seeds=2, batch=4, cells=1)


def checked_cells() -> dict[str, Cell]:
    """The chain of each operation, a cell that has them all, and random ones. That of conv5x5 is the largest cell."""
    big = largest_cell()
    mixed = replace(big, operations=tuple(zip(OPERATIONS[::2], OPERATIONS[1::2], strict=True)))
    chains = {name: replace(big, operations=((name, name),) * 4) for name in OPERATIONS}
    return {**chains, "all operations": mixed, **{name: cell for name, cell in cells().items() if name != "largest"}}


def learner_of(
    cell: Cell,
    split: Split,
    plan: Plan,
    capture: bool = True,
    ill: float | None = None,
    kind: type[StackedLearner] = StackedLearner,
    dtype: torch.dtype = torch.float32,
) -> StackedLearner:
    """The trainer's learner on the device. ill: what the second training's first weights are."""
    device = torch.device(plan.device)
    draws = [streams(0, number) for number in range(plan.seeds)]
    networks = [build_network(cell, draw.initialisation).to(dtype) for draw in draws]
    if ill is not None:
        networks[1].stem.weight.data.fill_(ill)
    context = TrainingContext(to_device(split, device), plan.batch, min(1_000, len(split.held_out_inputs)))
    learner = kind(Stack(networks, cell, device), SCHEDULE, draws, context)
    if capture and plan.on_gpu:
        learner.capture()
    return learner


def equality(plan: Plan) -> Jobs:
    """A job for the precision, and one for each cell."""
    split = noise(STEPS * plan.batch + plan.batch // 2)
    chosen = islice(checked_cells().items(), plan.cells)
    precision: Jobs = {"precision": partial(check_precision, plan)}
    return precision | {name: partial(check_cell, cell, split, plan) for name, cell in chosen}


def check_precision(plan: Plan) -> dict[str, Any]:
    """Compare convolutions and their gradients in single with those in double precision: whether it is float32."""
    device, apart = torch.device(plan.device), list[float]()
    generator = torch.Generator().manual_seed(0)
    for channels, side, size, groups in product((8, 16, 32), (8, 15, 28), (1, 3, 5), (1, 4)):
        layer = StackedConvolution(plan.seeds * channels, plan.seeds * channels, size, plan.seeds * groups)
        shape = (plan.batch, plan.seeds * channels, side, side)
        images, gradient = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        with deterministic_float32(device):
            single, double = (
                convolve(layer, images, gradient, device, kind) for kind in (torch.float32, torch.float64)
            )
        apart += [float((a.double() - b).norm() / b.norm()) for a, b in zip(single, double, strict=True)]
    return {"ok": max(apart) < PRECISION_BOUND, "apart": max(apart)}


def convolve(
    layer: StackedConvolution, images: Tensor, gradient: Tensor, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, ...]:
    """Return the output of a convolution and the gradients of its images, weight and bias."""
    layer, inputs = layer.to(device, dtype), images.to(device, dtype).requires_grad_()
    output = layer(inputs)
    needed = (inputs, layer.weight, layer.bias)
    return output.detach(), *torch.autograd.grad(output, needed, gradient.to(device, dtype))


def check_cell(cell: Cell, split: Split, plan: Plan) -> dict[str, Any]:
    """Compare what must be equal for one cell."""
    with deterministic_float32(torch.device(plan.device)):
        with double_images():
            double = stacked_losses(learner_of(cell, split, plan, capture=False, dtype=torch.float64), plan)
            apart = [abs(a - b) for a, b in zip(double, plain_losses(cell, split, plan), strict=True)]
        single = stacked_losses(learner_of(cell, split, plan, capture=False), plan, 1)
        imprecise = max(abs(a - b) for a, b in zip(single, double, strict=False))  # of the first step
        step_by_step = train_epochs(learner_of(cell, split, plan, capture=False))
        graph, again = (train_epochs(learner_of(cell, split, plan)) for _ in range(2))
        alone = {f"alone beside {ill:g}": others_alone(graph, cell, split, plan, ill) for ill in (float("nan"), 1e38)}
    scale = float(step_by_step[1].abs().max())
    graph_apart = float((graph[1] - step_by_step[1]).abs().max()) / scale
    same_twice = graph[0] == again[0] and torch.equal(graph[1], again[1])
    near = max(apart) < LOSS_BOUND and imprecise < PRECISION_BOUND and graph_apart <= GRAPH_BOUND
    ok = near and same_twice and all(alone.values())
    distances = {"losses_apart": max(apart), "imprecise": imprecise, "graph_apart": graph_apart}
    return {"ok": ok, **distances, "same_twice": same_twice, **alone}


@contextmanager
def double_images() -> Iterator[None]:
    """Normalise images in double precision. In single, a GPU multiplies by reciprocals, and the last digit differs."""

    def normalise_double(images: Tensor) -> Tensor:
        return ((images.unsqueeze(1).double() / 255) - MEAN) / STANDARD_DEVIATION

    with patch.object(multi_seed, "normalise", normalise_double), patch.object(batches, "normalise", normalise_double):
        yield


Trained = tuple[list[list[float | None]], Tensor, Tensor]
"""Errors after each epoch, the weights [N], and whose each weight is [N]."""


def train_epochs(learner: StackedLearner) -> Trained:
    """Train for two epochs."""
    errors = [learner.train([RATE]) for _ in range(2)]
    return errors, learner._stack.weights.detach().clone(), learner._stack.owner


def others_alone(healthy: Trained, cell: Cell, split: Split, plan: Plan, ill: float) -> bool:
    """Whether the second training, which begins with such weights, diverges, and the others are as without it."""
    errors, weights, owner = train_epochs(learner_of(cell, split, plan, ill=ill))
    expected = [[None if number == 1 else error for number, error in enumerate(row)] for row in healthy[0]]
    own = owner == 1
    return errors == expected and torch.equal(weights[~own], healthy[1][~own]) and not bool(weights[own].any())


def stacked_losses(learner: StackedLearner, plan: Plan, steps: int = STEPS) -> list[float]:
    """Of the first steps, each training's."""
    learner._stack.train()
    learner._draw_epoch()
    learner._rate.fill_(RATE)
    learner._position.zero_()
    return [loss for _ in range(steps) for loss in learner.step(plan.batch).tolist()]


def plain_losses(cell: Cell, split: Split, plan: Plan) -> list[float]:
    """The losses of `stacked_losses` by the plain loop on the CPU, in double precision."""
    context, columns = TrainingContext(to_device(split, torch.device("cpu")), plan.batch, 100), []
    for number in range(plan.seeds):
        draws = streams(0, number)
        one = plain_learner(build_network(cell, draws.initialisation).double(), SCHEDULE, draws, context)
        one._network.train()
        steps = islice(training_batches(context.data, draws, plan.batch), STEPS)
        columns.append([train_step(one._network, one._optimizer, images.double(), labels) for images, labels in steps])
    return [loss for step in zip(*columns, strict=True) for loss in step]


class Asking(StackedLearner):
    """A learner whose step asks the device for a number, which no capture allows."""

    def _update(self, gradient: Tensor, losses: Tensor) -> None:
        losses.sum().item()
        super()._update(gradient, losses)


def failure(plan: Plan) -> Jobs:
    """Jobs that look at the state after a failed capture, in this order.

    Whether another step can be captured depends on torch's version; a worker does not try, but is replaced.
    """
    split, cell = noise(2 * plan.batch), cells()["random 1"]
    before = torch.cuda.current_stream() if plan.on_gpu else None

    def fails() -> dict[str, Any]:
        try:
            learner_of(cell, split, plan, capture=False, kind=Asking).capture()  # on a CPU, any capture fails
        except CaptureError as error:
            return {"ok": True, "message": str(error)[:300]}
        return {"ok": False, "message": "the capture succeeded"}

    def capture() -> dict[str, Any]:
        try:
            learner_of(cell, split, plan).train([RATE])
        except Exception as error:  # it is not judged
            return {"works": "no", "because": f"{type(error).__name__}: {error}"[:300]}
        return {"works": "yes"}

    return {
        "a capture that fails": fails,
        "the stream is restored": lambda: {"ok": not plan.on_gpu or torch.cuda.current_stream() == before},
        "the device answers": lambda: {"ok": answers(plan)},
        "another capture": capture,
    }


def captures(plan: Plan) -> Jobs:
    """Seconds and megabytes of captures of all cells, ROUNDS times each. Memory must not grow after the first round."""
    if not plan.on_gpu:
        return {}
    split, ends = noise(10 * plan.batch), list[float]()
    every = checked_cells()

    def capture_all() -> dict[str, Any]:
        start = time.perf_counter()
        with deterministic_float32(torch.device(plan.device)):
            for cell in every.values():
                learner_of(cell, split, plan).train([RATE])
        free, total = torch.cuda.mem_get_info()
        ends.append((total - free) / 1e6)
        grown = (ends[-1] - ends[0]) / max(1, len(every) * (len(ends) - 1))
        seconds = (time.perf_counter() - start) / len(every)
        return {"ok": grown < LEAK, "grown_mb_per_capture": grown, "device_mb": ends[-1], "seconds": seconds}

    return {f"round {number}": capture_all for number in range(1, ROUNDS + 1)}


def answers(plan: Plan) -> bool:
    """Whether the device still works; after some errors it does not until the process ends."""
    try:
        return bool(torch.ones(8, device=plan.device).sum().item() == 8.0)
    except RuntimeError:
        return False


PARTS = {"equality": equality, "failure": failure, "captures": captures}


def run_job(job: Callable[[], dict[str, Any]], ends: float) -> dict[str, Any]:
    """Return the job's result or its error; without time left, that it was skipped."""
    if time.monotonic() > ends:
        return {"skipped": "no time left"}
    try:
        return job()
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500], "at": traceback.format_exc()[-2000:]}


def format_row(values: dict[str, Any]) -> str:
    """Return a row on one line."""
    shown = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in values.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if name != "at")


def main() -> int:
    """Run a part and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dry", action="store_true", help="on the CPU, with tiny sizes")
    arguments = parser.parse_args()
    plan, ends, rows = DRY if arguments.dry else Plan(), time.monotonic() + arguments.seconds, {}
    faulthandler.dump_traceback_later(arguments.seconds + 2.0, exit=True)  # where it hangs
    try:
        usable_device(plan.device)
    except TrainerError as error:
        print(f"{error}. --dry runs on the CPU", file=sys.stderr)
        return NO_DEVICE
    for name, job in PARTS[arguments.part](plan).items():
        rows[name] = run_job(job, ends)
        print(f"{arguments.part}, {name}: {format_row(rows[name])}", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(rows, indent=1))
        if "error" in rows[name] and not answers(plan):
            print(f"{plan.device} does not answer any more", file=sys.stderr)
            return 1
    return int(any("error" in row or row.get("ok") is False for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
