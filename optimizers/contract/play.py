"""What the rules play with: small spaces, an objective, and optimizers asked and told in all sorts of order."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
"""The initial design: how many points, and whose."""
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
    "cardinality": Space(
        [Integer(f"b{i}", 0, 1) for i in range(8)], [LinearConstraint({f"b{i}": 1 for i in range(8)}, 2)]
    ),
    "mixed": Space(
        [Real("x", 0.0, 1.0), Ordinal("width", [1, 2, 4, 8]), Integer("depth", 1, 5), Nominal("op", ["a", "b"])],
        [
            QuadraticConstraint({}, {("width", "depth"): 1}, 8),
            LinearConstraint({"x": 1, "depth": 0.1}, 0.9),
        ],
    ),
}
"""37 of 256 configurations are feasible; 11 of 20 pairs (width, depth), with less of x the deeper."""


class BrokenRuleError(AssertionError):
    """A rule does not hold: what was expected, and what came instead."""


@dataclass(frozen=True)
class Subject:
    """An optimizer to be examined.

    build: builds it at its beginning for a space and a seed, with EPOCHS and, if it takes one, the initial design.
    takes_design: whether it begins with that.
    origins: where its trials may come from. fidelities: the epochs that its first trials have, None if any will do.
    parallel: whether it suggests something while results are still to come.
    """

    build: Callable[[Space, int], Optimizer]
    takes_design: bool = True
    origins: frozenset[str] = frozenset(SUGGESTED)
    fidelities: frozenset[int] | None = None
    parallel: bool = True

    @property
    def most_pending(self) -> int:
        """How many trials may be pending."""
        return MOST_PENDING if self.parallel else 1


def hold(holds: Any, otherwise: str) -> None:
    """Raise BrokenRuleError with that sentence unless it holds."""
    if not holds:
        raise BrokenRuleError(otherwise)


def ask(optimizer: Optimizer) -> Trial:
    """The next trial. Raises BrokenRuleError if there is none."""
    trial = optimizer.ask()
    if trial is None:
        raise BrokenRuleError(f"it suggests nothing while {len(optimizer.pending)} trial(s) are pending")
    return trial


def score(space: Space, trial: Trial) -> float:
    """A bowl in the encoded space, the better the longer the training."""
    return float(((space.encode(trial.configuration) - 0.37) ** 2).sum()) + 0.1 / trial.epochs


def played(optimizer: Optimizer, count: int) -> list[Trial]:
    """Ask and tell in turn."""
    trials = []
    for _ in range(count):
        trials.append(ask(optimizer))
        optimizer.tell(trials[-1], score(optimizer.space, trials[-1]))
    return trials


def asked(optimizer: Optimizer, count: int, subject: Subject) -> list[Trial]:
    """Its next trials, with all of them pending, or the last alone where it waits for results."""
    trials = [ask(optimizer)]
    for _ in range(count - 1):
        if not subject.parallel:
            optimizer.tell(trials[-1], score(optimizer.space, trials[-1]))
        trials.append(ask(optimizer))
    return trials


Event = tuple[Trial, float | None]
"""A trial and the objective told for it; None: it was asked."""


def busy(optimizer: Optimizer, events: int, seed: int, most: int) -> list[Event]:
    """Ask and tell in a random order, with up to `most` trials pending; what happened."""
    rng, happened = np.random.default_rng(seed), list[Event]()
    for _ in range(events):
        pending = list(optimizer.pending.values())
        if not pending or (len(pending) < most and rng.random() < 0.6):
            happened.append((ask(optimizer), None))
        else:
            trial = pending[int(rng.integers(len(pending)))]
            happened.append((trial, score(optimizer.space, trial)))
            optimizer.tell(trial, score(optimizer.space, trial))
    return happened


def restored(optimizer: Optimizer, happened: Sequence[Event]) -> Optimizer:
    """A fresh optimizer brought to where `happened` ends, by way of JSON and by `restore` in place of `ask`."""
    for trial, objective in happened:
        copy = Trial.from_dict(json.loads(json.dumps(trial.to_dict())))
        if objective is None:
            optimizer.restore(copy)
        else:
            evaluation = Evaluation(objective, epochs=trial.epochs)
            optimizer.tell(copy, Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))))
    return optimizer


def hold_equal(ones: Sequence[Any], others: Sequence[Any], why: str) -> None:
    """Raise BrokenRuleError with the first place where two sequences differ. why: what they should be equal for."""
    for i, (one, other) in enumerate(zip(ones, others, strict=False)):
        hold(one == other, f"{why}: number {i} is {in_short(one)}, and then {in_short(other)}")
    hold(len(ones) == len(others), f"{why}: there are {len(ones)}, and then {len(others)}")


def in_short(event: Any) -> str:
    """A trial, or one with its objective, for a person: its configuration, and where it is from."""
    if isinstance(event, tuple) and len(event) == 2 and isinstance(event[0], Trial):
        trial, objective = event
        told = "asked" if objective is None else f"told {objective!r}"
        return f"{in_short(trial)} {told}"
    if isinstance(event, Trial):
        return f"trial {event.id} {event.configuration} ({event.origin}, {event.epochs} epochs)"
    return repr(event)
