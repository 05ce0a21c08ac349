"""The parameters of HyBO's process, drawn by slice sampling: a Markov chain, given observations.

A sweep needs the polynomials of all variables but one, for each: it halves the variables again and again, so that it
adds N log N of them and not N^2. The symbols are those of additive_kernel.py.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fmnas.baselines.additive_kernel import NUGGET, AdditiveKernel, Parameters, continuous_kernel, weighted_sum
from fmnas.baselines.slice_sampling import slice_sample
from fmnas.optimizers.gp.points import Points

LOWEST, HIGHEST, HIGHEST_WEIGHT = -12.0, math.log(1e4), math.log(100.0)
"""Bounds of logarithms: of all, of amplitude and noise, of beta and weights."""
Coordinate = tuple[str, int]
"""The name of a parameter that is not of the scales, and its place."""


class Sampler:
    """A Markov chain over the parameters, given observations at points [n] with objectives y [n].

    published_errors: repeat the errors of HyBO's code in `slice_sample` and in the amplitude's prior (`path_extremes`).
    """

    def __init__(self, kernel: AdditiveKernel, points: Points, y: Tensor, published_errors: bool = False) -> None:
        self._kernel, self._points, self._y, self._published_errors = kernel, points, y, published_errors
        n = len(points)
        self._i, self._j = torch.tril_indices(n, n)
        self._K, self._places = torch.zeros(n, n, dtype=torch.float64), self._i * n + self._j
        self._equal = points.V[self._i] == points.V[self._j]
        self._squared = (points.C[self._i] - points.C[self._j]).square()

    def sweep(self, parameters: Parameters, rng: np.random.Generator) -> Parameters:
        """Sample each parameter once: mean, amplitude, noise, then all others in random order."""
        first, second = self._points.select(self._i), self._points.select(self._j)
        z = self._kernel.base_kernels(parameters, first, second)
        parameters = self._sample_scales(parameters, self._kernel.value(z, parameters), rng)
        coordinates: list[Coordinate] = [
            *(("beta", p) for p in range(len(parameters.beta))),
            *(("q", d) for d in range(len(parameters.q))),
            *(("weights", r) for r in range(len(parameters.weights))),
        ]
        shuffled = [coordinates[i] for i in rng.permutation(len(coordinates))]
        return self._sample_each(shuffled, torch.ones(1, z.shape[1], dtype=torch.float64), z, parameters, rng)

    def _sample_each(
        self, coordinates: Sequence[Coordinate], e: Tensor, z: Tensor, parameters: Parameters, rng: np.random.Generator
    ) -> Parameters:
        """Sample some parameters in turn, and change their rows of z. e: polynomials of all other variables."""
        if len(coordinates) == 1:
            name, place = coordinates[0]
            if name == "weights":
                return self._sample_weight(parameters, e[1:], place, rng)
            return self._sample_base(parameters, e, z, name, place, rng)
        half = len(coordinates) // 2
        for own, remaining in ((slice(half), slice(half, None)), (slice(half, None), slice(half))):
            extended = self._kernel.extend(e, z[[self._row(*c) for c in coordinates[remaining] if c[0] != "weights"]])
            parameters = self._sample_each(coordinates[own], extended, z, parameters, rng)
        return parameters

    def _row(self, name: str, place: int) -> int:
        return place if name == "beta" else len(self._kernel.sizes) + place

    def log_likelihood(self, parameters: Parameters, gram: Tensor) -> float:
        """Return the log density of y, up to a constant. gram: the lower triangle of the kernel's matrix."""
        amplitude = math.exp(parameters.amplitude)
        K = self._K.put_(self._places, amplitude * gram)
        K.diagonal().add_(amplitude * NUGGET + math.exp(parameters.noise))
        L, failed = torch.linalg.cholesky_ex(K)
        if failed:
            return -math.inf
        residual = torch.linalg.solve_triangular(L, (self._y - parameters.mean)[:, None], upper=False)
        return float(-0.5 * residual.square().sum() - L.diagonal().log().sum())

    def _sample_scales(self, parameters: Parameters, gram: Tensor, rng: np.random.Generator) -> Parameters:
        low, high = float(self._y.min()), float(self._y.max())
        of_gram = math.log(float(gram.max())), math.log(max(float(gram.min()), 1e-300))
        extremes = path_extremes(self._kernel.sizes) if self._published_errors else of_gram
        variance = math.log(float(self._y.var()))
        priors: dict[str, Callable[[float], float]] = {
            "mean": lambda x: log_prior_mean(x, low, high),
            "amplitude": lambda x: log_prior_amplitude(x, variance - extremes[0], variance - extremes[1]),
            "noise": log_prior_noise,
        }
        for name, prior in priors.items():
            parameters = self._sample(parameters, name, None, prior, lambda _, changed: (changed, gram), rng)[0]
        return parameters

    def _sample_weight(self, parameters: Parameters, e: Tensor, place: int, rng: np.random.Generator) -> Parameters:
        def change(_: float, changed: Parameters) -> tuple[Parameters, Tensor]:
            return changed, weighted_sum(changed.weights, e)

        return self._sample(parameters, "weights", place, log_prior_shape, change, rng)[0]

    def _sample_base(
        self, parameters: Parameters, e: Tensor, z: Tensor, name: str, place: int, rng: np.random.Generator
    ) -> Parameters:
        """Sample the parameter of one base kernel, which changes its row of z. e: polynomials of all others."""
        constant = weighted_sum(parameters.weights, e[1:])
        slope = weighted_sum(parameters.weights, e[: self._kernel.orders])

        def factor(x: float) -> Tensor:
            if name == "beta":
                return self._kernel.discrete_kernel(place, x, self._equal[:, place])
            return continuous_kernel(x, self._squared[:, place])

        def change(x: float, changed: Parameters) -> tuple[Parameters, Tensor]:
            return changed, constant + factor(x) * slope

        prior = log_prior_shape if name == "beta" else log_prior_length
        parameters, x = self._sample(parameters, name, place, prior, change, rng)
        z[self._row(name, place)] = factor(x)
        return parameters

    def _sample(
        self,
        parameters: Parameters,
        name: str,
        place: int | None,
        prior: Callable[[float], float],
        change: Callable[[float, Parameters], tuple[Parameters, Tensor]],
        rng: np.random.Generator,
    ) -> tuple[Parameters, float]:
        """Sample one number; change: its value and the changed parameters -> these and the kernel's matrix."""

        def at(x: float) -> Parameters:
            values: Any = getattr(parameters, name)
            changed: dict[str, Any] = {name: x if place is None else (*values[:place], x, *values[place + 1 :])}
            return replace(parameters, **changed)

        def log_density(x: float) -> float:
            density = prior(x)
            return density if density == -math.inf else density + self.log_likelihood(*change(x, at(x)))

        current = getattr(parameters, name) if place is None else getattr(parameters, name)[place]
        x = slice_sample(log_density, current, _width(name, self._y), rng, self._published_errors)
        return at(x), x


