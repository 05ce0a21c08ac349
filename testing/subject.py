"""The optimizer under test, the spaces that it is tested on, and ways to run it."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fmnas.optimizers.optimizer import Optimizer
from fmnas.search_spaces import (
    Evaluation,
    Graph,
    Integer,
    LinearConstraint,
    Nominal,
    Ordinal,
    QuadraticConstraint,
    Real,
    Space,
    Trial,
)
from fmnas.search_spaces.records import SUGGESTED

EPOCHS = 9
"""Of a full training."""
DESIGN, DESIGN_SEED = 3, 99
"""Number of points of the initial design, and their seed."""
MOST_PENDING = 4

SPACES = {
    "continuous": Space([Real("x", 0.0, 1.0), Real("z", -5.0, 5.0)]),
    "discrete": Space([Nominal("op", list("abcdef")), Integer("k", 0, 9), Ordinal("width", [8, 16, 32, 64])]),
    "mixed": Space(
        [
            Real("x", 0.0, 1.0),
            Nominal("op", ["a", "b", "c"]),
            Real("rate", 1e-3, 1e-1, log=True),
            Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u"))),
        ]
    ),
}
CONSTRAINED = {
    "constrained cardinality": Space(
        [Integer(f"b{i}", 0, 1) for i in range(8)], [LinearConstraint({f"b{i}": 1 for i in range(8)}, 2)]
    ),
    "constrained mixed": Space(
        [Real("x", 0.0, 1.0), Ordinal("width", [1, 2, 4, 8]), Integer("depth", 1, 5), Nominal("op", ["a", "b"])],
        [
            QuadraticConstraint({}, {("width", "depth"): 1}, 8),
            LinearConstraint({"x": 1, "depth": 0.1}, 0.9),
        ],
    ),
}
"""Feasible are 37 of 256 configurations; and 12 of 20 pairs (width, depth), with smaller x for larger depth."""


def require(condition: Any, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds, also under `python -O`."""
    if not condition:
        raise AssertionError(message)


@dataclass(frozen=True)
class Subject:
    """The optimizer under test.

    build: builds it for a space and a seed, with EPOCHS and, if it takes one, the initial design. To be tested in
    another process it must be picklable. takes_design: whether it starts from the initial design. origins: the allowed
    origins of its trials. fidelities: the epochs of its first trials; None allows any. parallel: whether it suggests a
    trial while others are pending; None finds out.
    """

    build: Callable[[Space, int], Optimizer]
    takes_design: bool = True
    origins: frozenset[str] = frozenset(SUGGESTED)
    fidelities: frozenset[int] | None = None
    parallel: bool | None = None

    @cached_property
    def is_parallel(self) -> bool:
        """Whether it suggests a trial while another one is pending."""
        if self.parallel is not None:
            return self.parallel
        try:
            optimizer = self.build(SPACES["continuous"], 0)
            run_sequentially(optimizer, DESIGN + 1)
            ask(optimizer)
            return optimizer.ask() is not None
        except Exception:  # the first test reports it
            return True


def ask(optimizer: Optimizer) -> Trial:
    """The next trial. Raises AssertionError without one."""
    trial = optimizer.ask()
    if trial is None:
        raise AssertionError(f"ask() returned None with {len(optimizer.pending)} pending trial(s)")
    return trial


def toy_objective(space: Space, trial: Trial) -> float:
    """A paraboloid in the encoded space, lower for longer training."""
    return float(((space.encode(trial.configuration) - 0.37) ** 2).sum()) + 0.1 / trial.epochs


def run_sequentially(optimizer: Optimizer, count: int) -> list[Trial]:
    """Ask and tell in turn; returns the trials."""
    trials = []
    for _ in range(count):
        trials.append(ask(optimizer))
        optimizer.tell(trials[-1], toy_objective(optimizer.space, trials[-1]))
    return trials


def ask_several(optimizer: Optimizer, count: int, subject: Subject) -> list[Trial]:
    """The next trials, all of them pending; of a sequential optimizer only the last one."""
    trials = [ask(optimizer)]
    for _ in range(count - 1):
        if not subject.is_parallel:
            optimizer.tell(trials[-1], toy_objective(optimizer.space, trials[-1]))
        trials.append(ask(optimizer))
    return trials


Event = tuple[Trial, float | None]
"""A trial and the objective of its result; None: it was asked."""


def run_randomly(optimizer: Optimizer, events: int, seed: int, subject: Subject) -> list[Event]:
    """Ask and tell in a random order, with up to MOST_PENDING trials pending; returns the events."""
    rng, happened = np.random.default_rng(seed), list[Event]()
    for _ in range(events):
        pending = list(optimizer.pending.values())
        most = MOST_PENDING if subject.is_parallel else 1
        if not pending or (len(pending) < most and rng.random() < 0.6):
            happened.append((ask(optimizer), None))
        else:
            trial = pending[int(rng.integers(len(pending)))]
            happened.append((trial, toy_objective(optimizer.space, trial)))
            optimizer.tell(trial, toy_objective(optimizer.space, trial))
    return happened


def restore(optimizer: Optimizer, events: Sequence[Event]) -> Optimizer:
    """Bring a new optimizer to the end of the events, through JSON, with `restore` in place of `ask`."""
    for trial, objective in events:
        copy = Trial.from_dict(json.loads(json.dumps(trial.to_dict())))
        if objective is None:
            optimizer.restore(copy)
        else:
            evaluation = Evaluation(objective, epochs=trial.epochs)
            optimizer.tell(copy, Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))))
    return optimizer


def require_equal(first: Sequence[Any], second: Sequence[Any], message: str) -> None:
    """Raise AssertionError with the first difference of two sequences."""
    for i, (one, other) in enumerate(zip(first, second, strict=False)):
        require(one == other, f"{message}: number {i} is {format_event(one)}, and then {format_event(other)}")
    require(len(first) == len(second), f"{message}: there are {len(first)}, and then {len(second)}")


def format_event(event: Any) -> str:
    """A trial, or an event, in one line."""
    if isinstance(event, tuple) and len(event) == 2 and isinstance(event[0], Trial):
        return f"{format_event(event[0])} {'asked' if event[1] is None else f'result {event[1]!r}'}"
    if isinstance(event, Trial):
        return f"trial {event.id} {event.configuration} ({event.origin}, {event.epochs} epochs)"
    return repr(event)
