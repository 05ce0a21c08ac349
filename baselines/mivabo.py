"""MiVaBO (Daxberger, Makarova, Turchetta, Krause 2019): Thompson sampling with a linear model of a mixed space.

The model is that of linear_model.py, with quadratic features of the bits (binary_codes.py), random Fourier features of
the continuous variables, drawn once per run, and their products. Each suggestion minimises one draw from the posterior,
by an oracle of mixed_search.py. Linear and quadratic constraints hold exactly.

`search: annealing` is the paper's MiVaBO-SA. Its GP-SA is `gp_annealing.py`.

| changed | source | here | reason |
|---|---|---|---|
| Fourier features | those of the function, on synthetic ones (so we read App. A) | drawn for each run | |
| factor of the covariance | 24 M ln(T) ln(1 / delta), delta not given | 1; `posterior_scale: theory` has it, with \
T the number of results and delta = 0.1 | it is near 1e5, which makes the search nearly random |
| objective | scale not stated | standardised, times the deviation that the prior expects at these points; \
`objective_scale: unit` only standardises | of unit deviation it would be far below the prior's, and the draws would \
mostly explore |
| integer programs | Gurobi | all combinations up to 2^16, then tabu search | no licence needed |
| starts of the alternation | not stated | best 8 of 200 random ones | |
| continuous oracle | L-BFGS | BFGS of all starts at once | shared with the Gaussian processes |
| annealing | 50,000 steps | 50 chains of 1,000 | speed |
| its temperatures | 25,000 to 2.5 | scaled to the energies; `temperatures: published` has them | annealing.py |
| pending trials | none | their posterior means | asynchronous workers |
| known configurations | not stated | next best new one | no optimizer here repeats one |

`objective_scale: prior` was chosen on the four functions of linear_features.py, with the seeds 0 to 5.

Not implemented: the sparse priors of some of the paper's experiments.

Limitations, as in the source: the prior variance of a configuration grows with its number of ones, and with the
bandwidth 1 draws are nearly monotone in the continuous variables: suggestions are often at a corner.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.annealing import PUBLISHED_STEPS, Temperatures, anneal
from fmnas.baselines.binary_codes import BinaryCodes
from fmnas.baselines.dual_bound import CERTIFIED, LARGEST_DUAL
from fmnas.baselines.linear_model import Features, LinearFunction, Posterior
from fmnas.baselines.mixed_search import MixedSearch
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.bayesian import INITIAL_POINTS
from fmnas.optimizers.gp.points import Points, is_new, sample_new, standardise, unfittable_reason
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

RANDOM_POINTS, STARTS = 200, 8
DELTA = 0.1
"""Probability with which the regret bound of the paper's Proposition 1 may fail."""
Positive = Annotated[float, Interval(gt=0.0)]


