"""Rules about what an optimizer suggests: inside the space, numbered, of a known origin, the initial design first."""

import json
from collections.abc import Sequence

from fmnas.optimizers.contract.play import (
    DESIGN,
    DESIGN_SEED,
    EPOCHS,
    MOST_PENDING,
    Subject,
    ask,
    hold,
    in_short,
    played,
    score,
)
from fmnas.optimizers.optimizer import random_design
from fmnas.search_spaces import Space, Trial
from fmnas.search_spaces.records import INITIAL, MUTATION, PROMOTION, SUGGESTED

PLAYED = 7


def inside_the_space(space: Space, trials: Sequence[Trial]) -> None:
    """Every value is one that its variable may take, and every constraint is met, in the space's order."""
    for trial in trials:
        space.validate(trial.configuration)
        hold(list(trial.configuration) == list(space.names), f"{in_short(trial)}: the order must be {space.names}")


def numbered(trials: Sequence[Trial]) -> None:
    """From 0, in the order asked."""
    numbers = [trial.id for trial in trials]
    hold(numbers == list(range(len(trials))), f"the trials asked in turn have the numbers {numbers}")


def plain_json(trials: Sequence[Trial]) -> None:
    """A trial comes back from JSON as it was."""
    for trial in trials:
        data = trial.to_dict()
        try:
            again = json.loads(json.dumps(data))
        except TypeError as error:
            again = f"nothing ({error})"
        hold(again == data, f"{in_short(trial)}: JSON gives back {again}; suggest Python's own numbers and texts")


def of_known_origin(subject: Subject, trials: Sequence[Trial]) -> None:
    """One of those allowed, with the parent of what is mutated or promoted, and of nothing else."""
    for trial in trials:
        hold(
            trial.origin in subject.origins <= set(SUGGESTED),
            f"{in_short(trial)}: its origin must be one of {', '.join(sorted(subject.origins))}",
        )
        hold(
            trial.parent is None or trial.parent < trial.id,
            f"{in_short(trial)}: its parent {trial.parent} is no earlier trial",
        )
        hold(
            (trial.parent is not None) == (trial.origin in (MUTATION, PROMOTION)),
            f"{in_short(trial)}: its parent is {trial.parent}; a mutation and a promotion have one, and nothing else",
        )


def within_fidelity(trials: Sequence[Trial]) -> None:
    """From one epoch to all of them."""
    for trial in trials:
        hold(1 <= trial.epochs <= EPOCHS, f"{in_short(trial)}: the epochs must be from 1 to {EPOCHS}")


def meets_constraints(subject: Subject, space: Space, seed: int, asks: int) -> None:
    """With results that reward leaving the feasible region."""
    optimizer = subject.build(space, seed)
    for _ in range(asks):
        trial = ask(optimizer)
        space.validate(trial.configuration)
        hold(space.meets_constraints(trial.configuration), f"{in_short(trial)}: it violates a constraint")
        optimizer.tell(trial, -float(space.encode(trial.configuration).sum()))
    origins = {trial.origin for trial, _ in optimizer.history}
    hold(origins <= subject.origins, f"origins {sorted(origins - subject.origins)} are none of its own")


def begins_with_the_initial_design(subject: Subject, space: Space) -> None:
    """In its order, at full fidelity, and then with something of its own."""
    optimizer = subject.build(space, 0)
    trials = [ask(optimizer)]
    for _ in range(DESIGN - 1):
        if not subject.parallel:
            optimizer.tell(trials[-1], score(space, trials[-1]))
        trials.append(ask(optimizer))
    for trial, expected in zip(trials, random_design(space, DESIGN, DESIGN_SEED), strict=True):
        hold(trial.configuration == expected, f"{in_short(trial)}: the initial design has {expected} here")
        hold((trial.origin, trial.epochs) == (INITIAL, EPOCHS), f"{in_short(trial)}: it must be initial and full")
    for trial in list(optimizer.pending.values()):
        optimizer.tell(trial, score(space, trial))
    after = ask(optimizer)
    hold(after.origin != INITIAL, f"{in_short(after)}: the initial design has {DESIGN} points only")


def asks_for_its_fidelities(subject: Subject, space: Space) -> set[int]:
    """The epochs of its first trials; they are those that the subject names, if it does."""
    expected = subject.fidelities
    trials = played(subject.build(space, 0), 13 if expected is None or len(expected) > 1 else 5)
    within_fidelity(trials)
    epochs = {trial.epochs for trial in trials}
    hold(expected is None or epochs == expected, f"its trials have {sorted(epochs)} epochs")
    return epochs


def suggests_while_many_are_pending(subject: Subject, space: Space, count: int = 2 * MOST_PENDING + 1) -> None:
    """Many workers may wait for trials before the first result."""
    optimizer = subject.build(space, 0)
    numbered([ask(optimizer) for _ in range(count)])


def repeats(subject: Subject, space: Space, count: int = 24) -> int:
    """How many of its first trials were tried before: allowed, and each costs an evaluation."""
    trials = played(subject.build(space, 0), count)
    return count - len({json.dumps(trial.configuration, sort_keys=True) for trial in trials})
