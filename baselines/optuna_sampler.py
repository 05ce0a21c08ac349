"""Any sampler of Optuna, its own or a user's, in one study that lives as long as the optimizer; and the base of TPE.

Pending trials are RUNNING ones. Only one objective, which is minimised, and no epochs. What Optuna sees of a space, and
what that loses, says foreign_spaces.py.

Many samplers keep what they know in the study and in themselves: generations, grids, sequences, evolution paths. A
study built anew in each ask, as TPE has it, would take that from them. So the sampler is seeded once, by `seed` where
its constructor has one, has global random states of its own, and the optimizer is restored by asking again, as
ask_tell.py has it.

The points of the initial design are enqueued: the sampler hears of them like any user's. An infeasible draw is
withdrawn, and the sampler draws again. While a sampler with `n_startup_trials` has fewer results than that it is taken
to draw at random, as all of Optuna's do; a study that a sampler wants to stop (a grid that is all tried) goes on, since
the budget ends a run.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from fmnas.baselines.external import WrappedOptimizer, silent
from fmnas.baselines.space_conversion import from_optuna, optuna_distributions, to_optuna
from fmnas.optimizers import OptimizerError, Suggestion
from fmnas.optimizers.ask_tell import ReplayedOptimizer
from fmnas.optimizers.isolation import PrivateRandomState
from fmnas.optimizers.options import subclass_with_parameters, yaml_parameters
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import MODEL, RANDOM

STARTUP = "n_startup_trials"
LAZY = "_LazyImport"
"""How a module of Optuna holds a package that its sampler needs, and would first miss when it suggests something."""


class OptunaOptimizer(WrappedOptimizer):
    """Base of optimizers whose suggestions are asked of an optuna.Study."""

    package = "optuna"

    @cached_property
    def distributions(self) -> dict[str, Any]:
        """The space, in Optuna's terms."""
        return optuna_distributions(self.space)

    def draws(self, study: Any) -> Iterator[tuple[int, Configuration]]:
        """Number and configuration of what a study's sampler draws, one after the other.

        A draw is withdrawn when the next one is asked for: no sampler counts a failed trial.
        """
        while True:
            asked = study.ask(self.distributions)
            yield asked.number, from_optuna(self.space, asked.params)
            _withdraw(study, asked.number)


class OptunaSampler(ReplayedOptimizer, OptunaOptimizer):
    """Asks a sampler of Optuna; `optimizer_asking` says of which class. The options are those of its constructor."""

    name = "optuna"
    sampler: ClassVar[type[Any]]

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] = (),
        **options: Any,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        taken = signature(self.sampler).parameters
        seeded = {"seed": seed % 2**32} if "seed" in taken else {}
        self._startup = options.get(STARTUP, taken[STARTUP].default if STARTUP in taken else 0)
        self._random = PrivateRandomState(seed)
        self._study = self._begun({**seeded, **options})
        self._numbers: dict[int, int] = {}  # of pending trials, as the study counts them
        self._drawn: tuple[int, Configuration] | None = None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """What is done with the study: without its log, and drawing from the sampler's own global states."""
        with self._random.inside(), silent(self.package):
            yield

    def _random_state(self, rng: np.random.Generator) -> PrivateRandomState:
        """The sampler's, for as long as it lives."""
        return self._random

    def _begun(self, options: dict[str, Any]) -> Any:
        """A study with the sampler and no trial."""
        import optuna

        with self._alone():
            try:
                study = optuna.create_study(sampler=self.sampler(**options))
            except Exception as error:  # each sampler has its own
                raise OptimizerError(f"{self.name} cannot be built: {type(error).__name__}: {error}") from error
        study.stop = lambda: None
        return study

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Draws of the sampler, which has its seed from the beginning."""
        by_chance = self.chooses == RANDOM or len(self.history) < self._startup
        for drawn in self.draws(self._study):
            self._drawn = drawn
            yield Suggestion(drawn[1], RANDOM if by_chance else MODEL)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        drawn, self._drawn = self._drawn, None
        with self._alone():
            if drawn is not None and drawn[1] == trial.configuration:
                self._numbers[trial.id] = drawn[0]
                return
            if drawn is not None:
                _withdraw(self._study, drawn[0])
            self._study.enqueue_trial(to_optuna(self.space, trial.configuration))
            self._numbers[trial.id] = self._study.ask(self.distributions).number

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        with self._alone():
            self._study.tell(self._numbers.pop(trial.id), evaluation.objective)

    def forget(self, trial: Trial) -> None:
        """The sampler is told that the trial failed, which none counts."""
        super().forget(trial)
        with self._alone():
            _withdraw(self._study, self._numbers.pop(trial.id))


def _withdraw(study: Any, number: int) -> None:
    from optuna.trial import TrialState

    study.tell(number, state=TrialState.FAIL)


def is_sampler(found: Any) -> bool:
    """Whether it is a class of samplers. Optuna is not loaded to find out: such a class has loaded it."""
    samplers = sys.modules.get("optuna.samplers")
    return samplers is not None and isinstance(found, type) and issubclass(found, samplers.BaseSampler)


@cache
def optimizer_asking(sampler: type[Any]) -> type[OptunaSampler]:
    """The optimizer that asks a class of samplers. Raises OptimizerError where a configuration cannot build one."""
    from optuna.samplers import RandomSampler

    chooses = RANDOM if issubclass(sampler, RandomSampler) else MODEL
    parameters = yaml_parameters(sampler, leave_out=("seed",))
    for module in {each.__module__ for each in sampler.__mro__}:
        for found in vars(sys.modules[module]).values():
            if type(found).__name__ == LAZY:
                optional_module(found._name, f"the sampler {sampler.__name__}", OptimizerError)
    return subclass_with_parameters(
        OptunaSampler, sampler.__name__, parameters, name=sampler.__name__, sampler=sampler, chooses=chooses
    )
