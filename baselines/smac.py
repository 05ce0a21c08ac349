"""SMAC (Hutter et al. 2011; Lindauer et al. 2022): a random forest and expected improvement, by the package smac.

Of its facade for hyperparameter optimization: 10 trees of the log-scaled objective, log EI, 10 local searches from the
best of 10 000 random configurations and of those tried, and with probability 0.2 a random configuration instead. What
differs from the facade's defaults:

- The shared initial design takes the place of its Sobol points.
- The forest is grown for every ask, where smac by itself takes 8 configurations from each.
- Each configuration is tried once (deterministic=True). The BO-FM paper's SMAC took the objective for a noisy one and
  tried promising configurations again, at the cost of new ones.

What smac sees of a space, and what that loses, says foreign_spaces.py; its trees split the categories by their
numbers. Pending trials are running entries of its history: it does not suggest them again, and learns nothing from
them. It suggests nothing twice; where the space is used up, chance chooses.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from annotated_types import Interval

from fmnas.baselines.external import LOOKED_AT, WrappedOptimizer
from fmnas.baselines.space_conversion import configuration_space, from_configspace, to_configspace
from fmnas.optimizers import Suggestion
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import FALLBACK, MODEL, RANDOM

INTERLEAVED = 0.2
"""The share of random configurations."""
TRIAL_SEED = 0
"""Which smac gives every trial, where the objective is deterministic."""


class SMAC(WrappedOptimizer):
    """smac's facade for hyperparameter optimization.

    challengers: random configurations that its acquisition function sorts.
    local_searches: begin at so many of the best of them, and at as many of those tried.
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
        """The challengers of one forest, as smac sorts them."""
        from smac.main.exceptions import ConfigurationSpaceExhaustedException

        selector = self.selector(seed)
        try:
            for config in selector:
                yield self._suggestion(config)
        except ConfigurationSpaceExhaustedException:
            return

    def selector(self, seed: int) -> Any:
        """smac's ConfigSelector, put together by its facade, with all trials in the RunHistory that it reads."""
        from smac import HyperparameterOptimizationFacade as Facade
        from smac import Scenario
        from smac.main.config_selector import ConfigSelector
        from smac.model.random_forest.random_forest import RandomForest
        from smac.random_design import ProbabilityRandomDesign

        with TemporaryDirectory() as folder:  # a facade writes down how it is made
            scenario = Scenario(self._configuration_space, output_directory=Path(folder), deterministic=True, seed=seed)
            selector = ConfigSelector(scenario, retrain_after=LOOKED_AT)
            facade = Facade(
                scenario,
                model=RandomForest(
                    self._configuration_space,
                    log_y=True,
                    ratio_features=1.0,
                    min_samples_split=2,
                    min_samples_leaf=1,
                    max_leaf_nodes=2 * len(self.history)
                    + 2,  # sklearn makes room for them: by default, a million a tree
                    seed=seed,
                    n_jobs=1,  # get_model would take every core
                ),
                acquisition_maximizer=self._maximizer(seed),
                initial_design=Facade.get_initial_design(scenario, n_configs=0),
                random_design=ProbabilityRandomDesign(INTERLEAVED, seed=seed),  # get_random_design has one seed for all
                config_selector=selector,
                logging_level=False,
                overwrite=True,
            )
        self._tell(facade.runhistory)
        return selector

    def _maximizer(self, seed: int) -> Any:
        """The facade's own, but that it searches from its starting points in the same order in every process.

        smac collects them in a set, and the hash of a configuration is that of a string.
        """
        from smac.acquisition.maximizer import LocalAndSortedRandomSearch, LocalSearch

        class OrderedLocalSearch(LocalSearch):  # type: ignore[misc]  # a class only where smac is there
            def _get_initial_points(self, *given: Any, **named: Any) -> list[Any]:
                points = super()._get_initial_points(*given, **named)
                return sorted(points, key=lambda config: config.get_array().tolist())

        space = self._configuration_space
        maximizer = LocalAndSortedRandomSearch(
            space, challengers=self.challengers, local_search_iterations=self.local_searches, seed=seed
        )
        maximizer._local_search = OrderedLocalSearch(space, seed=seed)
        return maximizer

    def _tell(self, history: Any) -> None:
        """All trials, in the order asked."""
        from ConfigSpace import Configuration as Config
        from smac.runhistory import TrialInfo

        for trial, objective in self.tried():
            config = Config(self._configuration_space, values=to_configspace(self.space, trial.configuration))
            if objective is None:
                history.add_running_trial(TrialInfo(config, seed=TRIAL_SEED))
            else:
                history.add(config, objective, seed=TRIAL_SEED)

    def _suggestion(self, config: Any) -> Suggestion:
        configuration = from_configspace(self.space, config)
        if config.origin is None or config.origin == "Random Search":  # no results yet, or interleaved
            return Suggestion(configuration, RANDOM)
        if config.origin.startswith("Random Search"):
            note = "smac found too few configurations that were not tried before and chance chose"
            return Suggestion(configuration, RANDOM, note=note, fallback=FALLBACK)
        return Suggestion(configuration, MODEL)
