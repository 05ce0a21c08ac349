"""Hyperband (Li et al. 2018): brackets of successive halving with random configurations.

hpbandster's SuccessiveHalving is used as a library, without its nameserver and workers.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from fmnas.baselines.brackets import RungOptimizer, brackets
from fmnas.baselines.external import suppress_logs
from fmnas.optimizers import OptimizerError, Suggestion
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import PROMOTION, RANDOM

ConfigID = tuple[int, int, int]
"""hpbandster's number of a configuration: bracket, rung, and place in it."""


class Hyperband(RungOptimizer):
    """The best of each rung are promoted once all of its trials have ended; meanwhile the next bracket begins.

    Short trainings cost their epochs. It takes no initial design. A trial without a result leaves its bracket; if fewer
    are left than the next rung holds, the missing ones are random, as in hpbandster. Raises OptimizerError if
    hpbandster is not installed.

    The options are those of `RungOptimizer`.
    """

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        with suppress_logs("hpbandster"):
            optional_module(
                "hpbandster.optimizers.iterations", f"optimizer {type(self).__name__.lower()}", OptimizerError
            )
        self.brackets = brackets(self.epochs, self.eta, self.min_epochs)
        self._iterations: list[Any] = []
        self._opened = 0
        self._runs: dict[int, tuple[Any, ConfigID, float]] = {}  # by trial id
        self._trial_of: dict[ConfigID, int] = {}  # its last trial

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return self._next_suggestion(lambda budget: self._draw(budget, rng))

    def _draw(self, budget: float, rng: np.random.Generator) -> Suggestion:
        """Return a new configuration for a rung of that budget."""
        return Suggestion(self.space.sample(rng), RANDOM)

    def restore(self, trial: Trial) -> None:
        """Replay one ask with the recorded configuration instead of a new one, so that the brackets advance."""
        recorded = Suggestion(trial.configuration, trial.origin, note=trial.note, fallback=trial.fallback)
        suggestion = self._next_suggestion(lambda budget: recorded)
        if suggestion.configuration != trial.configuration or suggestion.epochs != trial.epochs:
            raise OptimizerError(f"trial {trial.id} does not follow from the trials before it: the journal was changed")
        super().restore(trial)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        self._finish_run(trial, {"loss": evaluation.objective})

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial: its bracket continues without it."""
        super().forget(trial)
        self._finish_run(trial, None)

    def _finish_run(self, trial: Trial, result: dict[str, float] | None) -> None:
        from hpbandster.core.dispatcher import Job

        iteration, config_id, budget = self._runs.pop(trial.id)
        job = Job(config_id, config=iteration.data[config_id].config, budget=budget)
        job.result = result
        iteration.register_result(job)

    def _next_suggestion(self, draw: Callable[[float], Suggestion]) -> Suggestion:
        """Return the next run, a promotion or what `draw` returns for the budget of a new configuration."""
        with suppress_logs("hpbandster"):
            iteration, config_id, budget = self._next_run(draw)
        self._runs[self._asked] = (iteration, config_id, budget)
        parent = self._trial_of.get(config_id)
        self._trial_of[config_id] = self._asked
        new: Suggestion = iteration.data[config_id].config_info["suggestion"]
        if parent is not None:
            return Suggestion(new.configuration, PROMOTION, round(budget), parent)
        return replace(new, epochs=round(budget))

    def _next_run(self, draw: Callable[[float], Suggestion]) -> tuple[Any, ConfigID, float]:
        """Return the next run of the oldest bracket with work; of a new bracket if all wait for results."""
        from hpbandster.optimizers.iterations import SuccessiveHalving

        def sample(budget: float) -> tuple[dict[str, Any], dict[str, Any]]:
            suggestion = draw(budget)
            return suggestion.configuration, {"suggestion": suggestion}

        for iteration in self._iterations:
            iteration.config_sampler = sample
            if run := iteration.get_next_run():
                return iteration, run[0], run[2]
        sizes, budgets = self.brackets[self._opened % len(self.brackets)]
        iteration = SuccessiveHalving(self._opened, list(sizes), list(budgets), sample)
        self._opened += 1
        self._iterations = [*(one for one in self._iterations if not one.is_finished), iteration]
        config_id, _, budget = iteration.get_next_run()
        return iteration, config_id, budget
