"""ParEGO (Knowles 2006): Bayesian optimization of a random scalarisation of the objectives, with BO-FM's model.

Each suggestion draws weights, and models the augmented Tchebycheff value of all results so far,

    s(x) = max_j w_j f_j(x) + rho sum_j w_j f_j(x),

where f_j is objective j, scaled to [0, 1] over the results so far. The search of one objective follows: each point of
the Pareto front minimises s for some weights of sum 1, also where the front is concave. The weights are uniform over
those that are multiples of 1 / 10: 11 vectors for two objectives, as published.

Model, acquisition function and its search are BO-FM's; the paper has a Gaussian kernel of real variables, expected
improvement and a genetic algorithm, and fits at most a part of the results. With many results most fits start from the
last optimum alone, as in BO-FM; here that optimum belongs to other weights. The initial design is the one given. With
one objective it is BO-FM without a logarithm: objectives are scaled linearly, whatever `log_objective` is.

| symbol | shape | meaning |
|---|---|---|
| F | [n, m] | objectives of the results |
| w | [m] | weights, of sum 1 |
"""

from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.optimizers import Suggestion
from fmnas.optimizers.bofm import BOFM
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

DIVISIONS = 10
"""Weights are multiples of 1 / DIVISIONS."""


class ParEGO(BOFM):
    """rho: the weight of the sum. The other parameters are those of BO-FM."""

    def __init__(self, space: Space, *, rho: Annotated[float, Interval(ge=0, le=1)] = 0.05, **others: Any) -> None:
        check_options(type(self), rho=rho)
        super().__init__(space, **others)
        self.log_objective = False
        self.rho = rho
        self._weights: Floats = np.empty(0)  # of the current suggestion

    def objectives(self) -> Floats:
        """The scalarised objectives of the observations [n]."""
        F = np.array([evaluation.objectives for _, evaluation in self.observations()]).clip(-1e100, 1e100)
        return tchebycheff(F, self._weights, self.rho)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        results = self.observations()
        self._weights = draw_weights(len(results[0][1].objectives) if results else 1, rng)
        return super()._suggest(rng)


def draw_weights(count: int, rng: np.random.Generator) -> Floats:
    """Draw weights [count] of sum 1, multiples of 1 / DIVISIONS, each vector as likely, by bars between stars."""
    places = DIVISIONS + count - 1
    bars = np.sort(rng.choice(places, count - 1, replace=False))
    stars = np.diff([-1, *bars, places]) - 1
    return np.asarray(stars / DIVISIONS)


def tchebycheff(F: Floats, w: Floats, rho: float) -> Floats:
    """The augmented Tchebycheff values [n] of F [n, m], scaled to [0, 1]; a constant objective is 0."""
    if not len(F):
        return np.empty(0)
    low, width = F.min(axis=0), np.ptp(F, axis=0)
    weighted = w * (F - low) / np.where(width > 0, width, 1.0)
    return np.asarray(weighted.max(axis=1) + rho * weighted.sum(axis=1))
