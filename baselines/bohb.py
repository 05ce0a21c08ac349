"""BOHB (Falkner et al. 2018): Hyperband's brackets with hpbandster's own kernel density model.

hpbandster's config generator and SuccessiveHalving are used as a library: no nameserver, no workers of its own.

Before a budget has the results that two models need (38 in 18 dimensions, by default), BOHB is Hyperband with random
sampling: each trial's origin says which it was.
"""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.kde_model import DensityModel, quiet
from fmnas.baselines.space_conversion import to_configspace
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.isolation import PrivateRandomState
from fmnas.optimizers.optimizer import Plan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import PROMOTION

ROUNDING_MARGIN = 0.5 - 1e-6
"""Budgets run from 0.5 + 1e-6 to epochs + 0.5 - 1e-6 (the paper's setting): rounding then spreads the rungs evenly."""
ETA = 3
"""The paper's."""
TOP_PERCENT = 15
"""hpbandster's, and the paper's."""


class BOHB(Optimizer):
    """Brackets of successive halving over epochs; new configurations from density models of good and bad results.

    Pays for its short trainings by the epoch. Picks its own first configurations: it takes no initial design.

    eta: how many trials of a rung compete for one place in the next, and how much longer that trains.

    The other options are those of hpbandster's generator, with its defaults:

    min_points_in_model: results of one budget before its model is fitted, and the fewest that each of its two densities
        is fitted to. hpbandster raises it to the number of variables + 1, which is also what None stands for.
    top_n_percent: percentage of a budget's results that count as good.
    num_samples: candidates of one pick.
    random_fraction: share of new configurations that are drawn at random.
    bandwidth_factor: widens the bandwidths of continuous variables when candidates are drawn.
    min_bandwidth: the smallest bandwidth, in units of the unit cube.
    """

    def __init__(  # noqa: PLR0913  # an option each
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        eta: Annotated[int, Interval(ge=2, le=1_000_000)] = ETA,
        min_points_in_model: Annotated[int, Interval(ge=1, le=1_000_000)] | None = None,
        top_n_percent: Annotated[int, Interval(ge=1, le=99)] = TOP_PERCENT,
        num_samples: Annotated[int, Interval(ge=1, le=1_000_000)] = 64,
        random_fraction: Annotated[float, Interval(ge=0.0, le=1.0)] = 1 / 3,
        bandwidth_factor: Annotated[float, Interval(ge=1e-3, le=1e3)] = 3.0,
        min_bandwidth: Annotated[float, Interval(ge=1e-9, le=1.0)] = 1e-3,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs)
        options: dict[str, Any] = {
            "top_n_percent": top_n_percent,
            "num_samples": num_samples,
            "random_fraction": random_fraction,
            "bandwidth_factor": bandwidth_factor,
            "min_bandwidth": min_bandwidth,
        }
        if min_points_in_model is not None:
            options["min_points_in_model"] = min_points_in_model
        check_options(type(self), eta=eta, **options)
        self.brackets = brackets(epochs, eta)
        self._model = DensityModel(space, **options)
        self._iterations: list[Any] = []
        self._opened = 0
        self._runs: dict[int, tuple[Any, tuple[int, int, int], float]] = {}  # trial -> (iteration, config id, budget)
        self._trial_of: dict[tuple[int, int, int], int] = {}  # config id -> the trial that ran it last
        self._recorded: Suggestion | None = None  # while history is replayed: what to sample

    @classmethod
    def foreseen(cls, options: Mapping[str, Any], plan: Plan) -> str:
        """Whether the density model never has what it needs."""
        points, percent = options.get("min_points_in_model"), options.get("top_n_percent", TOP_PERCENT)
        needed = results_needed(plan.dimensions, points, percent)
        epochs = epochs_to_model(plan.epochs, options.get("eta", ETA), needed)
        if epochs < plan.evaluations * plan.epochs:
            return ""
        enough = epochs // plan.epochs + 1
        return (
            f"its model needs {needed} results of one length, which take {enough} evaluations; with {plan.evaluations} "
            f"all that is new is drawn at random: {plan.budget}={enough}, or more"
        )

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        with _random_state(rng), quiet():
            self._model.seed(int(rng.integers(2**31)))
            iteration, config_id, _, budget = self._next_run()
        self._runs[self._asked] = (iteration, config_id, budget)
        parent = self._trial_of.get(config_id)
        self._trial_of[config_id] = self._asked
        pick: Suggestion = iteration.data[config_id].config_info["pick"]
        if parent is not None:
            return Suggestion(pick.configuration, PROMOTION, round(budget), parent)
        return replace(pick, epochs=round(budget))

    def restore(self, trial: Trial) -> None:
        """Replay one ask: the brackets advance, and the recorded configuration takes the place of sampling."""
        self._recorded = Suggestion(trial.configuration, trial.origin, note=trial.note, fallback=trial.fallback)
        suggestion = self._suggest(np.random.default_rng([self.seed, self._asked]))
        self._recorded = None
        if suggestion.configuration != trial.configuration or suggestion.epochs != trial.epochs:
            raise OptimizerError(
                f"trial {trial.id} does not follow from the history before it: the journal was changed"
            )
        super().restore(trial)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        job = self._job(trial, {"loss": evaluation.objective})
        with quiet():
            self._model.observe(job)

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
        """hpbandster asks for a configuration here, in its own values, and for what else is to be kept with it."""
        pick = self._recorded or self._model.pick(budget)
        # From our values, so that a replay from the recorded ones gives hpbandster the same numbers.
        return to_configspace(self._model.space, pick.configuration), {"pick": pick}


