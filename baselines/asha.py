"""ASHA (Li et al. 2020), its promotion variant: successive halving that never waits for the rest of a rung."""

from typing import Any

import numpy as np

from fmnas.baselines.brackets import RungOptimizer, rungs
from fmnas.optimizers import Suggestion
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import PROMOTION, RANDOM


class ASHA(RungOptimizer):
    """Promotes a trial of the best 1/eta of its rung, from the highest rung down; else adds a random configuration.

    A rung has the trials with a result so far. Each is promoted once at most, even if that trial then has no result.
    Short trainings cost their epochs. It takes no initial design. The paper's rungs have min_epochs * eta^k epochs;
    these are spaced from the full fidelity down, as BOHB's, so that the highest one is full fidelity.

    The options are those of `RungOptimizer`.
    """

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        self.rungs = [round(budget) for budget in rungs(self.epochs, self.eta, self.min_epochs)]
        self._results: dict[int, list[tuple[float, Trial]]] = {rung: [] for rung in self.rungs}
        self._promoted: set[int] = set()

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        for rung, higher in reversed(list(zip(self.rungs, self.rungs[1:], strict=False))):
            trial = self._find_promotable(rung)
            if trial is not None:
                return Suggestion(trial.configuration, PROMOTION, higher, trial.id)
        return Suggestion(self.space.sample(rng), RANDOM, self.rungs[0])

    def _find_promotable(self, rung: int) -> Trial | None:
        """Return the best trial of a rung's best 1/eta that was not promoted; of equal ones, the first asked."""
        ranked = sorted(self._results[rung], key=lambda result: (result[0], result[1].id))
        best = (trial for _, trial in ranked[: len(ranked) // self.eta])
        return next((trial for trial in best if trial.id not in self._promoted), None)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        if trial.origin == PROMOTION and trial.parent is not None:
            self._promoted.add(trial.parent)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        self._results[trial.epochs].append((evaluation.objective, trial))
