"""HyBO (Deshwal, Belakaria, Doppa 2021): hybrid diffusion and Gaussian kernels over all subsets of variables.

The model is that of additive_kernel.py. Its parameters are drawn by slice sampling; expected improvement is averaged
over the samples, and maximised by hill climbing to graph neighbours and CMA-ES on the continuous part.

| changed | source | here | reason |
|---|---|---|---|
| objective | as it is | standardised | the priors presume values of order 1 |
| log noise of the first state | mean(y) / 1000, taken as a logarithm | log(var(y) / 1000) | a slip |
| upper end in the doubling | has the density of the lower end | its own density | a slip |
| width of the first interval | 0.9 to 0.1, tried in turn | 1; 0.5 for q; half the range for the mean | |
| neighbours of a nominal value | the next ones on a path | all other values; the graph's edges | |
| sweeps before the kept ones | 2 | 1 | the chain continues from the last suggestion |
| search | local optimum, then CMA-ES | the same, then once more | the parts depend on each other |
| pending trials | none | their predicted means | asynchronous workers |
| constraints | none | obeyed | |

Unchanged: kernel, priors, ten samples at each suggestion, 200 random points and ten neighbours of the incumbent, the
best 20 of which are improved.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.additive_kernel import NUGGET, AdditiveKernel, Parameters, Sampler, continuous_kernel
from fmnas.optimizers import Optimizer, Suggestion, random_design
from fmnas.optimizers.bayesian import INITIAL_POINTS
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.evolution_strategy import maximise_cma
from fmnas.optimizers.gp.points import Points, is_new, sample_new, standardise, unfittable_reason
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import FALLBACK, MODEL, RANDOM

RANDOM_POINTS, STARTS, ROUNDS, MOST_NEIGHBOURS = 200, 20, 2, 10
CHUNK = 64
"""Points predicted at once."""
Count = Annotated[int, Interval(ge=1)]


class Process:
    """A Gaussian process under one sample of its parameters, given points [n] with objectives y [n]."""

    def __init__(self, kernel: AdditiveKernel, points: Points, y: Tensor, parameters: Parameters) -> None:
        self._kernel, self._points, self._parameters = kernel, points, parameters
        self._amplitude = float(np.exp(parameters.amplitude))
        rows, columns = Points(points.C[:, None], points.V[:, None]), Points(points.C[None], points.V[None])
        K = self._amplitude * kernel.value(self._base(rows, columns), parameters)
        K.diagonal().add_(self._amplitude * NUGGET + float(np.exp(parameters.noise)))
        self._inverse = torch.cholesky_inverse(torch.linalg.cholesky(K))
        self._own = self._amplitude * kernel.diagonal(parameters)
        self._alpha = self._inverse @ (y - parameters.mean)

    def predict(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [m]."""
        parts = [
            self._from_kernel(self._kernel.value(self._cross(Points(C, V)), self._parameters))
            for C, V in zip(points.C.split(CHUNK), points.V.split(CHUNK), strict=True)
        ]
        return torch.cat([mean for mean, _ in parts]), torch.cat([variance for _, variance in parts])

    def predict_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [S, K] at each point with one vertex replaced by each of the region's K vertices."""
        z = self._cross(points)  # [N, S, n]
        value, slopes = self._kernel.value_and_slopes(z, self._parameters)
        changed = torch.stack(
            [
                self._kernel.discrete_kernel(p, self._parameters.beta[p], self._points.V[:, p] == vertex)
                for p, vertex in zip(region.variable.tolist(), region.vertex.tolist(), strict=True)
            ]
        )  # [K, n]
        rows = region.variable
        return self._from_kernel(value[:, None] + (changed - z[rows].transpose(0, 1)) * slopes[rows].transpose(0, 1))

    def predict_moved(self, C: Tensor, V: Tensor) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [S, L] at continuous parts C [S, L, D] with the vertices V [S, P]."""
        kernel, parameters = self._kernel, self._parameters
        fixed = kernel.polynomials(self._cross(Points(C[:, 0], V))[: len(kernel.sizes)])  # [R + 1, S, n]
        squared = (C[:, :, None] - self._points.C).square()  # [S, L, n, D]
        z = torch.stack([continuous_kernel(q, squared[..., d]) for d, q in enumerate(parameters.q)])
        weights = torch.tensor(parameters.weights, dtype=torch.float64).exp()
        value = torch.zeros(z.shape[1:], dtype=torch.float64)
        for t, of_order in enumerate(kernel.polynomials(z)[: len(z) + 1]):  # t continuous variables, r - t discrete
            orders = range(max(1, t), kernel.orders + 1)
            of_fixed = sum((weights[r - 1] * fixed[r - t] for r in orders), torch.zeros_like(fixed[0]))
            value += of_fixed[:, None] * of_order
        return self._from_kernel(value)

    def _from_kernel(self, value: Tensor) -> tuple[Tensor, Tensor]:
        k = self._amplitude * value
        variance = self._own - ((k @ self._inverse) * k).sum(-1)
        return k @ self._alpha + self._parameters.mean, variance.clamp(min=1e-12)

    def _cross(self, points: Points) -> Tensor:
        """Return the base kernels of points with the observations [N, m, n]."""
        return self._base(Points(points.C[:, None], points.V[:, None]), self._points)

    def _base(self, first: Points, second: Points) -> Tensor:
        return self._kernel.base_kernels(self._parameters, first, second)


class HyBO(Optimizer):
    """Bayesian optimization with additive hybrid kernels, averaged over samples of their parameters.

    samples: kept at each suggestion. max_order: the largest number of variables in a product; all of them by default.
    initial_design: configurations to try first; 10 random ones by default.
    """

    def __init__(
        self,
        space: Space,
        *,
        samples: Count = 10,
        max_order: Count | None = None,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        seed: int = 0,
        **others: Any,
    ) -> None:
        check_options(type(self), samples=samples, max_order=max_order or len(space))
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, initial_design=design, **others)
        self.samples, self.log_objective = samples, log_objective
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
        y = np.array([evaluation.objective for _, evaluation in self.history])
        y = np.log(y) if self.log_objective else y
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        with one_thread():
            points, objectives = self._encode([trial for trial, _ in self.history]), torch.from_numpy(standardise(y))
            samples = self._sample(points, objectives, rng)
            processes = [Process(self._kernel, points, objectives, sample) for sample in samples]
            best = float(objectives.min())
            if self.pending:
                pending = self._encode(list(self.pending.values()))
                believed = torch.stack([process.predict(pending)[0] for process in processes]).mean(0)
                points, objectives = points.concat(pending), torch.cat([objectives, believed])
                processes = [Process(self._kernel, points, objectives, sample) for sample in samples]
                best = float(objectives.min())
            return self._maximise(AveragedSurface(processes, LogEI(best)), points, objectives, rng)

    def _sample(self, points: Points, y: Tensor, rng: np.random.Generator) -> list[Parameters]:
        """Continue the chain by one sweep that is dropped, and the kept ones."""
        sampler, space = Sampler(self._kernel, points, y), self.space
        initial = Parameters.initial(y, len(space.discrete), len(space.continuous), self._kernel.orders)
        state = sampler.sweep(self._state or initial, rng)
        samples = []
        for _ in range(self.samples):
            state = sampler.sweep(state, rng)
            samples.append(state)
        self._state = state
        return samples

    def _maximise(self, surface: "AveragedSurface", known: Points, y: Tensor, rng: np.random.Generator) -> Suggestion:
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

    def _suggest_random(self, rng: np.random.Generator, note: str) -> Suggestion:
        known = self._encode([*(trial for trial, _ in self.history), *self.pending.values()]).to_encoded(self.space)
        x = sample_new(self.space, known, rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=self._memo(), fallback=FALLBACK)

    def _memo(self) -> tuple[float, ...]:
        return () if self._state is None else self._state.to_tuple()

    def _encode(self, trials: Sequence[Trial]) -> Points:
        return Points.from_encoded(self.space, self.space.encode_all([trial.configuration for trial in trials]))


class AveragedSurface:
    """The logarithm of an acquisition, averaged over processes."""

    def __init__(self, processes: Sequence[Process], acquisition: LogEI) -> None:
        self._processes, self._acquisition = processes, acquisition

    def value(self, points: Points) -> Tensor:
        """Return it at points [m]."""
        return self._average([process.predict(points) for process in self._processes])

    def search(self, starts: Points, region: Region, rng: np.random.Generator) -> tuple[Points, Tensor]:
        """Alternate hill climbing to graph neighbours and CMA-ES from each start; return (points, values [S])."""
        C, V, value = starts.C.clone(), starts.V.clone(), self.value(starts)
        for _ in range(ROUNDS):
            V, value = self._climb(Points(C, V), value, region)
            if C.shape[1]:
                C, value = maximise_cma(lambda moved: self._at_moved(moved, V, region), C, rng)  # noqa: B023
        return Points(C, V), value

    def _climb(self, points: Points, value: Tensor, region: Region) -> tuple[Tensor, Tensor]:
        """Move every point to its best neighbour until none is better."""
        V, value = points.V.clone(), value.clone()
        active = torch.arange(len(V)) if region.has_moves else torch.arange(0)
        while len(active):
            here = Points(points.C[active], V[active])
            around = self._average([process.predict_neighbours(here, region) for process in self._processes])
            best, k = around.masked_fill(~region.neighbours(here), -torch.inf).max(1)
            moved = best > value[active] + 1e-9
            active, best, k = active[moved], best[moved], k[moved]
            V[active, region.variable[k]], value[active] = region.vertex[k], best
        return V, value

    def _at_moved(self, C: Tensor, V: Tensor, region: Region) -> Tensor:
        value = self._average([process.predict_moved(C, V) for process in self._processes])
        if not region.space.constraints:
            return value
        S, L, D = C.shape
        allowed = region.feasible(Points(C.reshape(S * L, D), V.repeat_interleave(L, 0)))
        return torch.where(allowed.reshape(S, L), value, -torch.inf)

    def _average(self, predictions: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        values = torch.stack([self._acquisition.value(mean, variance.sqrt()) for mean, variance in predictions])
        return values.logsumexp(0) - float(np.log(len(predictions)))


def neighbours(point: Points, region: Region, most: int, rng: np.random.Generator) -> Points:
    """Return at most so many neighbours of one point, drawn at random."""
    if not region.has_moves:
        return point.select(slice(0))
    k = region.neighbours(point)[0].nonzero()[:, 0].numpy()
    chosen = torch.from_numpy(rng.permutation(k)[:most])
    V = point.V.repeat(len(chosen), 1)
    V[torch.arange(len(chosen)), region.variable[chosen]] = region.vertex[chosen]
    return Points(point.C.repeat(len(chosen), 1), V)
