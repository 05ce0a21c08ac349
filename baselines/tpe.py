"""TPE (Bergstra et al. 2011): densities of good and of bad results, by Optuna's TPESampler with its own defaults.

The defaults include `multivariate=True`: one density over all variables (Falkner et al. 2018). The TPE of Bergstra et
al., of hyperopt and of published tables has one density per variable: `multivariate=False`. Hyperopt also takes fewer
results for good, and begins after 20 random trials, not 10.

Pending trials count as bad ("constant liar"). Only the order of the objectives matters. Optuna draws at random until
there are `startup` results, and may suggest a configuration twice. Infeasible suggestions are rejected, and it draws
again. Each ask has a new sampler. The study of all trials is kept: building it takes longer than drawing.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from annotated_types import Interval

from fmnas.baselines.optuna_sampler import OptunaOptimizer
from fmnas.baselines.space_conversion import from_optuna, to_optuna
from fmnas.optimizers import Suggestion
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space, Trial
from fmnas.search_spaces.records import MODEL, RANDOM


class TPE(OptunaOptimizer):
    """Optuna's TPE.

    startup: number of results before the first suggestion of the model.
    multivariate: one density over all variables (Optuna's default); False: one per variable, as in the papers.
    """

    name = "tpe"

    def __init__(
        self,
        space: Space,
        *,
        startup: Annotated[int, Interval(ge=1, le=1_000_000)] = 10,
        multivariate: bool = True,
        **others: Any,
    ) -> None:
        super().__init__(space, **others)
        check_options(type(self), startup=startup)
        self.startup = startup
        self.multivariate = multivariate

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if the model never makes a suggestion."""
        advice = f"{plan.option}startup={max(1, plan.evaluations // 3)}"
        return plan.warn_of_random_search("startup", options.get("startup"), advice)

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Yield draws of the sampler."""
        self._study.sampler = self._build_sampler(seed)
        origin = RANDOM if len(self.history) < self.startup else MODEL
        while True:
            draw = self._study.ask(self.distributions)
            self._discard(draw.number)  # `_register` adds the suggested trial
            yield Suggestion(from_optuna(self.space, draw.params), origin)

    def _build_sampler(self, seed: int) -> Any:
        from optuna.samplers import TPESampler

        tpe = TPESampler(n_startup_trials=self.startup, multivariate=self.multivariate, constant_liar=True, seed=seed)
        tpe.infer_relative_search_space = self._relative_search_space
        return tpe

    def _relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        """Return the variables of the joint density: Optuna would look for them in all trials."""
        return dict(sorted(self.distributions.items())) if self.multivariate else {}

    def _register(self, trial: Trial) -> None:
        from optuna.trial import TrialState, create_trial

        super()._register(trial)
        params = to_optuna(self.space, trial.configuration)
        running = create_trial(state=TrialState.RUNNING, params=params, distributions=self.distributions)
        self._numbers[trial.id] = len(self._study.get_trials(deepcopy=False))
        self._study.add_trial(running)
