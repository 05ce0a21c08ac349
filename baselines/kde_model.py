"""hpbandster's model of good and bad results, as BOHB's source of configurations for one of our spaces.

What hpbandster sees of a space, and what that loses, says foreign_spaces.py.

hpbandster knows no constraints. Where the space has some, its model picks among the feasible of its candidates,
and picks again if there is none; an infeasible random pick is replaced by a uniform feasible one. So a third of the
picks are random, as always.
"""

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from fmnas.baselines.space_conversion import configuration_space, from_configspace
from fmnas.optimizers import Suggestion
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

PICKS = 20
"""How many picks, each the best of 64 candidates, are drawn before the model is taken to have no feasible one."""
OUTSIDE = {"good": 0.0, "bad": 1e100}
"""Densities of infeasible candidates: hpbandster minimises bad / good, which is then worse than any, and finite."""


class DensityModel:
    """hpbandster's config generator. A pick draws from numpy's global state: use it inside a `PrivateRandomState`."""

    def __init__(self, space: Space, **options: Any) -> None:
        """options: of hpbandster's generator."""
        with quiet():
            from hpbandster.optimizers.config_generators import bohb
        self.space = space
        self._fallbacks = _Fallbacks()
        self._configuration_space = configuration_space(space)
        with quiet():
            self.generator = bohb.BOHB(self._configuration_space, logger=self._fallbacks.logger, **options)

    def seed(self, number: int) -> None:
        """Start ConfigSpace's own random numbers anew."""
        self._configuration_space.seed(number)

    def observe(self, job: Any) -> None:
        """Take hpbandster's record of a result; refits the model of its budget, which draws no random numbers."""
        self.generator.new_result(job)
        if self.space.constraints:
            for models in self.generator.kde_models.values():
                for which, model in models.items():
                    if not isinstance(model, _FeasibleDensity):
                        models[which] = _FeasibleDensity(model, self._is_feasible, OUTSIDE[which])

    def pick(self, budget: float) -> Suggestion:
        """The generator's pick for a budget, or what stands in for it where it is infeasible: MODEL or RANDOM."""
        picked = self._pick(budget)
        if self._allows(picked):
            return picked
        note, fallback = picked.note, picked.fallback
        if picked.origin == MODEL:
            for _ in range(PICKS - 1):
                again = self._pick(budget)
                if again.origin == MODEL and self._allows(again):
                    return again
            note = f"none of the model's {PICKS} picks was feasible and chance chose"
            fallback = FALLBACK
        own = np.random.default_rng(np.random.randint(2**31))
        return Suggestion(self.space.sample(own), RANDOM, note=note, fallback=fallback)

    def _pick(self, budget: float) -> Suggestion:
        """One pick, feasible or not."""
        self._fallbacks.messages.clear()
        config, info = self.generator.get_config(budget)
        note = "; ".join(self._fallbacks.messages)
        origin = MODEL if info.get("model_based_pick") and not note else RANDOM
        return Suggestion(from_configspace(self.space, config), origin, note=note, fallback=FAILED_FIT if note else "")

    def _allows(self, pick: Suggestion) -> bool:
        return self.space.meets_constraints(pick.configuration, strictly=True)

    def _is_feasible(self, vector: Sequence[float]) -> bool:
        """Of a candidate, in the numbers that ConfigSpace has inside."""
        import ConfigSpace

        config = ConfigSpace.Configuration(self._configuration_space, vector=np.array(vector, dtype=float))
        return self.space.meets_constraints(from_configspace(self.space, config), strictly=True)


class _FeasibleDensity:
    """One of hpbandster's densities, with the number `outside` in its place where a candidate is infeasible."""

    def __init__(self, model: Any, feasible: Callable[[Sequence[float]], bool], outside: float) -> None:
        self.data, self.bw = model.data, model.bw
        self._model, self._feasible, self._outside = model, feasible, outside

    def pdf(self, vector: Sequence[float]) -> Any:
        """The density at one candidate."""
        return self._model.pdf(vector) if self._feasible(vector) else self._outside


class _Fallbacks(logging.Handler):
    """Hears hpbandster's only sign that its model failed and chance chose: a logged warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.logger = logging.Logger("fmnas.bohb")
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        message = record.getMessage()
        if "random configuration" in message:
            # The message may hold a traceback: its last line is the error.
            lines = [line.strip() for line in message.splitlines() if not line.strip().startswith("Using random")]
            self.messages.append(f"the model failed and chance chose: {[line for line in lines if line][-1][:200]}")


@contextmanager
def quiet() -> Iterator[None]:
    """hpbandster is unmaintained: it uses old spellings of ConfigSpace and statsmodels, which warn about them."""
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield
