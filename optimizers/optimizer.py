"""The ask/tell contract and the bookkeeping that all optimizers share.

    optimizer = RandomSearch(space, seed=0)
    trial = optimizer.ask()              # a Trial, or None: wait for a result
    optimizer.tell(trial, 0.07)          # a float or an Evaluation

Trials without a result are pending; their number is not limited. The same seed and the same order of calls give the
same trials in any process: ask number k draws from a generator seeded by (seed, k) alone, so an optimizer is rebuilt
from its history by `restore` and `tell`, without asking again.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np

from fmnas.search_spaces import Configuration, Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.records import INITIAL, MODEL, SUGGESTED, WARM_START


class OptimizerError(FmnasError, ValueError):
    """Invalid options of an optimizer, or an invalid call."""


MAX_NOTE_LENGTH = 1000  # of a suggestion; longer ones are cut
MAX_DRAWS = 100  # of a random configuration that is new


def check_budget(evaluations: int | None) -> None:
    """Raise OptimizerError if the number of evaluations is below 1; None: unknown."""
    if evaluations is not None and evaluations < 1:
        raise OptimizerError(f"evaluations = {evaluations}: it must be at least 1, or None if unknown")


@dataclass(frozen=True)
class Suggestion:
    """The next configuration to try. Epochs None: full fidelity. The other fields are those of `Trial`."""

    configuration: Configuration
    origin: str
    epochs: int | None = None
    parent: int | None = None
    note: str = ""
    memo: tuple[float, ...] = ()
    fallback: str = ""


@dataclass(frozen=True)
class SearchPlan:
    """The size of a search: full-fidelity evaluations, epochs of each, number of variables.

    option, budget: prefix of option names, and the name of the number of evaluations, in warnings.
    """

    evaluations: int
    epochs: int
    dimensions: int
    option: str = ""
    budget: str = "evaluations"

    def warn_of_random_search(self, name: str, size: int | None, advice: str) -> str:
        """Return a warning if an option, the number of random trials at first, uses up the budget; else nothing."""
        if size is None or size < self.evaluations:
            return ""
        return f"{name} {size} >= {self.evaluations} evaluations: this is random search; try {advice}"


class Optimizer(ABC):
    """Base class of optimizers: numbers the trials, keeps pending trials and history, asks the initial design first.

    space: the search space.
    seed: seed of all random draws.
    epochs: epochs of a full-fidelity trial.
    initial_design: configurations to try first, in this order.

    chooses: the intended origin of its new configurations, one of SUGGESTED; reports count the others as fallbacks.
    log_objective: whether the logarithm of the objective is modelled; the objective must then be positive.
    """

    chooses: ClassVar[str] = MODEL
    log_objective: bool = False

    def __init__(
        self, space: Space, *, seed: int = 0, epochs: int = 1, initial_design: Sequence[Configuration] = ()
    ) -> None:
        if not isinstance(space, Space):
            raise OptimizerError(f"space = {space!r}: it must be a Space, e.g. Space([Real('x', 0.0, 1.0)])")
        _check_integer("epochs", epochs, least=1)
        _check_integer("seed", seed, least=0)
        self.space = space
        self.seed = seed
        self.epochs = epochs
        self.initial_design = tuple(map(space.coerce, initial_design))
        self.history: list[tuple[Trial, Evaluation]] = []
        self.pending: dict[int, Trial] = {}
        self._forgotten: list[Trial] = []
        self._asked = 0

    def ask(self) -> Trial | None:
        """Return the next trial, or None if a pending trial must have its result first.

        Raises OptimizerError if there is neither a suggestion nor a pending trial.
        """
        if self._asked < len(self.initial_design):
            suggestion: Suggestion | None = Suggestion(self.initial_design[self._asked], INITIAL)
        else:
            suggestion = self._suggest(np.random.default_rng([self.seed, self._asked]))
        if suggestion is None:
            if not self.pending:
                raise OptimizerError(f"trial {self._asked}: it suggested nothing, although no trial is pending")
            return None
        arguments = vars(self._validate(suggestion))
        trial = Trial(id=self._asked, **{**arguments, "epochs": arguments["epochs"] or self.epochs})
        self._register(trial)
        return trial

    def _validate(self, suggestion: Suggestion) -> Suggestion:
        """Convert a suggestion to built-in types. Raises OptimizerError or SpaceError for an invalid one."""
        if not isinstance(suggestion, Suggestion):
            raise OptimizerError(
                f"_suggest returned a {type(suggestion).__name__}; it must return a Suggestion, e.g. "
                'Suggestion(configuration, "model"), or None'
            )
        epochs, parent = _as_int("epochs", suggestion.epochs), _as_int("parent", suggestion.parent)
        if epochs is not None and not 1 <= epochs <= self.epochs:
            raise OptimizerError(f"epochs = {epochs!r}: it must be from 1 to {self.epochs}")
        if parent is not None and not 0 <= parent < self._asked:
            allowed = f"the id of an earlier trial (0 to {self._asked - 1}), or None" if self._asked else "None"
            raise OptimizerError(f"trial {self._asked}: parent = {parent}: it must be {allowed}")
        if suggestion.origin == WARM_START:
            raise OptimizerError(f"origin = {WARM_START!r}: it must be one of {', '.join(SUGGESTED)}")
        memo = tuple(map(float, suggestion.memo))
        if not all(map(math.isfinite, memo)):
            raise OptimizerError(f"memo = {memo}: all its numbers must be finite")
        note = suggestion.note[:MAX_NOTE_LENGTH]
        configuration = self.space.coerce(suggestion.configuration)
        return replace(suggestion, configuration=configuration, epochs=epochs, parent=parent, note=note, memo=memo)

    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        """Report the result of a pending trial.

        Raises OptimizerError if the trial is not pending, if an objective is not finite, and if it is not positive
        although its logarithm is modelled; the trial then stays pending.
        """
        if not isinstance(trial, Trial):
            raise OptimizerError(f"trial = {trial!r}: it must be the Trial that ask() returned")
        if not isinstance(evaluation, Evaluation):
            evaluation = Evaluation(objective=_as_objective(evaluation), epochs=trial.epochs)
        if wrong := [value for value in (evaluation.objective, *evaluation.values) if not math.isfinite(value)]:
            raise OptimizerError(
                f"trial {trial.id}: objective {wrong[0]}; it must be finite (use a penalty for a failure)"
            )
        if self.log_objective and evaluation.objective <= 0:
            raise OptimizerError(
                f"trial {trial.id}: objective {evaluation.objective} with log_objective; it must be positive "
                "(or set log_objective=False)"
            )
        self._pop_pending(trial)
        self.history.append((trial, evaluation))
        self._observe(trial, evaluation)

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial that will not have a result."""
        self._pop_pending(trial)
        self._forgotten.append(trial)

    def observations(self) -> list[tuple[Trial, Evaluation]]:
        """Return the results that a model uses, in the order of `tell`: all of them."""
        return self.history

    def objectives(self) -> np.ndarray:
        """Return the objectives of the observations [n], or their logarithms, clipped to what can be squared."""
        y = np.array([evaluation.objective for _, evaluation in self.observations()]).clip(-1e100, 1e100)
        return np.log(y) if self.log_objective else y

    def known_trials(self) -> list[Trial]:
        """Return all trials: those with a result in the order of `tell`, then those without."""
        return [*(trial for trial, _ in self.history), *self.trials_without_result()]

    def trials_without_result(self) -> list[Trial]:
        """Return the pending trials, then the forgotten ones."""
        return [*self.pending.values(), *self._forgotten]

    def restore(self, trial: Trial) -> None:
        """Register a trial that was asked before, without a new suggestion."""
        if trial.id != self._asked:
            raise OptimizerError(f"trial {trial.id} restored instead of trial {self._asked}: restore trials in order")
        self._register(trial)

    @classmethod  # noqa: B027  # optional
    def check_combination(cls, options: Mapping[str, Any]) -> None:
        """Raise OptimizerError for an invalid combination of options: "option = value: ..."."""

    uses_budget: ClassVar[bool] = True
    """Whether a constructor parameter `evaluations` influences suggestions."""

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """Return a remark for reports on an optimizer with these options, to follow its name; usually empty."""
        return ""

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning about options that disable the method under this plan, with a fix; usually empty."""
        return ""

    @abstractmethod
    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        """Return the next suggestion after the initial design; `rng` is used by this ask alone."""

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:  # noqa: B027  # optional
        """Process a result that was added to the history."""

    def _register(self, trial: Trial) -> None:
        self.pending[trial.id] = trial
        self._asked += 1

    def _pop_pending(self, trial: Trial) -> None:
        if self.pending.pop(trial.id, None) is None:
            raise OptimizerError(f"trial {trial.id} is not pending; pending: {sorted(self.pending)}; tell each once")


def _check_integer(name: str, value: Any, least: int) -> None:
    """Raise OptimizerError unless the value is an integer and at least `least`."""
    if not isinstance(value, Integral) or int(value) < least:
        raise OptimizerError(f"{name} = {value!r}: it must be an integer of at least {least}")


def _as_objective(value: Any) -> float:
    """Convert a number, also of numpy or torch, to float. Raises OptimizerError for other values."""
    if not isinstance(value, str | bytes):
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    raise OptimizerError(f"objective = {value!r}: it must be a number or an Evaluation")


def _as_int(name: str, value: Any) -> int | None:
    """Convert an integral value to int; None stays None. Raises OptimizerError for other values."""
    if value is None:
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if int(value) == value:
            return int(value)
    raise OptimizerError(f"{name} = {value!r}: it must be an integer")


def random_design(space: Space, count: int, seed: int) -> list[Configuration]:
    """Return `count` uniform configurations, none twice unless MAX_DRAWS draws find no new one.

    Equal seeds give equal designs.
    """
    rng = np.random.default_rng([seed, 0, 0x1D])  # three numbers: distinct from the seeds of all asks
    design: list[Configuration] = []
    codes: set[bytes] = set()
    for _ in range(count):
        for _ in range(MAX_DRAWS if len(codes) == len(design) else 1):
            configuration = space.sample(rng)
            if (code := space.encode(configuration).tobytes()) not in codes:
                break
        codes.add(code)
        design.append(configuration)
    return design
