"""The ask/tell contract, and the bookkeeping that every optimizer shares.

    optimizer = RandomSearch(space, seed=0)
    trial = optimizer.ask()              # a Trial, or None: nothing to do until a result comes back
    optimizer.tell(trial, 0.07)          # a float or an Evaluation

An optimizer sees only records. Trials asked and not yet told are pending; any number may be. The same seed and the
same order of calls give the same trials in another process: ask number k draws from a generator seeded by (seed, k)
alone, so an optimizer is rebuilt from its history by `restore` and `tell`, without asking again.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np

from fmnas.search_spaces import Configuration, Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.records import INITIAL, MODEL, SUGGESTED, WARM_START


class OptimizerError(FmnasError, ValueError):
    """An optimizer was given settings or calls that make no sense."""


LONGEST_NOTE = 1000
"""How many characters of a suggestion's note are kept."""


def check_budget(evaluations: int | None) -> None:
    """Raise OptimizerError for a number of evaluations below 1; None: not known."""
    if evaluations is not None and evaluations < 1:
        raise OptimizerError(f"evaluations = {evaluations}: it must be at least 1, or None where it is not known")


@dataclass(frozen=True)
class Suggestion:
    """What an optimizer wants tried next. Epochs None: full fidelity. The rest is as in `Trial`.

    note: cut after LONGEST_NOTE characters.
    """

    configuration: Configuration
    origin: str
    epochs: int | None = None
    parent: int | None = None
    note: str = ""
    memo: tuple[float, ...] = ()
    fallback: str = ""


@dataclass(frozen=True)
class Plan:
    """What a search is to be: evaluations of full fidelity, `epochs` each, over so many variables.

    option, budget: how advice writes the name of an option, after this, and that of the evaluations.
    """

    evaluations: int
    epochs: int
    dimensions: int
    option: str = ""
    budget: str = "evaluations"


