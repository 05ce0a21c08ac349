"""Gaussian processes with HyBO's additive kernel under sampled parameters, and the acquisition averaged over them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from fmnas.baselines.additive_kernel import NUGGET, AdditiveKernel, Parameters, continuous_kernel
from fmnas.baselines.evolution_strategy import maximise_cma
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import FitError
from fmnas.optimizers.gp.region import Region

ROUNDS = 2
"""Of hill climbing and CMA-ES."""
CHUNK, STARTS = 64, 10
"""Points, and starts of CMA-ES, that are predicted at once: more do not fit into a processor's cache."""


class Process:
    """A Gaussian process under one sample of its parameters, given points [n] with objectives y [n].

    Raises FitError if the matrix of the points is not positive definite.
    """

    def __init__(self, kernel: AdditiveKernel, points: Points, y: Tensor, parameters: Parameters) -> None:
        self._kernel, self._points, self._parameters = kernel, points, parameters
        self._amplitude = float(np.exp(parameters.amplitude))
        rows, columns = Points(points.C[:, None], points.V[:, None]), Points(points.C[None], points.V[None])
        K = self._amplitude * kernel.value(self._base(rows, columns), parameters)
        K.diagonal().add_(self._amplitude * NUGGET + float(np.exp(parameters.noise)))
        L, failed = torch.linalg.cholesky_ex(K)
        if failed:
            raise FitError(f"the matrix of {len(K)} observations is not positive definite")
        self._inverse = torch.cholesky_inverse(L)
        self._own = self._amplitude * kernel.diagonal(parameters)
        self._alpha = self._inverse @ (y - parameters.mean)

    def predict(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [m]."""
        chunks = map(Points, points.C.split(CHUNK), points.V.split(CHUNK))
        return concatenate(self._from_kernel(self._kernel.value(self._cross(c), self._parameters)) for c in chunks)

    def predict_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [S, K] at each point with one vertex replaced by each of the region's K vertices."""
        z = self._cross(points)  # [N, S, n]
        value, slopes = self._kernel.value_and_slopes(z, self._parameters)
        beta, rows = self._parameters.beta, region.variable
        different = torch.tensor([self._kernel.different(p, b) for p, b in enumerate(beta)], dtype=torch.float64)
        equal = self._points.V.T[rows] == region.vertex[:, None]
        changed = torch.where(equal, 1.0, different[rows, None])  # [K, n]
        return self._from_kernel(value[:, None] + (changed - z[rows].transpose(0, 1)) * slopes[rows].transpose(0, 1))

    def discrete_part(self, points: Points) -> Tensor:
        """Return the weighted polynomials of the vertices of points [S] for `predict_moved` [min(D, R) + 1, S, n]."""
        e = self._kernel.polynomials(self._cross(points)[: len(self._kernel.sizes)])
        weights = torch.tensor((-torch.inf, *self._parameters.weights), dtype=torch.float64).exp()
        count = 1 + min(len(self._parameters.q), self._kernel.orders)  # row t: of terms with t continuous variables
        return torch.stack([torch.tensordot(weights[t:], e[: len(e) - t], dims=1) for t in range(count)])

    def predict_moved(self, C: Tensor, discrete_part: Tensor) -> tuple[Tensor, Tensor]:
        """Return (mean, variance) [S, L] at continuous parts C [S, L, D]; discrete_part: of the S points."""
        moved = torch.ones(1, *C.shape[:2], len(self._points), dtype=torch.float64)  # [min(D, R) + 1, S, L, n]
        for d, q in enumerate(self._parameters.q):
            squared = (C[:, :, None, d] - self._points.C[:, d]).square()
            moved = self._kernel.extend(moved, continuous_kernel(q, squared)[None])
        return self._from_kernel(sum(of_t[:, None] * e_t for of_t, e_t in zip(discrete_part, moved, strict=True)))

    def _from_kernel(self, value: Tensor) -> tuple[Tensor, Tensor]:
        k = self._amplitude * value
        variance = self._own - ((k @ self._inverse) * k).sum(-1)
        return k @ self._alpha + self._parameters.mean, variance.clamp(min=1e-12)

    def _cross(self, points: Points) -> Tensor:
        """Return the base kernels of points with the observations [N, m, n]."""
        return self._base(Points(points.C[:, None], points.V[:, None]), self._points)

    def _base(self, first: Points, second: Points) -> Tensor:
        return self._kernel.base_kernels(self._parameters, first, second)


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
                C, value = maximise_cma(self._fix_vertices(Points(C, V), region), C, rng)
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

    def _fix_vertices(self, points: Points, region: Region) -> Callable[[Tensor], Tensor]:
        """Return the function of continuous parts C [S, L, D] at the vertices of points [S]; -inf where not allowed."""
        parts = [(process, process.discrete_part(points).split(STARTS, dim=1)) for process in self._processes]

        def value(C: Tensor) -> Tensor:
            values = self._average([concatenate(map(p.predict_moved, C.split(STARTS), part)) for p, part in parts])
            S, L, D = C.shape
            allowed = region.feasible(Points(C.reshape(S * L, D), points.V.repeat_interleave(L, 0)))
            return values.where(allowed.reshape(S, L), -torch.inf)

        return value

    def _average(self, predictions: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        values = torch.stack([self._acquisition.value(mean, variance.sqrt()) for mean, variance in predictions])
        return values.logsumexp(0) - float(np.log(len(predictions)))


def concatenate(parts: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Return (mean, variance) of all parts, along the first dimension."""
    mean, variance = zip(*parts, strict=True)
    return torch.cat(mean), torch.cat(variance)


def neighbours(point: Points, region: Region, most: int, rng: np.random.Generator) -> Points:
    """Return at most `most` neighbours of one point, drawn at random."""
    if not region.has_moves:
        return point.select(slice(0))
    k = region.neighbours(point)[0].nonzero()[:, 0].numpy()
    chosen = torch.from_numpy(rng.permutation(k)[:most])
    V = point.V.repeat(len(chosen), 1)
    V[torch.arange(len(chosen)), region.variable[chosen]] = region.vertex[chosen]
    return Points(point.C.repeat(len(chosen), 1), V)
