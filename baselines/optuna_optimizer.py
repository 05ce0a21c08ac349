"""What optimizers share that ask a sampler of Optuna: a space, a trial and a study, as Optuna has them.

What Optuna sees: Real (with its logarithm) and Integer as they are, Ordinal as the number of its place, Nominal and
Graph as categories; so it knows nothing of a Graph's edges. Pending trials are RUNNING ones. Only one objective, which
is minimised, and no epochs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from fmnas.baselines.wrapped import WrappedOptimizer
from fmnas.search_spaces import Configuration, Integer, Ordinal, Real, Space
from fmnas.search_spaces.variables import Variable


class OptunaOptimizer(WrappedOptimizer):
    """Base of optimizers whose suggestions are asked of an optuna.Study."""

    package = "optuna"

    def __init__(
        self, space: Space, *, seed: int = 0, epochs: int = 1, initial_design: Sequence[Configuration] = ()
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self._distributions = {variable.name: _distribution(variable) for variable in space.variables}

    def _draws(self, study: Any) -> Iterator[tuple[int, Configuration]]:
        """Number and configuration of what a study's sampler draws, one after the other.

        A draw is withdrawn when the next one is asked for: no sampler counts a failed trial.
        """
        from optuna.trial import TrialState

        while True:
            asked = study.ask(self._distributions)
            yield asked.number, self._from_optuna(asked.params)
            study.tell(asked, state=TrialState.FAIL)

    def _to_optuna(self, configuration: Configuration) -> dict[str, Any]:
        return {
            v.name: configuration[v.name] if isinstance(v, Real | Integer) else v.index(configuration[v.name])
            for v in self.space.variables
        }

    def _from_optuna(self, params: dict[str, Any]) -> Configuration:
        return {
            v.name: params[v.name] if isinstance(v, Real | Integer) else v.vertices[params[v.name]]
            for v in self.space.variables
        }


def _distribution(variable: Variable) -> Any:
    from optuna import distributions

    if isinstance(variable, Real):
        return distributions.FloatDistribution(variable.low, variable.high, log=variable.log)
    if isinstance(variable, Integer):
        return distributions.IntDistribution(variable.low, variable.high)
    places = len(variable.vertices)
    if isinstance(variable, Ordinal):
        return distributions.IntDistribution(0, places - 1)
    return distributions.CategoricalDistribution(range(places))