def _random_state(rng: np.random.Generator) -> AbstractContextManager[None]:
    """hpbandster draws from global states: from these, for as long as this lasts."""
    return PrivateRandomState(int(rng.integers(2**32))).inside()


def brackets(
    epochs: int, eta: Annotated[int, Interval(ge=2, le=1_000_000)] = ETA
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """One cycle of brackets as (sizes, budgets) per rung, as HpBandSter makes them.

    With 25 epochs and eta 3: 27-9-3-1, 9-3-1, 6-2 and 4 trials at rungs that round to 1, 3, 8, 25 epochs.
    """
    least, most = 1.0 - ROUNDING_MARGIN, epochs + ROUNDING_MARGIN
    rungs = -int(math.log(least / most) / math.log(eta)) + 1
    budgets = [most * eta**-i for i in reversed(range(rungs))]
    cycle = []
    for s in reversed(range(rungs)):
        first = rungs // (s + 1) * eta**s
        sizes = tuple(max(int(first * eta**-i), 1) for i in range(s + 1))
        cycle.append((sizes, tuple(budgets[-s - 1 :])))
    return cycle


def results_needed(dimensions: int, min_points_in_model: int | None = None, top_n_percent: int = TOP_PERCENT) -> int:
    """How many results on one budget hpbandster's model needs.

    The good are top_n_percent of them, but at least min_points_in_model; the bad, all others, must be more than the
    dimensions.
    """
    good = max(min_points_in_model or 0, dimensions + 1)
    return next(n for n in count(good + dimensions + 1) if n - top_n_percent * n // 100 > dimensions)


def epochs_to_model(epochs: int, eta: int, needed: int) -> int:
    """The epochs that BOHB, one trial at a time, has spent when a rung has the results needed for its model."""
    cycle, counts, spent = brackets(epochs, eta), dict[float, int](), 0
    while True:
        for sizes, budgets in cycle:
            for size, budget in zip(sizes, budgets, strict=True):
                missing = needed - counts.get(budget, 0)
                counts[budget] = counts.get(budget, 0) + size
                spent += min(size, missing) * round(budget)
                if size >= missing:
                    return spent
