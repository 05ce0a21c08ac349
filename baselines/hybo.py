"""HyBO (Deshwal, Belakaria, Doppa 2021): hybrid diffusion and Gaussian kernels over all subsets of variables.

The model is that of additive_kernel.py, with parameters drawn by additive_sampler.py. Expected improvement is averaged
over the samples, and maximised by hill climbing to graph neighbours and CMA-ES on the continuous part.

| changed | source | here | reason |
|---|---|---|---|
| objective | unchanged | standardised | the priors presume values of order 1 |
| first logarithm of the noise | mean(y) / 1000 | log(var(y) / 1000) | an error (`published_errors`) |
| upper end in the doubling | has the density of the lower end | its own density | an error (`published_errors`) |
| width of the first interval | 0.9 to 0.1, tried in turn | 1; 0.5 for q; half the range for the mean | |
| neighbours of a nominal value | the next ones on a path | all other values; the graph's edges | |
| prior of the amplitude | from COMBO's product kernel | from this kernel of the data | an error (`published_errors`) |
| order of a sweep | beta, then q, then the weights | all shuffled | |
| sweeps before the kept ones | 2 at the first suggestion, then none | 1 at each | the data have changed |
| search | local optimum, then CMA-ES | the same, then once more | the parts depend on each other |
| pending trials | none | their predicted means | asynchronous workers |
| matrix not positive definite | more jitter | a random suggestion | shared with the other processes |
| initial points | 10 or 20, by problem | 10 random ones | as for all |
| constraints | none | obeyed | |

Unchanged: kernel, other priors, ten samples at each suggestion, 200 random points and ten neighbours of the incumbent,
the best 20 of which are improved. The amplitude's prior thus depends on beta, q and the weights, which are sampled as
if it did not.

Limitation, as in the source: with N variables a point has the covariance sum_r w_r C(N, r) with itself, up to 2^53 w_r
on Ackley53C, where the least amplitude that the bounds allow, exp(-12), is too large for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.additive_kernel import AdditiveKernel, Parameters
from fmnas.baselines.additive_process import AveragedSurface, Process, neighbours
from fmnas.baselines.additive_sampler import HIGHEST, LOWEST, Sampler
from fmnas.optimizers import Optimizer, Suggestion, random_design
from fmnas.optimizers.bayesian import INITIAL_POINTS, check_graph_sizes
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points, is_new, sample_new, standardise, unfittable_reason
from fmnas.optimizers.gp.process import FitError
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

RANDOM_POINTS, STARTS, MOST_NEIGHBOURS = 200, 20, 10
Count = Annotated[int, Interval(ge=1)]


class HyBO(Optimizer):
    """Bayesian optimization with additive hybrid kernels, averaged over samples of their parameters.

    samples: kept at each suggestion. max_order: the largest number of variables in a product; all of them by default.
    published_errors: repeat three errors of the authors' code.
    initial_design: configurations to try first; 10 random ones by default.
    """

    def __init__(
        self,
        space: Space,
        *,
        samples: Count = 10,
        max_order: Count | None = None,
        published_errors: bool = False,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        seed: int = 0,
        **others: Any,
    ) -> None:
        check_options(type(self), samples=samples, max_order=max_order, published_errors=published_errors)
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, initial_design=design, **others)
        self.samples, self.published_errors, self.log_objective = samples, published_errors, log_objective
        check_graph_sizes(space)
        sizes = tuple(len(variable.vertices) for variable in space.discrete)
        self._kernel = AdditiveKernel(sizes, min(len(space), max_order or len(space)))
        self._state: Parameters | None = None

    @cached_property
    def _region(self) -> Region:
        return Region(self.space)

    def restore(self, trial: Trial) -> None:
        """Register a trial that was asked before, with the state of the chain from its memo."""
        super().restore(trial)
        if trial.memo:
            self._state = Parameters.from_tuple(trial.memo, len(self.space.discrete), len(self.space.continuous))

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y = self.objectives()
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        with one_thread():
            try:
                return self._suggest_from(y, rng)
            except FitError as error:
                return self._suggest_random(rng, f"fit failed: {error}", FAILED_FIT)

    def _suggest_from(self, y: np.ndarray, rng: np.random.Generator) -> Suggestion:
        """Suggest a configuration, given the objectives of all results [n]. Raises FitError."""
        points, objectives = self._encode([trial for trial, _ in self.history]), torch.from_numpy(standardise(y))
        if self._state is None:
            space = self.space
            sizes = len(space.discrete), len(space.continuous), self._kernel.orders
            self._state = Parameters.initial(objectives, *sizes)
            if self.published_errors:
                self._state = replace(self._state, noise=float(np.clip(y.mean() / 1000, LOWEST, HIGHEST)))
        samples = self._sample(points, objectives, self._state, rng)
        self._state = samples[-1]
        processes = [Process(self._kernel, points, objectives, sample) for sample in samples]
        best = float(objectives.min())
        if trials := self.trials_without_result():
            pending = self._encode(trials)
            believed = torch.stack([process.predict(pending)[0] for process in processes]).mean(0)
            points, objectives = points.concat(pending), torch.cat([objectives, believed])
            processes = [Process(self._kernel, points, objectives, sample) for sample in samples]
            best = float(objectives.min())
        return self._maximise(AveragedSurface(processes, LogEI(best)), points, objectives, rng)

    def _sample(self, points: Points, y: Tensor, state: Parameters, rng: np.random.Generator) -> list[Parameters]:
        """Continue the chain by one sweep that is dropped, and the kept ones."""
        sampler = Sampler(self._kernel, points, y, self.published_errors)
        state, samples = sampler.sweep(state, rng), []
        for _ in range(self.samples):
            state = sampler.sweep(state, rng)
            samples.append(state)
        return samples

    def _maximise(self, surface: AveragedSurface, known: Points, y: Tensor, rng: np.random.Generator) -> Suggestion:
        """Suggest the new configuration with the largest averaged expected improvement."""
        random_points = Points.from_encoded(self.space, self.space.sample_encoded(rng, RANDOM_POINTS))
        incumbent = known.select(y.argmin()[None])
        candidates = random_points.concat(neighbours(incumbent, self._region, MOST_NEIGHBOURS, rng))
        starts = candidates.select(surface.value(candidates).argsort(descending=True, stable=True)[:STARTS])
        improved, value = surface.search(starts, self._region, rng)
        ordered = improved.select(value.argsort(descending=True, stable=True)).concat(starts)
        for x in ordered.to_encoded(self.space):
            if is_new(x[None], known.to_encoded(self.space)).all():
                return Suggestion(self.space.decode(x), MODEL, memo=self._memo())
        return self._suggest_random(rng, "every candidate was tried before")

    def _suggest_random(self, rng: np.random.Generator, note: str, fallback: str = FALLBACK) -> Suggestion:
        known = self._encode(self.known_trials()).to_encoded(self.space)
        x = sample_new(self.space, known, rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=self._memo(), fallback=fallback)

    def _memo(self) -> tuple[float, ...]:
        return () if self._state is None else self._state.to_tuple()

    def _encode(self, trials: Sequence[Trial]) -> Points:
        return Points.from_encoded(self.space, self.space.encode_all([trial.configuration for trial in trials]))
