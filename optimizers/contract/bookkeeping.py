"""Rules about results: in any order, each once, finite, perhaps never; and a history that brings an optimizer back."""

from collections.abc import Callable

from fmnas.optimizers.contract.play import (
    MOST_PENDING,
    BrokenRuleError,
    Subject,
    ask,
    busy,
    hold,
    hold_equal,
    in_short,
    played,
    restored,
    score,
)
from fmnas.optimizers.optimizer import OptimizerError
from fmnas.search_spaces import Evaluation, Space

SHUFFLED = (5, 4, 7, 6)


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
    for i in SHUFFLED:
        optimizer.tell(second[i - 4], score(space, second[i - 4]))
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
    trials = []
    for _ in range(5):
        trials.append(ask(optimizer))
        if not subject.parallel and len(trials) < 5:
            optimizer.tell(trials[-1], score(space, trials[-1]))
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


def goes_on_the_same_from_any_point(subject: Subject, space: Space, events: int = 14) -> None:
    """Restored before each of its asks it suggests the same as it did."""
    happened = busy(subject.build(space, 2), events, 1, MOST_PENDING if subject.parallel else 1)
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
    most = MOST_PENDING if subject.parallel else 1
    optimizer = subject.build(space, seed)
    happened = busy(optimizer, cut, seed, most)
    copy = restored(subject.build(space, seed), happened)
    hold(copy.pending == optimizer.pending, f"seed {seed}, after {cut} events: other trials are pending")
    hold(copy.history == optimizer.history, f"seed {seed}, after {cut} events: its history is another")
    after = f"seed {seed}: restored after {cut} asks and results it goes on differently"
    hold_equal(busy(optimizer, 8, seed + 1, most), busy(copy, 8, seed + 1, most), after)
