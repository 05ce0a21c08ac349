"""BOHB (Falkner et al. 2018): Hyperband's brackets with hpbandster's own kernel density model.

hpbandster's config generator and SuccessiveHalving are used as a library: no nameserver, no workers of its own.

What the encoding loses: hpbandster knows no ordinal and no graph-structured variables. Reals enter on the unit scale,
Integer and Ordinal as integers, Nominal and Graph as categories without order.

Before a budget has more than two models' worth of results (38 in 18 dimensions), BOHB is Hyperband with random
sampling: each trial's origin says which it was.
"""

import logging
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.search_spaces import Configuration, Evaluation, Integer, Ordinal, Space, Trial
from fmnas.search_spaces.records import MODEL, PROMOTION, RANDOM

HALF = 0.5 - 1e-6
"""Budgets run from 0.5 + 1e-6 to epochs + 0.5 - 1e-6 (the paper's setting): rounding then spreads the rungs evenly."""


class BOHB(Optimizer):
    """Brackets of successive halving over epochs; new configurations from density models of good and bad results.

    Pays for its short trainings by the epoch. Picks its own first configurations: it takes no initial design.

    eta: how many trials of a rung compete for one place in the next, and how much longer that trains.
    """

    def __init__(self, space: Space, *, seed: int = 0, epochs: int = 1, eta: int = 3) -> None:
        super().__init__(space, seed=seed, epochs=epochs)
        if eta < 2:
            raise OptimizerError(f"eta = {eta}: it must be at least 2")
        with _quiet():
            from hpbandster.optimizers.config_generators import bohb
        self.brackets = brackets(epochs, eta)
        self._fallbacks = _Fallbacks()
        self._configuration_space = _configuration_space(space)
        with _quiet():
            self._generator = bohb.BOHB(self._configuration_space, logger=self._fallbacks.logger)
        self._iterations: list[Any] = []
        self._opened = 0
        self._runs: dict[int, tuple[Any, tuple[int, int, int], float]] = {}  # trial -> (iteration, config id, budget)
        self._trial_of: dict[tuple[int, int, int], int] = {}  # config id -> the trial that ran it last
        self._recorded: Configuration | None = None  # while history is replayed: what to sample
        self._sampled_from = RANDOM
        self._note = ""

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        with _private_random_state(rng), _quiet():
            self._configuration_space.seed(int(rng.integers(2**31)))
            iteration, config_id, _, budget = self._next_run()
        self._runs[self._asked] = (iteration, config_id, budget)
        parent = self._trial_of.get(config_id)
        self._trial_of[config_id] = self._asked
        configuration = iteration.data[config_id].config_info["configuration"]
        epochs = round(budget)
        if parent is not None:
            return Suggestion(configuration, PROMOTION, epochs, parent)
        return Suggestion(configuration, self._sampled_from, epochs, note=self._note)

    def restore(self, trial: Trial) -> None:
        """Replay one ask: the brackets advance, and the recorded configuration takes the place of sampling."""
        self._recorded = trial.configuration
        suggestion = self._suggest(np.random.default_rng([self.seed, self._asked]))
        self._recorded = None
        if suggestion.configuration != trial.configuration or suggestion.epochs != trial.epochs:
            raise OptimizerError(
                f"trial {trial.id} does not follow from the history before it: the journal was changed"
            )
        super().restore(trial)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        job = self._job(trial, {"loss": evaluation.objective})
        with _private_random_state(np.random.default_rng([self.seed, trial.id, 1])), _quiet():
            self._generator.new_result(job)

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial: its bracket goes on without it, and no model hears of it."""
        super().forget(trial)
        self._job(trial, None)

    def _job(self, trial: Trial, result: dict[str, float] | None) -> Any:
        from hpbandster.core.dispatcher import Job

        iteration, config_id, budget = self._runs.pop(trial.id)
        job = Job(config_id, config=iteration.data[config_id].config, budget=budget)
        job.result = result
        iteration.register_result(job)
        return job

    def _next_run(self) -> tuple[Any, tuple[int, int, int], dict[str, float], float]:
        """From the oldest bracket that has work; a new bracket where all wait for results."""
        for iteration in self._iterations:
            run = iteration.get_next_run()
            if run is not None:
                return iteration, *run
        self._iterations = [iteration for iteration in self._iterations if not iteration.is_finished]
        iteration = self._new_iteration()
        return iteration, *iteration.get_next_run()

    def _new_iteration(self) -> Any:
        from hpbandster.optimizers.iterations import SuccessiveHalving

        number = self._opened
        self._opened += 1
        sizes, budgets = self.brackets[number % len(self.brackets)]
        iteration = SuccessiveHalving(number, list(sizes), list(budgets), self._sample)
        self._iterations.append(iteration)
        return iteration

    def _sample(self, budget: float) -> tuple[dict[str, float], dict[str, Any]]:
        """hpbandster asks for a configuration here; the model may fall back to chance, which is noted."""
        if self._recorded is not None:
            return self._as_hpbandster(self._recorded), {"configuration": self._recorded}
        self._fallbacks.messages.clear()
        config, info = self._generator.get_config(budget)
        self._note = "; ".join(self._fallbacks.messages)
        self._sampled_from = MODEL if info.get("model_based_pick") and not self._note else RANDOM
        # To values and back, so that a replay from the recorded values gives hpbandster the same numbers.
        configuration = self.space.decode([config[name] for name in _names(self.space)])
        return self._as_hpbandster(configuration), {**info, "configuration": configuration}

    def _as_hpbandster(self, configuration: Configuration) -> dict[str, float]:
        x = self.space.encode(configuration)
        D = len(self.space.continuous)
        values = [*(float(u) for u in x[:D]), *(int(i) for i in x[D:])]
        return dict(zip(_names(self.space), values, strict=True))


def brackets(epochs: int, eta: int = 3) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """One cycle of brackets as (sizes, budgets) per rung, as HpBandSter makes them.

    With 25 epochs and eta 3: 27-9-3-1, 9-3-1, 6-2 and 4 trials at rungs that round to 1, 3, 8, 25 epochs.
    """
    least, most = 1.0 - HALF, epochs + HALF
    rungs = -int(math.log(least / most) / math.log(eta)) + 1
    budgets = [most * eta**-i for i in reversed(range(rungs))]
    cycle = []
    for s in reversed(range(rungs)):
        first = rungs // (s + 1) * eta**s
        sizes = tuple(max(int(first * eta**-i), 1) for i in range(s + 1))
        cycle.append((sizes, tuple(budgets[-s - 1 :])))
    return cycle


def _names(space: Space) -> Sequence[str]:
    return [v.name for v in space.continuous] + [v.name for v in space.discrete]


def _configuration_space(space: Space) -> Any:
    import ConfigSpace

    made = ConfigSpace.ConfigurationSpace()
    for real in space.continuous:
        made.add(ConfigSpace.UniformFloatHyperparameter(real.name, 0.0, 1.0))
    for variable in space.discrete:
        last = len(variable.vertices) - 1
        if isinstance(variable, Integer | Ordinal):
            made.add(ConfigSpace.UniformIntegerHyperparameter(variable.name, 0, last))
        else:
            made.add(ConfigSpace.CategoricalHyperparameter(variable.name, list(range(last + 1))))
    return made


class _Fallbacks(logging.Handler):
    """Hears hpbandster's only sign that its model failed and chance chose: a logged warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.logger = logging.Logger("fmnas.bohb")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "random configuration" in message:
            # The message may hold a traceback: its last line is the error.
            lines = [line.strip() for line in message.splitlines() if not line.strip().startswith("Using random")]
            self.messages.append(f"the model failed and chance chose: {[line for line in lines if line][-1][:200]}")


@contextmanager
def _private_random_state(rng: np.random.Generator) -> Iterator[None]:
    """hpbandster and scipy draw from numpy's global state: give them one of ours, and put the caller's back."""
    callers = np.random.get_state()
    np.random.seed(int(rng.integers(2**32)))
    try:
        yield
    finally:
        np.random.set_state(callers)


@contextmanager
def _quiet() -> Iterator[None]:
    """hpbandster is unmaintained: it uses old spellings of ConfigSpace and statsmodels, which warn about them."""
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield
