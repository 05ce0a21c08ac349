"""What the rules check: what an optimizer suggests; chance; and results.

Suggestions are inside the space, numbered, of a known origin, the initial design first. All of chance follows from the
seed, here and in another process, and nobody else's is touched. Results come in any order, each once, finite, perhaps
never; and a history brings an optimizer back.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fmnas.optimizers.contract.play import (
    CONSTRAINED,
    DESIGN,
    DESIGN_SEED,
    EPOCHS,
    MOST_PENDING,
    SPACES,
    BrokenRuleError,
    Subject,
    ask,
    asked,
    busy,
    hold,
    hold_equal,
    in_short,
    played,
    restored,
    score,
)
from fmnas.optimizers.optimizer import OptimizerError, random_design
from fmnas.search_spaces import Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.records import INITIAL, MUTATION, PROMOTION, SUGGESTED

EXAMINED = 7
"""So many first trials of an optimizer are looked at, each by itself."""
SEEDS = range(4)
FIRST_TRIALS = 5
"""So many say whether seeds and global random states matter."""

Suggested = Mapping[str, Sequence[Mapping[str, Any]]]
"""The space -> trials, as plain data."""


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
    trials = asked(optimizer, DESIGN, subject)
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


def suggests_while_many_are_pending(subject: Subject, space: Space) -> None:
    """Many workers may wait for trials before the first result."""
    optimizer = subject.build(space, 0)
    numbered([ask(optimizer) for _ in range(2 * MOST_PENDING + 1)])


def repeats(subject: Subject) -> str:
    """How many of its first 24 trials on a discrete space were tried before, if any: allowed."""
    trials = played(subject.build(SPACES["discrete"], 0), 24)
    count = 24 - len({json.dumps(trial.configuration, sort_keys=True) for trial in trials})
    return f"{count} of its first 24 suggestions were tried before; each costs an evaluation" if count else ""


def same_seed_same_trials(subject: Subject, space: Space) -> None:
    """Built twice and told the same, it suggests the same."""
    one, other = (busy(subject.build(space, 7), 10, 0, subject.most_pending) for _ in range(2))
    hold_equal(one, other, "with the same seed, built twice, its asks and results differ")


def another_seed_other_trials(subject: Subject, space: Space) -> None:
    """In a small space two seeds may agree; four do not."""
    runs = [
        [trial.configuration for trial in played(subject.build(space, seed), FIRST_TRIALS)[DESIGN:]] for seed in SEEDS
    ]
    hold(
        len({json.dumps(run) for run in runs}) > 1,
        f"the seeds {', '.join(map(str, SEEDS))} all lead to {runs[0]} after the first {DESIGN}: repeats would be "
        "copies of each other",
    )


def leaves_global_random_state_alone(subject: Subject, space: Space) -> None:
    """Of numpy, torch and Python; and as many threads as there were."""
    import torch

    _begin(5)
    expected, threads = _draws(), torch.get_num_threads()
    _begin(5)
    optimizer = subject.build(space, 0)
    played(optimizer, FIRST_TRIALS)
    optimizer.forget(ask(optimizer))
    for name, draw in _draws().items():
        hold(draw == expected[name], f"it draws from the global random state of {name}, or seeds it")
    hold(torch.get_num_threads() == threads, f"torch had {threads} threads, and has {torch.get_num_threads()}")


def does_not_heed_global_random_state(subject: Subject, space: Space) -> None:
    """Whatever others drew or seeded, it suggests the same."""
    runs = []
    for seed in (1, 2):
        _begin(seed)
        runs.append(played(subject.build(space, 3), FIRST_TRIALS))
    hold_equal(
        runs[0], runs[1], "with other global random states (random, numpy.random, torch) it suggests other trials"
    )


def _begin(seed: int) -> None:
    import torch

    np.random.seed(seed)
    torch.manual_seed(seed)
    random.seed(seed)


def _draws() -> dict[str, tuple[float, float]]:
    """What each global random state gives next."""
    import torch

    return {  # a normal draw first: generators keep the second of a pair
        "numpy": (np.random.standard_normal(), np.random.random()),
        "torch": (float(torch.randn(1)), float(torch.rand(1))),
        "random": (random.gauss(0.0, 1.0), random.random()),
    }


def suggested_everywhere(subject: Subject) -> Suggested:
    """Its first trials on every space, as plain data; none where it refuses constraints, or violates them."""
    found: dict[str, Sequence[Mapping[str, Any]]] = {}
    for name, space in {**SPACES, **{f"constrained {name}": space for name, space in CONSTRAINED.items()}}.items():
        try:
            found[name] = [trial.to_dict() for trial in played(subject.build(space, 11), 6)]
        except FmnasError:
            if not space.constraints:
                raise
            found[name] = []  # there is a rule about these
    return found


def same_in_another_process(here: Suggested, there: Suggested) -> None:
    """What `suggested_everywhere` gives here, and in a process with another PYTHONHASHSEED."""
    hold(set(here) == set(there), f"here it was asked on {sorted(here)}, in another process on {sorted(there)}")
    for space, trials in here.items():
        hold_equal(trials, there[space], f"{space} space: in another process it suggests other trials")


def takes_results_in_any_order(subject: Subject, space: Space) -> None:
    """The first four backwards, the next in another order."""
    optimizer = subject.build(space, 0)
    first = [ask(optimizer) for _ in range(4)]
    hold(list(optimizer.pending) == [0, 1, 2, 3], f"asked 0 to 3, pending are {list(optimizer.pending)}")
    for trial in reversed(first):
        optimizer.tell(trial, score(space, trial))
    told = [trial.id for trial, _ in optimizer.history]
    hold(told == [3, 2, 1, 0], f"told 3, 2, 1, 0, its history has {told}")
    second = [ask(optimizer) for _ in range(4)]
    numbers = [trial.id for trial in second]
    hold(numbers == [4, 5, 6, 7], f"the next four trials have the numbers {numbers}")
    for trial in (second[1], second[0], second[3], second[2]):
        optimizer.tell(trial, score(space, trial))
    hold(optimizer.pending == {}, f"all are told, and pending are {list(optimizer.pending)}")
    space.validate(ask(optimizer).configuration)


def takes_a_result_once(subject: Subject, space: Space) -> None:
    """A second result for a trial is refused, and leaves no trace."""
    optimizer = subject.build(space, 0)
    trial = ask(optimizer)
    optimizer.tell(trial, 0.5)
    refuses(lambda: optimizer.tell(trial, 0.5), f"trial {trial.id} is not pending", "a result is told a second time")
    hold(len(optimizer.history) == 1, f"one result was told, its history has {len(optimizer.history)}")


def takes_finite_results_alone(subject: Subject, space: Space, bad: float, whole: bool) -> None:
    """NaN and infinity are refused, by value or in an Evaluation (whole); the trial is then still pending."""
    optimizer = subject.build(space, 0)
    trial = ask(optimizer)
    why = refuses(
        lambda: optimizer.tell(trial, Evaluation(bad) if whole else bad),
        f"trial 0: objective {bad}",
        f"the objective is {bad}",
    )
    hold("finite" in why, f"it refuses {bad} and does not say that it must be finite: {why}")
    optimizer.tell(trial, 0.5)  # a penalty is taken
    hold(len(optimizer.history) == 1, f"one result was told, its history has {len(optimizer.history)}")


def forgets(subject: Subject, space: Space) -> None:
    """A trial that will have no result leaves no trace, and its number is not given again."""
    optimizer = subject.build(space, 0)
    trials = asked(optimizer, 5, subject)
    for trial in list(optimizer.pending.values())[:-1]:
        optimizer.tell(trial, score(space, trial))
    optimizer.forget(trials[4])
    hold(optimizer.pending == {}, f"the last is forgotten, and pending are {list(optimizer.pending)}")
    for call in (lambda: optimizer.tell(trials[4], 0.5), lambda: optimizer.forget(trials[4])):
        refuses(call, "trial 4 is not pending", "a forgotten trial is told, or forgotten again")
    told = [trial.id for trial, _ in optimizer.history]
    hold(told == [0, 1, 2, 3], f"told 0 to 3, its history has {told}")
    numbers = [trial.id for trial in played(optimizer, 3)]
    hold(numbers == [5, 6, 7], f"after the forgotten trial 4 its trials have the numbers {numbers}")


def refuses(call: Callable[[], object], words: str, when: str) -> str:
    """What it says when it refuses, as it must, with an OptimizerError that has these words."""
    try:
        call()
    except OptimizerError as error:
        hold(words in str(error), f"when {when}, it must say {words!r}, and says {str(error)!r}")
        return str(error)
    raise BrokenRuleError(f"when {when}, it must raise an OptimizerError, and takes it")


def goes_on_the_same_from_any_point(subject: Subject, space: Space) -> None:
    """Restored before each of its asks it suggests the same as it did."""
    happened = busy(subject.build(space, 2), 14, 1, subject.most_pending)
    for cut, (trial, objective) in enumerate(happened):
        if objective is None:
            again = restored(subject.build(space, 2), happened[:cut]).ask()
            hold(
                again == trial,
                f"restored after {cut} asks and results it suggests {in_short(again)}, and had suggested "
                f"{in_short(trial)}",
            )


def goes_on_the_same_from_a_history(subject: Subject, space: Space, seed: int, cut: int) -> None:
    """Restored from any history it knows the same, and does the same for a while."""
    most = subject.most_pending
    optimizer = subject.build(space, seed)
    happened = busy(optimizer, cut, seed, most)
    copy = restored(subject.build(space, seed), happened)
    hold(copy.pending == optimizer.pending, f"seed {seed}, after {cut} events: other trials are pending")
    hold(copy.history == optimizer.history, f"seed {seed}, after {cut} events: its history is another")
    after = f"seed {seed}: restored after {cut} asks and results it goes on differently"
    hold_equal(busy(optimizer, 8, seed + 1, most), busy(copy, 8, seed + 1, most), after)
