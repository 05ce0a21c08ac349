"""hpbandster's kernel density model of good and bad results, the source of BOHB's configurations.

The conversion of spaces is in space_conversion.py. hpbandster does not support constraints. With them, an infeasible
candidate loses against every feasible one; if all are infeasible, the model draws others, and at last the configuration
is random. An infeasible random draw is replaced by a feasible one, so that the share of random draws is unchanged.

Nine tenths of its time go into draws from truncated normal distributions by scipy and densities by statsmodels, one
number at a time. Both are replaced here by the same formulas, with the same random numbers.
"""

import logging
from collections.abc import Callable, Sequence
from math import pi, sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np

from fmnas.baselines.external import suppress_logs
from fmnas.baselines.space_conversion import configuration_space, from_configspace, to_configspace
from fmnas.optimizers import OptimizerError, Suggestion
from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

MAX_PICKS = 20
"""Picks of the model, each the best of 64 candidates, before the suggestion is random."""
INFEASIBLE_DENSITY = {"good": 0.0, "bad": 1e100}
"""Densities of infeasible candidates: hpbandster minimises bad / good, which is then finite and the worst."""


class DensityModel:
    """hpbandster's config generator. It uses numpy's global random state: activate an `IsolatedRNG` around calls."""

    def __init__(self, space: Space, **options: Any) -> None:
        """options: those of hpbandster's generator. Raises OptimizerError if hpbandster is not installed."""
        self.space = space
        self._fallbacks = _FallbackLogHandler()
        self._configuration_space = configuration_space(space)
        with suppress_logs("hpbandster"):
            bohb = optional_module("hpbandster.optimizers.config_generators.bohb", "optimizer bohb", OptimizerError)
            # For the whole process, as a function of that module asks for it; the numbers are the same.
            bohb.sps = SimpleNamespace(truncnorm=SimpleNamespace(rvs=draw_truncated_normal))
            self.generator = bohb.BOHB(self._configuration_space, logger=self._fallbacks.logger, **options)

    def seed(self, number: int) -> None:
        """Seed ConfigSpace's random generator."""
        self._configuration_space.seed(number)

    def observe(self, configuration: Configuration, budget: float, objective: float) -> None:
        """Add a result and refit the model of its budget; this draws no random numbers."""
        from hpbandster.core.dispatcher import Job

        job = Job(None, config=to_configspace(self.space, configuration), budget=budget)
        job.result = {"loss": objective}
        self.generator.new_result(job)
        is_feasible = self._is_feasible_vector if self.space.constraints else None
        for models in self.generator.kde_models.values():
            for which, model in models.items():
                if not isinstance(model, Density):
                    models[which] = Density(model, is_feasible, INFEASIBLE_DENSITY[which])

    def pick(self, budget: float) -> Suggestion:
        """Return a feasible suggestion for a budget with the origin MODEL or RANDOM."""
        picked = self._pick(budget)
        if self._is_feasible(picked):
            return picked
        note, fallback = picked.note, picked.fallback
        if picked.origin == MODEL:
            for _ in range(MAX_PICKS - 1):
                again = self._pick(budget)
                if again.origin == MODEL and self._is_feasible(again):
                    return again
            note = f"the model: {MAX_PICKS} picks were infeasible; random configuration instead"
            fallback = FALLBACK
        rng = np.random.default_rng(np.random.randint(2**31))
        return Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=fallback)

    def _pick(self, budget: float) -> Suggestion:
        """Return one pick, feasible or not."""
        self._fallbacks.messages.clear()
        config, info = self.generator.get_config(budget)
        note = "; ".join(self._fallbacks.messages)
        origin = MODEL if info.get("model_based_pick") and not note else RANDOM
        return Suggestion(from_configspace(self.space, config), origin, note=note, fallback=FAILED_FIT if note else "")

    def _is_feasible(self, pick: Suggestion) -> bool:
        return self.space.meets_constraints(pick.configuration, strictly=True)

    def _is_feasible_vector(self, vector: Sequence[float]) -> bool:
        """Return whether a candidate in ConfigSpace's internal representation is feasible."""
        import ConfigSpace

        config = ConfigSpace.Configuration(self._configuration_space, vector=np.array(vector, dtype=float))
        return self.space.meets_constraints(from_configspace(self.space, config), strictly=True)


class Density:
    """One of hpbandster's densities, of the data [n, d] with the bandwidths bw [d].

    is_feasible: if it is false of a candidate, its density is `infeasible_value`.
    """

    def __init__(
        self, model: Any, is_feasible: Callable[[Sequence[float]], bool] | None = None, infeasible_value: float = 0.0
    ) -> None:
        self.data, self.bw = model.data, model.bw
        self._is_feasible, self._infeasible_value = is_feasible, infeasible_value
        self._is_real = np.array(list(model.var_type)) == "c"
        levels = np.array([len(np.unique(column)) for column in self.data.T])
        with np.errstate(divide="ignore"):  # a categorical variable of one value: hpbandster expects infinity
            self._of_others = self.bw / (levels - 1)
        self._scale = np.prod(self.bw[self._is_real]) * len(self.data)

    def pdf(self, vector: Sequence[float]) -> float:
        """Return the density at one candidate, of Gaussian and, for categories, Aitchison and Aitken's kernels."""
        if self._is_feasible is not None and not self._is_feasible(vector):
            return self._infeasible_value
        apart = self.data - np.asarray(vector)
        kernels = np.where(apart == 0, 1 - self.bw, self._of_others)
        real = self._is_real
        kernels[:, real] = np.exp(-(apart[:, real] ** 2) / (2 * self.bw[real] ** 2)) / sqrt(2 * pi)
        return float(kernels.prod(axis=1).sum() / self._scale)


def draw_truncated_normal(a: float, b: float, *, loc: float, scale: float) -> float:
    """Draw what scipy.stats.truncnorm.rvs does, for a <= 0 <= b, from numpy's global random state."""
    from scipy.special import log_ndtr, ndtr, ndtri_exp  # not at the top, as commands that optimize nothing load this

    uniform = np.random.uniform()
    log_mass = np.log1p(-ndtr(a) - ndtr(-b))
    if a < 0:
        return float(ndtri_exp(np.logaddexp(log_ndtr(a), np.log(uniform) + log_mass)) * scale + loc)
    return float(-ndtri_exp(np.logaddexp(log_ndtr(-b), np.log1p(-uniform) + log_mass)) * scale + loc)


class _FallbackLogHandler(logging.Handler):
    """Collects logged warnings, hpbandster's only sign that its model failed and it drew at random."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.logger = logging.Logger("fmnas.bohb")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "random configuration" in message:
            # The message may contain a traceback, whose last line is the error.
            lines = [line.strip() for line in message.splitlines() if not line.strip().startswith("Using random")]
            self.messages.append(
                f"the model failed; random configuration instead: {[line for line in lines if line][-1][:200]}"
            )
