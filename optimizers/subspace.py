"""An optimizer of a subspace's free variables, as an optimizer of the whole space.

    subspace = Subspace(joint_space(), {"op1": "conv3x3"})
    optimizer = SubspaceOptimizer(subspace, BOFM(subspace.free, seed=0))
    optimizer.ask().configuration        # all 18 variables

The inner optimizer has only the free variables; the trials that callers see are complete.
"""

from dataclasses import replace

import numpy as np

from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion
from fmnas.search_spaces import Evaluation, Subspace, Trial


class SubspaceOptimizer(Optimizer):
    """Completes the trials of the inner optimizer and passes their results to it.

    Seed, epochs, log_objective and initial design are those of the inner optimizer.
    """

    def __init__(self, subspace: Subspace, inner: Optimizer) -> None:
        """inner: an optimizer of `subspace.free` that was not asked yet; otherwise OptimizerError is raised."""
        super().__init__(subspace.whole, seed=inner.seed, epochs=inner.epochs)
        if inner.space != subspace.free or inner.pending or inner.history:
            raise OptimizerError(
                f"{type(inner).__name__} over {list(inner.space.names)}: it must be over {list(subspace.free.names)} "
                "and not have been asked yet"
            )
        self.subspace, self.inner, self.log_objective = subspace, inner, inner.log_objective

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial that will not have a result."""
        super().forget(trial)
        self.inner.forget(self._reduce(trial))

    def restore(self, trial: Trial) -> None:
        """Register a trial that was asked before."""
        super().restore(trial)
        self.inner.restore(self._reduce(trial))

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        """Complete the inner optimizer's trial; `rng` is not used."""
        trial = self.inner.ask()
        if trial is None:
            return None
        return Suggestion(
            self.subspace.add_fixed(trial.configuration),
            trial.origin,
            trial.epochs,
            trial.parent,
            trial.note,
            trial.memo,
            trial.fallback,
        )

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        self.inner.tell(self._reduce(trial), evaluation)

    def _reduce(self, trial: Trial) -> Trial:
        return replace(trial, configuration=self.subspace.reduce(trial.configuration))
