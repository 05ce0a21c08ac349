"""BOHB (Falkner et al. 2018): Hyperband's brackets with hpbandster's kernel density model.

hpbandster's config generator and SuccessiveHalving are used as a library, without its nameserver and workers. Until a
budget has enough results for two densities (by default 38 in 18 dimensions), BOHB is Hyperband with random sampling.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.external import suppress_logs
from fmnas.baselines.kde_model import DensityModel
from fmnas.baselines.space_conversion import to_configspace
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import PROMOTION

ROUNDING_MARGIN = 0.5 - 1e-6
"""Budgets range from 0.5 + 1e-6 to epochs + 0.5 - 1e-6 (the paper's), so that rounded rungs are evenly spaced."""
ETA, TOP_PERCENT = 3, 15
"""The paper's values."""


class BOHB(Optimizer):
    """Brackets of successive halving over epochs; new configurations come from density models of good and bad results.

    Short trainings cost their epochs. There is no initial design.

    eta: one of eta trials of a rung is promoted to the next one, which trains eta times as long.

    The other options are those of hpbandster's generator, with its defaults:

    min_points_in_model: results of a budget before its model is fitted, and minimum size of each of its two densities;
        at least (and by default) the number of variables + 1.
    top_n_percent: percentage of a budget's results that count as good.
    num_samples: candidates per pick.
    random_fraction: share of random new configurations.
    bandwidth_factor: factor of the bandwidths of continuous variables when candidates are drawn.
    min_bandwidth: smallest bandwidth, in unit-cube lengths.
    """

    def __init__(  # noqa: PLR0913  # one per option
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
        self._runs: dict[int, tuple[Any, tuple[int, int, int], float]] = {}  # by trial id
        self._trial_of: dict[tuple[int, int, int], int] = {}  # config id -> its last trial
        self._recorded: Suggestion | None = None  # sample this (in `restore`)

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if the density model never has enough results."""
        points, percent = options.get("min_points_in_model"), options.get("top_n_percent", TOP_PERCENT)
        needed = results_needed(plan.dimensions, points, percent)
        epochs = epochs_to_model(plan.epochs, options.get("eta", ETA), needed)
        if epochs < plan.evaluations * plan.epochs:
            return ""
        return (
            f"all new configurations are random: its model needs {needed} results per budget; use at least "
            f"{plan.budget}={epochs // plan.epochs + 1}"
        )

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        with IsolatedRNG(int(rng.integers(2**32))).activate(), suppress_logs("hpbandster"):
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
        """Replay one ask with the recorded configuration instead of sampling, so that the brackets advance."""
        self._recorded = Suggestion(trial.configuration, trial.origin, note=trial.note, fallback=trial.fallback)
        suggestion = self._suggest(np.random.default_rng([self.seed, self._asked]))
        self._recorded = None
        if suggestion.configuration != trial.configuration or suggestion.epochs != trial.epochs:
            raise OptimizerError(f"trial {trial.id} does not follow from the trials before it: the journal was changed")
        super().restore(trial)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        job = self._finish_job(trial, {"loss": evaluation.objective})
        with suppress_logs("hpbandster"):
            self._model.observe(job)

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial: its bracket continues without it."""
        super().forget(trial)
        self._finish_job(trial, None)

    def _finish_job(self, trial: Trial, result: dict[str, float] | None) -> Any:
        from hpbandster.core.dispatcher import Job

        iteration, config_id, budget = self._runs.pop(trial.id)
        job = Job(config_id, config=iteration.data[config_id].config, budget=budget)
        job.result = result
        iteration.register_result(job)
        return job

    def _next_run(self) -> tuple[Any, tuple[int, int, int], dict[str, float], float]:
        """Return the next run of the oldest bracket with work; of a new bracket if all wait for results."""
        from hpbandster.optimizers.iterations import SuccessiveHalving

        for iteration in self._iterations:
            run = iteration.get_next_run()
            if run is not None:
                return iteration, *run
        sizes, budgets = self.brackets[self._opened % len(self.brackets)]
        iteration = SuccessiveHalving(self._opened, list(sizes), list(budgets), self._sample)
        self._opened += 1
        self._iterations = [*(one for one in self._iterations if not one.is_finished), iteration]
        return iteration, *iteration.get_next_run()

    def _sample(self, budget: float) -> tuple[dict[str, float], dict[str, Any]]:
        """Return a configuration in ConfigSpace's values, and its info; called by hpbandster."""
        pick = self._recorded or self._model.pick(budget)
        # Converted from the decoded values, so that a replay gives hpbandster the same numbers.
        return to_configspace(self._model.space, pick.configuration), {"pick": pick}


def brackets(
    epochs: int, eta: Annotated[int, Interval(ge=2, le=1_000_000)] = ETA
) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    """Return one cycle of HpBandSter's brackets as (sizes, budgets) of their rungs.

    For 25 epochs and eta 3: 27-9-3-1, 9-3-1, 6-2 and 4 trials at 1, 3, 8 and 25 epochs (rounded).
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
    """Return the number of results per budget that hpbandster's model needs.

    top_n_percent of them, but at least min_points_in_model, are good; more than `dimensions` must be bad.
    """
    good = max(min_points_in_model or 0, dimensions + 1)
    return next(n for n in count(good + dimensions + 1) if n - top_n_percent * n // 100 > dimensions)


def epochs_to_model(epochs: int, eta: int, needed: int) -> int:
    """Return the epochs that sequential BOHB needs until a rung has `needed` results."""
    cycle, counts, spent = brackets(epochs, eta), dict[float, int](), 0
    while True:
        for sizes, budgets in cycle:
            for size, budget in zip(sizes, budgets, strict=True):
                missing = needed - counts.get(budget, 0)
                counts[budget] = counts.get(budget, 0) + size
                spent += min(size, missing) * round(budget)
                if size >= missing:
                    return spent
