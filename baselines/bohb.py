"""BOHB (Falkner et al. 2018): Hyperband with hpbandster's kernel density model.

hpbandster's config generator is used as a library. Until a budget has enough results for two densities (by default 38
in 18 dimensions), BOHB is Hyperband. BOHB has these limitations:

- hpbandster estimates the bandwidth of a category from its codes 0, 1, 2, ... as if they were numbers. With many values
  it is wider than Aitchison and Aitken's kernel allows, and the model's picks are nearly uniform.
- The ends of an integer or ordinal are picked half as often as its other values. This is due to ConfigSpace 1.2;
  hpbandster was written for an earlier one.
- The model ignores failed trials; in hpbandster they are bad results.
"""

from collections.abc import Mapping
from itertools import count
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.brackets import ETA, MIN_EPOCHS, Eta, MinEpochs, brackets
from fmnas.baselines.external import suppress_logs
from fmnas.baselines.hyperband import Hyperband
from fmnas.baselines.kde_model import DensityModel
from fmnas.optimizers import Suggestion
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL

TOP_PERCENT = 15
"""The paper's value."""


class BOHB(Hyperband):
    """Hyperband whose new configurations come from density models of good and bad results.

    eta, min_epochs: as for Hyperband.

    The other options are those of hpbandster's generator, with its defaults:

    min_points_in_model: smallest size of the density of good results; at least (and by default) the number of
        variables + 1, which is the smallest size of the density of bad results.
    top_n_percent: percentage of a budget's results that count as good.
    num_samples: candidates per pick.
    random_fraction: share of random new configurations.
    bandwidth_factor: factor of the bandwidths of continuous variables when candidates are drawn.
    min_bandwidth: smallest bandwidth, in unit-cube lengths; of a category, a probability.
    """

    chooses = MODEL

    def __init__(  # noqa: PLR0913  # one per option
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        eta: Eta = ETA,
        min_epochs: MinEpochs = MIN_EPOCHS,
        min_points_in_model: Annotated[int, Interval(ge=1, le=1_000_000)] | None = None,
        top_n_percent: Annotated[int, Interval(ge=1, le=99)] = TOP_PERCENT,
        num_samples: Annotated[int, Interval(ge=1, le=1_000_000)] = 64,
        random_fraction: Annotated[float, Interval(ge=0.0, le=1.0)] = 1 / 3,
        bandwidth_factor: Annotated[float, Interval(ge=1e-3, le=1e3)] = 3.0,
        min_bandwidth: Annotated[float, Interval(ge=1e-9, le=1.0)] = 1e-3,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, eta=eta, min_epochs=min_epochs)
        options: dict[str, Any] = {
            "top_n_percent": top_n_percent,
            "num_samples": num_samples,
            "random_fraction": random_fraction,
            "bandwidth_factor": bandwidth_factor,
            "min_bandwidth": min_bandwidth,
        }
        if min_points_in_model is not None:
            options["min_points_in_model"] = min_points_in_model
        check_options(type(self), **options)
        self._model = DensityModel(space, **options)

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if the density model never has enough results."""
        points, percent = options.get("min_points_in_model"), options.get("top_n_percent", TOP_PERCENT)
        needed = results_needed(plan.dimensions, points, percent)
        eta, min_epochs = options.get("eta", ETA), options.get("min_epochs", MIN_EPOCHS)
        epochs = epochs_to_model(plan.epochs, eta, needed, min_epochs)
        if epochs < plan.evaluations * plan.epochs:
            return ""
        return (
            f"all new configurations are random: its model needs {needed} results per budget; use at least "
            f"{plan.budget}={epochs // plan.epochs + 1}"
        )

    def _draw(self, budget: float, rng: np.random.Generator) -> Suggestion:
        with IsolatedRNG(int(rng.integers(2**32))).activate():
            self._model.seed(int(rng.integers(2**31)))
            return self._model.pick(budget)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        _, _, budget = self._runs[trial.id]
        super()._observe(trial, evaluation)
        with suppress_logs("hpbandster"):
            self._model.observe(trial.configuration, budget, evaluation.objective)


def results_needed(dimensions: int, min_points_in_model: int | None = None, top_n_percent: int = TOP_PERCENT) -> int:
    """Return the number of results per budget that hpbandster's model needs.

    top_n_percent of them, but at least min_points_in_model, are good; more than `dimensions` must be bad.
    """
    good = max(min_points_in_model or 0, dimensions + 1)
    return next(n for n in count(good + dimensions + 1) if n - top_n_percent * n // 100 > dimensions)


def epochs_to_model(epochs: int, eta: int, needed: int, min_epochs: int = MIN_EPOCHS) -> int:
    """Return the epochs that sequential BOHB needs until a rung has `needed` results."""
    cycle, counts, spent = brackets(epochs, eta, min_epochs), dict[float, int](), 0
    while True:
        for sizes, budgets in cycle:
            for size, budget in zip(sizes, budgets, strict=True):
                missing = needed - counts.get(budget, 0)
                counts[budget] = counts.get(budget, 0) + size
                spent += min(size, missing) * round(budget)
                if size >= missing:
                    return spent