def _width(name: str, y: Tensor) -> float:
    return {"mean": 0.5 * float(y.max() - y.min()), "q": 0.5}.get(name, 1.0)


def log_prior_mean(x: float, low: float, high: float) -> float:
    """A normal around the middle of the objectives, with a quarter of their range as deviation, cut at both ends."""
    deviation = 0.25 * (high - low)
    if not low <= x <= high:
        return -math.inf
    return -0.5 * ((x - 0.5 * (low + high)) / deviation) ** 2 - math.log(deviation)


def log_prior_amplitude(x: float, low: float, high: float) -> float:
    """A normal with two deviations to each side from low = log(var y / max k) to high = log(var y / min k)."""
    if not LOWEST <= x <= HIGHEST:
        return -math.inf
    deviation = max(0.25 * (high - low), 1e-6)
    return -0.5 * ((x - 0.5 * (low + high)) / deviation) ** 2 - math.log(deviation)


def path_extremes(sizes: Sequence[int]) -> tuple[float, float]:
    """Return the logarithms of the extremes in the amplitude's prior of HyBO's code.

    They are the largest and the least eigenvalue of COMBO's kernel, although HyBO has another one: the product of
    diffusions for unit time on paths of `sizes` vertices, each divided by its mean eigenvalue.
    """
    largest = least = 0.0
    for n in sizes:
        of_graph = 2.0 - 2.0 * np.cos(np.pi * np.arange(n) / n)
        log_mean = math.log(np.exp(-of_graph).mean())
        largest, least = largest - log_mean, least - float(of_graph[-1]) - log_mean
    return largest, max(least, math.log(1e-100))


def log_prior_noise(x: float) -> float:
    """A horseshoe of scale 0.1 on the variance exp(x)."""
    return math.log(math.log1p((0.1 / math.exp(x)) ** 2)) if LOWEST <= x <= HIGHEST else -math.inf


def log_prior_shape(x: float) -> float:
    """A horseshoe-like density of exp(x): a beta, or the weight of an order."""
    return math.log(math.log1p(2.0 / (math.exp(x) / 5.0) ** 2)) if LOWEST <= x <= HIGHEST_WEIGHT else -math.inf


def log_prior_length(x: float) -> float:
    """Uniform on [0, 2]."""
    return 0.0 if 0.0 <= x <= 2.0 else -math.inf