class Optimizer(ABC):
    """Base of every optimizer: numbers the trials, keeps pending and history, plays the initial design first.

    space: what may be tried.
    seed: everything random derives from it.
    epochs: full fidelity of a trial.
    initial_design: configurations to try first, in this order.

    chooses: what its new configurations are by design, one of SUGGESTED; a report counts the others as fallbacks.
    log_objective: whether the logarithm of the objective is modelled, which must then be positive.
    """

    chooses: ClassVar[str] = MODEL
    log_objective: bool = False

    def __init__(
        self, space: Space, *, seed: int = 0, epochs: int = 1, initial_design: Sequence[Configuration] = ()
    ) -> None:
        if epochs < 1:
            raise OptimizerError(f"epochs = {epochs}: full fidelity must be at least 1 epoch")
        if seed < 0:
            raise OptimizerError(f"seed = {seed}: it must be at least 0")
        self.space = space
        self.seed = seed
        self.epochs = epochs
        self.initial_design = tuple(map(space.own, initial_design))
        self.history: list[tuple[Trial, Evaluation]] = []
        self.pending: dict[int, Trial] = {}
        self._asked = 0

    def ask(self) -> Trial | None:
        """The next trial, or None while nothing can be suggested before a pending trial is told.

        Raises OptimizerError where nothing is pending and there is no suggestion: it would be waited for for ever.
        """
        if self._asked < len(self.initial_design):
            suggestion: Suggestion | None = Suggestion(self.initial_design[self._asked], INITIAL)
        else:
            suggestion = self._suggest(np.random.default_rng([self.seed, self._asked]))
        if suggestion is None:
            if not self.pending:
                raise OptimizerError(f"trial {self._asked}: it suggests nothing, and no result is to come: suggest one")
            return None
        suggestion = self._plain(suggestion)
        given = {field.name: getattr(suggestion, field.name) for field in fields(Suggestion)}
        if suggestion.epochs is None:
            given["epochs"] = self.epochs
        trial = Trial(id=self._asked, **given)
        self._register(trial)
        return trial

    def _plain(self, suggestion: Suggestion) -> Suggestion:
        """The same in Python's own numbers and texts, as a journal can hold it.

        Raises OptimizerError for epochs, a parent, a memo or an origin that cannot be, SpaceError for a configuration
        outside, or for what is no suggestion.
        """
        if not isinstance(suggestion, Suggestion):
            raise OptimizerError(
                f"_suggest returned a {type(suggestion).__name__}: it must return a Suggestion, e.g. "
                'Suggestion(configuration, "model"), or None'
            )
        epochs, parent = _whole("epochs", suggestion.epochs), _whole("parent", suggestion.parent)
        if epochs is not None and not 1 <= epochs <= self.epochs:
            raise OptimizerError(f"epochs = {epochs!r}: it must be from 1 to {self.epochs}")
        if parent is not None and not 0 <= parent < self._asked:
            earlier = f"from 0 to {self._asked - 1}, or None" if self._asked else "and there is none yet: give None"
            raise OptimizerError(
                f"trial {self._asked}: parent = {parent}: it must be the number of an earlier trial, {earlier}"
            )
        if suggestion.origin == WARM_START:
            raise OptimizerError(f"origin = {WARM_START!r}: it must be one of {', '.join(SUGGESTED)}")
        memo = tuple(map(float, suggestion.memo))
        if not all(map(math.isfinite, memo)):
            raise OptimizerError(f"memo = {memo}: each number of it must be finite, or a journal could not hold it")
        note = suggestion.note
        if len(note) > LONGEST_NOTE:
            note = f"{note[: LONGEST_NOTE - 3]}..."
        configuration = self.space.own(suggestion.configuration)
        return replace(suggestion, configuration=configuration, epochs=epochs, parent=parent, note=note, memo=memo)

    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        """Take the result of a pending trial.

        Raises OptimizerError when the trial is not pending, and, so that it stays pending, when the objective is not
        finite, or has no logarithm where that is modelled.
        """
        if not isinstance(evaluation, Evaluation):
            evaluation = Evaluation(objective=float(evaluation), epochs=trial.epochs)
        if not math.isfinite(evaluation.objective):
            raise OptimizerError(
                f"trial {trial.id}: objective {evaluation.objective}; it must be finite (tell a penalty for a failure)"
            )
        if self.log_objective and evaluation.objective <= 0:
            raise OptimizerError(
                f"trial {trial.id}: objective {evaluation.objective} with log_objective; it must be positive "
                "(or set log_objective=False)"
            )
        self._take(trial)
        self.history.append((trial, evaluation))
        self._observe(trial, evaluation)

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial that will never have a result."""
        self._take(trial)

    def restore(self, trial: Trial) -> None:
        """Note that this trial was asked before, without suggesting anything: how history is replayed."""
        if trial.id != self._asked:
            raise OptimizerError(
                f"trial {trial.id} restored where number {self._asked} was asked: the history has gaps"
            )
        self._register(trial)

    @classmethod  # noqa: B027  # most have nothing to say
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """Raise OptimizerError for options, of those given, that cannot be together: "option = value: ..."."""

    uses_budget: ClassVar[bool] = True
    """Whether a constructor that takes `evaluations` makes use of it."""

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """What a reader of a comparison must know of it with all these options, after its name; empty if nothing."""
        return ""

    @classmethod
    def foreseen(cls, options: Mapping[str, Any], plan: Plan) -> str:
        """What it will not do for which it is there, with all these options and that plan, and other values that mend
        it, after its name; empty if nothing."""
        return ""

    @abstractmethod
    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        """The next suggestion after the initial design; `rng` belongs to this ask alone."""

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:  # noqa: B027  # most methods need nothing here
        """Called after a result entered the history; a method may instead read the history when it is asked."""

    def _register(self, trial: Trial) -> None:
        self.pending[trial.id] = trial
        self._asked += 1

    def _take(self, trial: Trial) -> None:
        if self.pending.pop(trial.id, None) is None:
            raise OptimizerError(f"trial {trial.id} is not pending; pending are {sorted(self.pending)}: tell each once")


def _whole(what: str, given: Any) -> int | None:
    """A whole number, of whichever type, as an int; None is none. Raises OptimizerError for anything else."""
    if given is None:
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if int(given) == given:
            return int(given)
    raise OptimizerError(f"{what} = {given!r}: it must be a whole number")


def random_design(space: Space, count: int, seed: int) -> list[Configuration]:
    """The initial design of `count` uniform configurations that a seed stands for."""
    rng = np.random.default_rng([seed, 0, 0x1D])  # three numbers: no ask draws from it
    return [space.sample(rng) for _ in range(count)]
