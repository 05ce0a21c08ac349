"""Optimizers that use any Optuna sampler in one persistent study; also the base class of TPE.

Pending trials are RUNNING ones. There is one objective (NSGA2 has two), which is minimised, and no fidelity. The
conversion of spaces is in space_conversion.py.

Many samplers have state in the study or in themselves: generations, grids, sequences, evolution paths. So the sampler
and the study live as long as the optimizer (TPE has a new sampler in each ask). The sampler is seeded once, if its
constructor has a `seed`, uses isolated global random states, and is restored by repeating all asks (ask_tell.py).

The initial design is enqueued. Infeasible draws are marked as failed, and the sampler draws again. Draws before
`n_startup_trials` results count as random. Requests of a sampler to stop the study (e.g. a completed grid) are ignored.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from fmnas.baselines.external import WrappedOptimizer, suppress_logs
from fmnas.baselines.space_conversion import from_optuna, optuna_distributions, to_optuna
from fmnas.optimizers import Suggestion
from fmnas.optimizers.ask_tell import ReplayedOptimizer
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL, RANDOM

STARTUP = "n_startup_trials"


class OptunaOptimizer(WrappedOptimizer):
    """Base class of optimizers whose suggestions come from an optuna.Study. directions: number of its objectives."""

    package = "optuna"
    directions: ClassVar[int] = 1

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        import optuna

        self._rng = IsolatedRNG(self.seed)
        with self._isolate():
            self._study = optuna.create_study(directions=["minimize"] * self.directions)
        self._numbers: dict[int, int] = {}  # of pending trials in the study, by id

    @cached_property
    def distributions(self) -> dict[str, Any]:
        """Optuna's distributions of the space."""
        return optuna_distributions(self.space)

    def values(self, evaluation: Evaluation) -> tuple[float, ...]:
        """Return what the study receives of a result: a number for each direction."""
        return (evaluation.objective,)

    @contextmanager
    def _isolate(self) -> Iterator[None]:
        """Suppress Optuna's log and use the optimizer's own global random states."""
        with self._rng.activate(), suppress_logs(self.package):
            yield

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        with self._isolate():
            self._study.tell(self._numbers.pop(trial.id), self.values(evaluation))

    def forget(self, trial: Trial) -> None:
        """Mark the trial as failed in the study."""
        super().forget(trial)
        with self._isolate():
            self._discard(self._numbers.pop(trial.id))

    def _discard(self, number: int) -> None:
        """Mark a trial as failed: samplers ignore failed trials."""
        from optuna.trial import TrialState

        self._study.tell(number, state=TrialState.FAIL)


class OptunaSampler(ReplayedOptimizer, OptunaOptimizer):
    """Uses the class `sampler`, with the options of its constructor."""

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
        sampler = self.sampler_class()
        parameters = signature(sampler).parameters
        seeded = {"seed": seed % 2**32} if "seed" in parameters else {}
        self._startup = options.get(STARTUP, parameters[STARTUP].default if STARTUP in parameters else 0)
        with self._isolate():
            self._study.sampler = sampler(**seeded, **options)
        self._study.stop = lambda: None
        self._drawn: tuple[int, Configuration] | None = None

    def sampler_class(self) -> type[Any]:
        """Return the class of the sampler."""
        return self.sampler

    def _isolated_rng(self, rng: np.random.Generator) -> IsolatedRNG:
        """Return the sampler's random states, which persist between asks."""
        return self._rng

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Yield draws of the sampler, which was seeded when it was built."""
        is_random = self.chooses == RANDOM or len(self.history) < self._startup
        while True:
            draw = self._study.ask(self.distributions)
            self._drawn = draw.number, from_optuna(self.space, draw.params)
            yield Suggestion(self._drawn[1], RANDOM if is_random else MODEL)
            self._discard(draw.number)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        drawn, self._drawn = self._drawn, None
        with self._isolate():
            if drawn is not None and drawn[1] == trial.configuration:
                self._numbers[trial.id] = drawn[0]
                return
            if drawn is not None:
                self._discard(drawn[0])
            self._study.enqueue_trial(to_optuna(self.space, trial.configuration))
            self._numbers[trial.id] = self._study.ask(self.distributions).number


def is_sampler(value: Any) -> bool:
    """Return whether a value is a sampler class. Optuna is not imported: a sampler class would have imported it."""
    samplers = sys.modules.get("optuna.samplers")
    return samplers is not None and isinstance(value, type) and issubclass(value, samplers.BaseSampler)


def optimizer_from_sampler(sampler: type[Any]) -> type[OptunaSampler]:
    """Return the optimizer that uses a sampler class."""
    from optuna.samplers import RandomSampler

    chooses = RANDOM if issubclass(sampler, RandomSampler) else MODEL
    name = sampler.__name__
    return type(name, (OptunaSampler,), {"name": name, "sampler": sampler, "chooses": chooses})
