"""Checks on a GPU: equal results, the state after a failed capture, and whether captures leak memory.

Part of `gpu_first_run.py`. "Equal" is to the bit, where no bound is given.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import torch
from gpu_subjects import (
    RATE,
    SCHEDULE,
    Jobs,
    Plan,
    answers,
    begin_epoch,
    cells_of_each,
    learner_of,
    named_cells,
    some,
)
from torch import Tensor
from training_gpu import noise

from fmnas.search_spaces import Cell
from fmnas.trainers.images.batches import streams, to_device, training_batches
from fmnas.trainers.images.cuda_graph import CaptureError
from fmnas.trainers.images.devices import deterministic_float32
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import TrainingContext, plain_learner, train_step
from fmnas.trainers.split import Split

STEPS = 3
"""Full batches in an epoch of what is compared; then comes a rest of half a batch."""

LOSS_BOUND = 1e-4
"""Between losses of the stacked and of the plain way, over the first steps."""

GRAPH_BOUND = 1e-5
"""Between weights after a graph's steps and after the same operations one by one, of the largest weight."""

LEAK = 1.0
"""Megabytes of the device for each capture, beyond which they are said to leak."""


def equality(plan: Plan) -> Jobs:
    """A job for each operation, and one for each random cell."""
    split = noise(STEPS * plan.batch + plan.batch // 2)
    named = cells_of_each() | {name: cell for name, cell in named_cells().items() if name != "largest"}
    return {name: partial(check_cell, cell, split, plan) for name, cell in some(named, plan).items()}


def check_cell(cell: Cell, split: Split, plan: Plan) -> dict[str, Any]:
    """Compare what must be equal for one cell."""
    with deterministic_float32(torch.device(plan.device)):
        losses = stacked_losses(learner_of(cell, split, plan, capture=False), plan)
        apart = [abs(a - b) for a, b in zip(losses, plain_losses(cell, split, plan), strict=True)]
        step_by_step = train_epochs(learner_of(cell, split, plan, capture=False))
        graph, again = (train_epochs(learner_of(cell, split, plan)) for _ in range(2))
        alone = {f"alone beside {ill:g}": others_alone(graph, cell, split, plan, ill) for ill in (float("nan"), 1e38)}
    scale = float(step_by_step[1].abs().max())
    result: dict[str, Any] = {"losses_apart": max(apart), "each_loss_apart": apart}
    result["graph_apart"] = float((graph[1] - step_by_step[1]).abs().max()) / scale
    result |= {"graph_equal": torch.equal(graph[1], step_by_step[1]), "same_twice": same(graph, again), **alone}
    near = result["losses_apart"] < LOSS_BOUND and result["graph_apart"] <= GRAPH_BOUND
    return {"ok": near and result["same_twice"] and all(alone.values()), **result}


Trained = tuple[list[list[float | None]], Tensor, Tensor]
"""Errors after each epoch, the weights [N], and whose each weight is [N]."""


def train_epochs(learner: StackedLearner, epochs: int = 2) -> Trained:
    """Train for some epochs."""
    errors = [learner.train([RATE]) for _ in range(epochs)]
    return errors, learner._stack.weights.detach().clone(), learner._stack.owner


def same(one: Trained, other: Trained) -> bool:
    """Whether two trainings had the same errors and have the same weights."""
    return one[0] == other[0] and torch.equal(one[1], other[1])


def others_alone(healthy: Trained, cell: Cell, split: Split, plan: Plan, ill: float) -> bool:
    """Whether the second training, which begins with such weights, diverges, and the others are as without it."""
    errors, weights, owner = train_epochs(learner_of(cell, split, plan, ill=ill))
    expected = [[None if number == 1 else error for number, error in enumerate(row)] for row in healthy[0]]
    own = owner == 1
    return errors == expected and torch.equal(weights[~own], healthy[1][~own]) and not bool(weights[own].any())


def stacked_losses(learner: StackedLearner, plan: Plan) -> list[float]:
    """Of the first steps, each training's."""
    begin_epoch(learner)
    return [loss for _ in range(STEPS) for loss in learner.step(plan.batch).tolist()]


def plain_losses(cell: Cell, split: Split, plan: Plan) -> list[float]:
    """The same, by the plain loop on the CPU."""
    context, columns = TrainingContext(to_device(split, torch.device("cpu")), plan.batch, 100), []
    for number in range(plan.seeds):
        draws = streams(0, number)
        one = plain_learner(build_network(cell, draws.initialisation), SCHEDULE, draws, context)
        one._network.train()
        batches = islice(training_batches(context.data, draws, plan.batch), STEPS)
        columns.append([train_step(one._network, one._optimizer, images, labels) for images, labels in batches])
    return [loss for step in zip(*columns, strict=True) for loss in step]


class Asking(StackedLearner):
    """A learner whose step asks the device for a number, which no capture allows."""

    def _update(self, gradient: Tensor, losses: Tensor) -> None:
        losses.sum().item()
        super()._update(gradient, losses)


def failure(plan: Plan) -> Jobs:
    """Jobs that look at the state after a failed capture, in this order.

    Checked is that it raises, and that stream and device still work. Whether memory can be given back and another step
    captured depends on torch's version; a worker does not try, but is replaced.
    """
    split, cell = noise(2 * plan.batch), named_cells()["random 1"]
    on_gpu = torch.device(plan.device).type == "cuda"
    before = torch.cuda.current_stream() if on_gpu else None

    def fails() -> dict[str, Any]:
        try:
            learner_of(cell, split, plan, capture=False, kind=Asking).capture()  # on a CPU, any capture fails
        except CaptureError as error:
            return {"ok": True, "message": str(error)[:300]}
        return {"ok": False, "message": "the capture succeeded"}

    def stream() -> dict[str, Any]:
        return {"ok": not on_gpu or torch.cuda.current_stream() == before}

    def device() -> dict[str, Any]:
        return {"ok": answers(plan.device)}

    def memory() -> dict[str, Any]:
        return try_call(torch.cuda.empty_cache)

    def capture() -> dict[str, Any]:
        return try_call(lambda: learner_of(cell, split, plan).train([RATE]))

    return {
        "a capture that fails": fails,
        "the stream is restored": stream,
        "the device answers": device,
        "memory is released": memory,
        "another capture": capture,
    }


def try_call(attempt: Callable[[], object]) -> dict[str, Any]:
    """Return whether it works, without judging it."""
    try:
        attempt()
    except Exception as error:
        return {"works": "no", "because": f"{type(error).__name__}: {error}"[:300]}
    return {"works": "yes"}


def captures(plan: Plan) -> Jobs:
    """Seconds and megabytes of captures of different cells, three times each."""
    if torch.device(plan.device).type != "cuda":
        return {"memory": lambda: {"skipped": "a CPU captures nothing"}}
    return {"memory": partial(capture_memory, plan)}


def capture_memory(plan: Plan, rounds: int = 3) -> dict[str, Any]:
    """Capture for `rounds` rounds while there is time; memory in use must not grow from the first to the last."""
    split, rows = noise(10 * plan.batch), []
    ends: list[tuple[int, float]] = []  # of each round: captures so far, megabytes
    device = torch.device(plan.device)
    for _ in range(rounds):
        for name, cell in {**named_cells(), **cells_of_each()}.items():
            if len(ends) > 0 and plan.seconds_left() <= 0:
                break
            start = time.perf_counter()
            with deterministic_float32(device):
                learner = learner_of(cell, split, plan)
                captured_after = time.perf_counter() - start
                learner.train([RATE])
                held = torch.cuda.memory_reserved() / 1e6
                del learner
            rows.append([name, captured_after, held, torch.cuda.memory_reserved() / 1e6, device_megabytes()])
        ends.append((len(rows), device_megabytes()))
    between = ends[-1][0] - ends[0][0]
    result: dict[str, Any] = {
        "captures": len(rows),
        "columns": "cell, seconds, MB held, MB held after, MB of the device",
    }
    if between > 0:
        grown = (ends[-1][1] - ends[0][1]) / between
        result = {"ok": grown < LEAK, "grown_mb_per_capture": grown, **result}
    return {**result, "rows": rows}


def device_megabytes() -> float:
    """Return the megabytes in use by all processes."""
    free, total = torch.cuda.mem_get_info()
    return (total - free) / 1e6


PARTS = {"equality": equality, "failure": failure, "captures": captures}
