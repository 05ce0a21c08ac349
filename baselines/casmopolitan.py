"""CASMOPOLITAN: local Bayesian optimization of mixed variables in trust regions (Wan et al. 2021, ICML).

The kernel (casmopolitan_model.py) mixes the overlap of the discrete variables with a Matern-5/2 of the continuous ones.
The model uses the ranks (the copula transform) of the results since the last restart. Augmented expected improvement
below the mean at the best result is maximised in a trust region around it (trust_region.py). When the region is
exhausted, the confidence bound of a second process over the best results of all regions selects the next centre.

Unchanged: kernel (without lengthscales per variable, as by default in the authors' runs, so the box is a cube),
transform, acquisition, initial, least and largest side of the box.

| changed | source | here | reason |
|---|---|---|---|
| size of the ball | initially 20, at most 30; set for three problems | by the number of variables | trust_region.py |
| end of a region by its ball | six shrinks from 20: 240 failures | two variables: one shrink, 40 failures | as above |
| noise variance | fixed at the problem's, or inferred within 1e-6 and .1 | within 1e-6 and 10 s2 | |
| bounds of theta, l | none in the mixed kernel | .01 to 10, .01 to 2.5 | needed by the fit |
| output scale | within .5 and 5 | maximised out | shared process |
| ordered variables | continuous, rounded in the kernel | agree by 1 - distance / values | its variant for ordinals |
| trust region of ordered variables | the box | the ball: any two values have distance 1 | as above |
| fit | 300 steps of Adam | four starts and the last optimum; often the latter alone | shared process |
| starts of the search | 3 random ones | the best 3 of 600 | shared search |
| search | 200 times Adam and a random neighbour | best neighbour, quasi-Newton steps | shared search |
| known configurations | suggested again | the next best one | no optimizer here repeats a configuration |
| points of a new region | Sobol, in a box with the last side in raw units | uniform in the new box | an error |
| discrete variables of these points | the radius is the number drawn again | it is the largest one | one ball for all |
| centre of a new region | not evaluated if there are continuous variables | evaluated | |
| candidates for a new centre | Latin hypercube | uniform | constraints may exclude some |
| second process | of raw objectives, also of one | of standardised ones; random centre for one or equal ones | |
| pending trials | a batch is one success or failure | kriging believer; each counts | asynchronous workers |
| initial design of a region | 20 points | the run's number, at most 20 | same setting for all optimizers |

As in the source, a new region starts with new points and does not reuse results inside it (MCBO does), so a restart
spends up to 20 trials on random points. On Func2C with 200 evaluations and five seeds, neither the source's ball nor a
fixed noise was better.

Limitation: edges of graphs only define the search's neighbours.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from fmnas.baselines.casmopolitan_model import CasmopolitanKernel, Copula
from fmnas.baselines.trust_region import GrowthRules, TrustRegion, is_success
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import LogAugmentedEI, LowerConfidenceBound
from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points, is_new, standardise, unfittable_reason
from fmnas.optimizers.gp.process import FitError
from fmnas.optimizers.gp.region import HammingBall, Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternating_search, start_points
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import Suggestion
from fmnas.search_spaces import Configuration, Evaluation, Space, SpaceError, Trial
from fmnas.search_spaces.records import FAILED_FIT, MODEL, RANDOM

MAX_REGION_POINTS = 20  # results before a new region is modelled: a warm start's design may have hundreds
RESTART_WEIGHT = 1.96  # of the deviation, in the bound that selects a new centre
REGION_DRAWS = 100  # draws in a new region to find a new point
RESTART_NOTE = "start of a new trust region"


class Casmopolitan(BayesianOptimizer):
    """Successive trust regions, each with a Gaussian process of its results.

    A trial belongs to the region in which it was asked. Late results of earlier regions are not modelled, nor do they
    change the best of their region; those that are pending enter the model with predicted values. There is no
    `log_objective`: the logarithm does not change ranks.
    """

    settings = ModelSettings(
        FitSettings(prior=False, smooth=False, plug_in=True), SearchSettings(starts=3), warpings=(Copula(),)
    )

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] | None = None,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self.region = TrustRegion.initial(GrowthRules.for_space(space))
        self._regions: list[list[int]] = [[]]  # trial ids per region
        self._best: list[
            tuple[np.ndarray, float]
        ] = []  # x [D + P] and objective of the best result of each finished region

    def kernel(self, space: Space) -> CasmopolitanKernel:
        """Return the kernel of the process."""
        return CasmopolitanKernel(space)

    def observations(self) -> list[tuple[Trial, Evaluation]]:
        """Return the results of the current region."""
        members = set(self._regions[-1])
        return [(trial, evaluation) for trial, evaluation in self.history if trial.id in members]

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return points in the region, best first; none if almost nothing of it is feasible."""
        posterior, centre = surface.posterior, Points.from_encoded(self.space, state.incumbent[None])
        mean, _ = posterior.predict(centre)
        surface = Surface(posterior, LogAugmentedEI(float(mean), posterior.g * posterior.s2))
        region = self._region_around(state.incumbent)
        try:
            starts = start_points(surface, region, state)
        except SpaceError:
            return centre.select(slice(0))
        improved, _ = alternating_search(surface, region, starts, state.settings)
        return improved.concat(starts)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._regions[-1].append(trial.id)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        if trial.id not in self._regions[-1]:
            return
        results = zip(self.observations(), self.objectives().tolist(), strict=True)  # clipped to what can be squared
        *before, (_, objective) = [(member.id, value) for (member, _), value in results]
        if len(before) < self._design_size():
            return
        self.region = self.region.update(is_success(objective, min(value for _, value in before)))
        if self.region.is_exhausted:
            best, value = min((*before, (trial.id, objective)), key=lambda result: result[1])
            self._best.append((self._codes[best], value))
            self._regions.append([])
            self.region = TrustRegion.initial(self.region.rules)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        members, is_first = self._regions[-1], len(self._regions) == 1
        if is_first or (len(members) >= self._design_size() and len(self.observations()) >= 2):
            return super()._suggest(rng)
        if not members:
            with one_thread():
                return self._suggest_centre(rng)
        try:
            drawn = self._region_around(self._codes[members[0]]).sample(rng, REGION_DRAWS).to_encoded(self.space)
        except SpaceError:
            return self._suggest_random(rng, "almost nothing of the trust region is feasible")
        new = drawn[is_new(drawn, self._known_points())]
        return Suggestion(self.space.decode((new if len(new) else drawn)[0]), RANDOM)

    def _design_size(self) -> int:
        """Return the number of results in the current region before its model is used."""
        points = max(len(self.initial_design), 1)
        return points if len(self._regions) == 1 else min(points, MAX_REGION_POINTS)

    def _suggest_centre(self, rng: np.random.Generator) -> Suggestion:
        """Suggest the centre of the next region: the lowest bound of a region's best objective, or a random point."""
        X = self.space.sample_encoded(rng, min(100 * len(self.space), 5000))
        new = X[is_new(X, self._known_points())]
        X = new if len(new) else X
        known, y = map(np.array, zip(*self._best, strict=True))
        drawn = Suggestion(self.space.decode(X[0]), RANDOM, note=RESTART_NOTE)
        if unfittable_reason(y):
            return drawn
        try:
            fitted = self.surrogate.fit(Points.from_encoded(self.space, known), torch.from_numpy(standardise(y)), rng)
        except FitError as error:
            return replace(drawn, note=f"{RESTART_NOTE}; fit failed: {error}", fallback=FAILED_FIT)
        bound = Surface(fitted.posterior, LowerConfidenceBound(RESTART_WEIGHT))
        x = X[int(bound.value(Points.from_encoded(self.space, X)).argmax())]
        return Suggestion(self.space.decode(x), MODEL, note=RESTART_NOTE)

    def _region_around(self, centre: np.ndarray) -> Region:
        """Return the trust region around x [D + P]."""
        D, half = len(self.space.continuous), 0.5 * self.region.side
        C = torch.from_numpy(centre[:D])
        box = Box((C - half).clamp(min=0.0), (C + half).clamp(max=1.0))
        ball = HammingBall(torch.from_numpy(centre[D:].astype(np.int64)), self.region.radius)
        return Region(self.space, box=box, ball=ball if self.space.discrete else None)
