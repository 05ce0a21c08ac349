"""An optimizer of the free variables of a space, as one of the whole space.

    subspace = Subspace(joint_space(), {"op1": "conv3x3"})
    optimizer = SubspaceOptimizer(subspace, BOFM(subspace.free, seed=0))
    optimizer.ask().configuration        # all 18 variables

Trials are complete on the outside, and have the free variables alone on the inside: no optimizer needs to know that
something is fixed, and nobody who sees its trials needs to know that the optimizer did not choose all of it.
"""

from dataclasses import replace

import numpy as np

from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion
from fmnas.search_spaces import Evaluation, Subspace, Trial


class SubspaceOptimizer(Optimizer):
    """Asks the inner optimizer and completes its trials; tells it what comes of them.

    It has the inner one's seed, epochs and log_objective; the initial design is the inner one's own.
    """

    def __init__(self, subspace: Subspace, inner: Optimizer) -> None:
        """inner: an optimizer of `subspace.free`, not yet asked. Raises OptimizerError for another."""
        super().__init__(subspace.whole, seed=inner.seed, epochs=inner.epochs)
        if inner.space != subspace.free or inner.pending or inner.history:
            raise OptimizerError(
                f"{type(inner).__name__} over {list(inner.space.names)}: it must be over {list(subspace.free.names)}, "
                "and not have been asked"
            )
        self.subspace, self.inner, self.log_objective = subspace, inner, inner.log_objective

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial that will never have a result."""
        super().forget(trial)
        self.inner.forget(self._reduced(trial))

    def restore(self, trial: Trial) -> None:
        """Note that this trial was asked before."""
        super().restore(trial)
        self.inner.restore(self._reduced(trial))

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        """The inner one's, completed; it draws from a generator of its own."""
        trial = self.inner.ask()
        if trial is None:
            return None
        return Suggestion(
            self.subspace.complete(trial.configuration),
            trial.origin,
            trial.epochs,
            trial.parent,
            trial.note,
            trial.memo,
            trial.fallback,
        )

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        self.inner.tell(self._reduced(trial), evaluation)

    def _reduced(self, trial: Trial) -> Trial:
        return replace(trial, configuration=self.subspace.reduce(trial.configuration))