class MiVaBO(Optimizer):
    """Thompson sampling with a linear model.

    search: the oracle. "dual" adds a lower bound of the draw's minimum, from which a trial's note says how far the
    suggestion may be; for at most 4,096 combinations of discrete values.
    features: number of Fourier features. bandwidth: length scale of their kernel, in lengths of the unit cube.
    alpha, beta: precisions of the prior of a weight and of the noise of the modelled objective.
    objective_scale: the deviation of the modelled objective: what the prior expects, or 1.
    posterior_scale: factor of the posterior covariance; "theory": that of the paper's regret bound.
    temperatures: of the annealing. annealing_steps: its evaluations of the draw.
    initial_design: configurations to try first; 10 random ones by default.
    """

    def __init__(  # noqa: PLR0913  # one per option
        self,
        space: Space,
        *,
        search: Literal["alternating", "dual", "annealing"] = "alternating",
        features: Annotated[int, Interval(ge=1)] = 16,
        bandwidth: Positive = 1.0,
        alpha: Positive = 1.0,
        beta: Positive = 1.0,
        posterior_scale: Positive | Literal["theory"] = 1.0,
        objective_scale: Literal["prior", "unit"] = "prior",
        temperatures: Temperatures = "scaled",
        annealing_steps: Annotated[int, Interval(ge=1)] = PUBLISHED_STEPS,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        seed: int = 0,
        **others: Any,
    ) -> None:
        model = {"features": features, "bandwidth": bandwidth, "alpha": alpha, "beta": beta}
        check_options(
            type(self), search=search, posterior_scale=posterior_scale, objective_scale=objective_scale, **model
        )
        check_options(type(self), temperatures=temperatures, annealing_steps=annealing_steps)
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, initial_design=design, **others)
        self.log_objective, self.search = log_objective, search
        self.temperatures, self.annealing_steps = temperatures, annealing_steps
        self.alpha, self.beta = float(alpha), float(beta)
        self.posterior_scale, self.objective_scale = posterior_scale, objective_scale
        self._codes = BinaryCodes(space)
        listed = self._codes.vertices
        if search == "dual" and (listed is None or len(listed) > LARGEST_DUAL):
            raise OptimizerError(
                f"search = 'dual': the space has more than {LARGEST_DUAL} combinations of discrete values; use "
                "'alternating'"
            )
        rng = np.random.default_rng([seed, 0, 0xF0])  # three numbers: distinct from the seeds of all asks
        self._features = Features.draw(rng, self._codes.bits, len(space.continuous), features, bandwidth)

    @cached_property
    def _oracle(self) -> MixedSearch:
        return MixedSearch(self._codes)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y = self.objectives()
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        known = self._known_points()
        with one_thread():
            try:
                posterior = self._condition(Points.from_encoded(self.space, known), torch.from_numpy(standardise(y)))
                draw = posterior.draw(rng, self._scale())
            except torch.linalg.LinAlgError as error:  # type: ignore[attr-defined]  # of an extreme alpha or beta
                return self._suggest_random(rng, f"fit failed: {error}", FAILED_FIT)
            candidates, note = self._minimise(draw, rng, known)
            for x in candidates.to_encoded(self.space):
                if is_new(x[None], known).all():
                    return Suggestion(self.space.decode(x), MODEL, note=note)
        return self._suggest_random(rng, "every candidate was tried before")

    def _condition(self, points: Points, y: Tensor) -> Posterior:
        """Return the posterior given y [n], standardised, at the first n points and its own means at the rest."""
        U, V = self._features.discrete(self._codes.encode(points.V)), self._features.continuous(points.C)
        n = len(y)
        posterior = Posterior(self._features, U[:n], V[:n], y, self.alpha, self.beta)
        if self.objective_scale == "prior":
            posterior = replace(posterior, y=posterior.prior_deviation * y)
        if len(U) == n:
            return posterior
        believed = ((U[n:] @ posterior.mean.W) * V[n:]).sum(-1)
        return replace(posterior, U=U, V=V, y=torch.cat([posterior.y, believed]))

    def _scale(self) -> float:
        if self.posterior_scale == "theory":
            return 24.0 * self._features.weights * math.log(max(len(self.history), 2)) * math.log(1.0 / DELTA)
        return float(self.posterior_scale)

    def _minimise(self, f: LinearFunction, rng: np.random.Generator, known: np.ndarray) -> tuple[Points, str]:
        """Return points of low values, best first, and a note on the search."""

        def value(points: Points) -> Tensor:
            return f.value(self._codes.encode(points.V), points.C)

        if self.search == "annealing":
            points, _ = anneal(value, self._oracle.region, rng, self.temperatures, self.annealing_steps)
            return points.concat(self._oracle.region.sample(rng, STARTS)), ""
        random_points = self._oracle.region.sample(rng, RANDOM_POINTS)
        starts = random_points.select(value(random_points).argsort(dim=0, stable=True)[:STARTS])
        taken = Points.from_encoded(self.space, known[:0] if self.space.continuous else known).V
        if self.search == "alternating":
            points, _ = self._oracle.alternate(f, starts, taken)
            return points.concat(starts), ""
        points, values, bound = self._oracle.decompose(f, starts, taken)
        gap = float(values[0]) - bound
        certified = gap <= CERTIFIED * max(1.0, abs(bound))
        note = "the least value of the draw" if certified else f"at most {gap:.3g} above the least value of the draw"
        return points.concat(starts), note

    def _known_points(self) -> np.ndarray:
        """Return the configurations [m, D + P] of all trials, those with a result first."""
        return self.space.encode_all([trial.configuration for trial in self.known_trials()])

    def _suggest_random(self, rng: np.random.Generator, note: str, fallback: str = FALLBACK) -> Suggestion:
        """Suggest a random configuration, a new one if possible."""
        x = sample_new(self.space, self._known_points(), rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, fallback=fallback)
