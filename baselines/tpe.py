"""TPE (Bergstra et al. 2011): densities of good and of bad results, by Optuna's TPESampler with its own defaults.

What Optuna sees: Real (with its logarithm) and Integer as they are, Ordinal as the number of its place, Nominal and
Graph as categories; so it knows nothing of a Graph's edges. Pending trials are RUNNING ones, which count as bad
("constant liar"). Only the order of the objectives matters, not their scale.

Until `startup` results are in, Optuna draws at random. It may suggest what was tried before, and then that is tried
again. An infeasible suggestion is withdrawn, and Optuna draws again.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from fmnas.baselines.wrapped import WrappedOptimizer
from fmnas.optimizers import Suggestion
from fmnas.optimizers.options import Between, check_options
from fmnas.search_spaces import Configuration, Integer, Ordinal, Real, Space
from fmnas.search_spaces.records import MODEL, RANDOM
from fmnas.search_spaces.variables import Variable


class TPE(WrappedOptimizer):
    """Optuna's TPE.

    startup: results before which it draws at random.
    multivariate: one density over all variables; else one for each, as in the paper.
    """

    name = "tpe"
    package = "optuna"

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] = (),
        startup: Annotated[int, Between(1, 1_000_000)] = 10,
        multivariate: bool = True,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        check_options(type(self), startup=startup)
        self.startup = startup
        self.multivariate = multivariate
        self._distributions = {variable.name: _distribution(variable) for variable in space.variables}

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Draws of the sampler, one after the other."""
        from optuna.trial import TrialState

        study = self.study(seed)
        origin = RANDOM if len(self.history) < self.startup else MODEL
        while True:
            asked = study.ask(self._distributions)
            yield Suggestion(self._from_optuna(asked.params), origin)
            study.tell(asked, state=TrialState.FAIL)  # no density counts it

    def study(self, seed: int) -> Any:
        """An optuna.Study with all trials as Optuna knows them, in the order asked."""
        import optuna
        from optuna.trial import TrialState, create_trial

        sampler = optuna.samplers.TPESampler(
            n_startup_trials=self.startup, multivariate=self.multivariate, constant_liar=True, seed=seed
        )
        study = optuna.create_study(sampler=sampler)
        for trial, objective in self.tried():
            study.add_trial(
                create_trial(
                    state=TrialState.RUNNING if objective is None else TrialState.COMPLETE,
                    value=objective,
                    params=self._to_optuna(trial.configuration),
                    distributions=self._distributions,
                )
            )
        return study

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
