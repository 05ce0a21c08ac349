"""SMAC (Hutter et al. 2011; Lindauer et al. 2022): a random forest and expected improvement, by the package smac.

The facade for hyperparameter optimization: 10 trees of the log-scaled objective, log EI, 10 local searches from the
best of 10 000 random and of all tried configurations, and a random configuration with probability 0.2. Differences from
the facade's defaults:

- The shared initial design replaces its Sobol points.
- The forest is fitted in every ask; smac takes 8 configurations from each forest.
- Each configuration is tried once (deterministic=True). The BO-FM paper's SMAC treated the objective as noisy and
  repeated promising configurations.

The conversion of spaces is in space_conversion.py; the trees split categories by index. Pending trials are running
entries of smac's history. No configuration is suggested twice; once all were tried, suggestions are random.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from annotated_types import Interval

from fmnas.baselines.external import MAX_REJECTED, WrappedOptimizer
from fmnas.baselines.space_conversion import configuration_space, from_configspace, to_configspace
from fmnas.optimizers import Suggestion
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import FALLBACK, MODEL, RANDOM

TRIAL_SEED = 0
"""smac's seed of all trials with a deterministic objective."""


class SMAC(WrappedOptimizer):
    """smac's facade for hyperparameter optimization.

    challengers: random configurations that the acquisition function ranks.
    local_searches: number of local searches from the best of them, and from the best tried configurations.
    """

    name = "smac"
    package = "smac"

    def __init__(
        self,
        space: Space,
        *,
        challengers: Annotated[int, Interval(ge=1, le=1_000_000)] = 10_000,
        local_searches: Annotated[int, Interval(ge=1, le=1_000)] = 10,
        **others: Any,
    ) -> None:
        super().__init__(space, **others)
        check_options(type(self), challengers=challengers, local_searches=local_searches)
        self.challengers = challengers
        self.local_searches = local_searches
        self._configuration_space = configuration_space(space)

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Yield the challengers of one forest, ranked by smac."""
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        selector = self.selector(seed)
        try:
            for config in selector:
                yield self._to_suggestion(config)
        except ConfigurationSpaceExhaustedException:
            return

    def selector(self, seed: int) -> Any:
        """Return a ConfigSelector made by smac's facade, whose RunHistory has all trials."""
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario
        from smac.main.config_selector import ConfigSelector
        from smac.model.random_forest.random_forest import RandomForest

        with TemporaryDirectory() as folder:  # the facade writes its settings
            scenario = Scenario(self._configuration_space, output_directory=Path(folder), deterministic=True, seed=seed)
            selector = ConfigSelector(scenario, retrain_after=MAX_REJECTED)
            facade = Facade(
                scenario,
                model=RandomForest(
                    self._configuration_space,
                    log_y=True,
                    ratio_features=1.0,
                    min_samples_split=2,
                    min_samples_leaf=1,
                    max_leaf_nodes=2 * len(self.history) + 2,  # sklearn allocates them: by default a million per tree
                    seed=seed,
                    n_jobs=1,  # get_model would use all cores
                ),
                acquisition_maximizer=self._maximizer(seed),
                initial_design=Facade.get_initial_design(scenario, n_configs=0),
                config_selector=selector,
                logging_level=False,
                overwrite=True,
            )
        self._add_trials(facade.runhistory)
        return selector

    def _maximizer(self, seed: int) -> Any:
        """Return the facade's maximizer with reproducibly ordered starts: smac collects them in a set."""
        from smac.acquisition.maximizer import LocalAndSortedRandomSearch, LocalSearch

        class OrderedLocalSearch(LocalSearch):  # type: ignore[misc]  # smac is optional
            def _get_initial_points(self, *args: Any, **kwargs: Any) -> list[Any]:
                points = super()._get_initial_points(*args, **kwargs)
                return sorted(points, key=lambda config: config.get_array().tolist())

        space = self._configuration_space
        maximizer = LocalAndSortedRandomSearch(
            space, challengers=self.challengers, local_search_iterations=self.local_searches, seed=seed
        )
        maximizer._local_search = OrderedLocalSearch(space, seed=seed)
        return maximizer

    def _add_trials(self, history: Any) -> None:
        """Add all trials, in the order asked."""
        from ConfigSpace import Configuration as Config
        from smac.runhistory import TrialInfo

        for trial, objective in self.all_trials():
            config = Config(self._configuration_space, values=to_configspace(self.space, trial.configuration))
            if objective is None:
                history.add_running_trial(TrialInfo(config, seed=TRIAL_SEED))
            else:
                history.add(config, objective, seed=TRIAL_SEED)

    def _to_suggestion(self, config: Any) -> Suggestion:
        configuration = from_configspace(self.space, config)
        if config.origin is None or config.origin == "Random Search":  # no results yet, or one of the 20%
            return Suggestion(configuration, RANDOM)
        if config.origin.startswith("Random Search"):
            note = "smac: too few untried configurations; random configuration instead"
            return Suggestion(configuration, RANDOM, note=note, fallback=FALLBACK)
        return Suggestion(configuration, MODEL)
