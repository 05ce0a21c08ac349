"""Fits of the Gaussian process: maximum likelihood from several starts and from the previous optimum."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import FitError, Likelihood, Posterior


@dataclass(frozen=True)
class Fit:
    """A fitted process and its negative log likelihood (or density) per observation."""

    posterior: Posterior
    nll: float


@dataclass(frozen=True)
class FitSettings:
    """Settings of the likelihood maximization.

    starts: random starts of a fit that restarts (`Surrogate.fit`). screening: iterations of all starts.
    subset: with more observations, screen on a subset of this size: the best quarter and a random sample of the others.
    largest: with more observations, fit the parameters on such a subset; predictions use all observations.
    finalists: number of screened starts (including the previous optimum) that are optimized further on all
    observations; one after screening on a subset.
    patience: the finalists get at most `patience / n^2` iterations, and between 3 and `iterations`.
    tolerance: smallest gain of an iteration, in nats of all observations together.
    prior: include the priors of the parameters; otherwise maximum likelihood. warm: start from the previous optimum,
    too. smooth: make every second start smoother than the paper's. plug_in: predict as if the estimated mean and output
    scale were known (process.py).
    """

    starts: int = 4
    screening: int = 12
    subset: int = 64
    largest: int = 400
    finalists: int = 2
    iterations: int = 60
    patience: float = 300_000.0
    tolerance: float = 1e-3
    prior: bool = True
    warm: bool = True
    smooth: bool = True
    plug_in: bool = False


PAPER_FIT = FitSettings(
    starts=10,
    screening=0,
    subset=10**9,
    largest=10**9,
    finalists=10,
    iterations=300,
    patience=1e18,
    tolerance=1e-6,
    prior=False,
    warm=False,
    smooth=False,
    plug_in=True,
)
"""Maximum likelihood from random starts, each to convergence on all observations, as in the paper."""


class Surrogate:
    """Fits processes with one kernel."""

    def __init__(self, kernel: Kernel, settings: FitSettings) -> None:
        self.kernel, self.settings = kernel, settings

    def likelihood(self, points: Points, y: Tensor) -> Likelihood:
        """Return the likelihood of a data set."""
        return Likelihood(self.kernel, points, y, self.settings.prior, self.settings.plug_in)

    def fit(
        self, points: Points, y: Tensor, rng: np.random.Generator, warm: Tensor | None = None, restart: bool = True
    ) -> Fit:
        """Maximise the likelihood of y [n] and return the best fit. warm: eta of an earlier fit, an additional start.

        restart: with False, `warm` is the only start if there are more than `settings.subset` observations.
        Raises FitError if no start gives a positive definite matrix, or the best fit to a subset gives none for all y.
        """
        settings, full = self.settings, self.likelihood(points, y)
        likelihood = self._on_subset(points, y, settings.largest, rng) if len(points) > settings.largest else full
        box = likelihood.parameters.box
        starts = torch.empty(0, len(box.lower), dtype=torch.float64)
        if warm is not None and settings.warm:
            starts = box.clip(warm)[None]
        if restart or not len(starts) or len(points) <= settings.subset:
            starts = torch.cat([starts, self._screen_starts(likelihood, points, y, rng)])
        finalists = settings.finalists if len(points) <= settings.subset else 1
        if len(starts) > finalists:
            values, _ = likelihood(starts, torch.arange(len(starts)))
            starts = starts[values.argsort(stable=True)[:finalists]]
        rounds = max(3, min(settings.iterations, int(settings.patience / likelihood.n**2)))
        eta, nll = minimise(likelihood, starts, box, iterations=rounds, tolerance=settings.tolerance / likelihood.n)
        best = int(nll.argmin())
        if not math.isfinite(float(nll[best])):
            raise FitError(f"no start gave a positive definite matrix for {len(points)} observations")
        return Fit(Posterior(full, eta[best]), float(nll[best]))

    def _on_subset(self, points: Points, y: Tensor, size: int, rng: np.random.Generator) -> Likelihood:
        """Return the likelihood of `size` observations: the best quarter, and a random sample of the others."""
        order = y.argsort(stable=True)
        best, rest = order[: size // 4], order[size // 4 :]
        sampled = torch.from_numpy(rng.permutation(len(rest))[: size - len(best)])
        chosen = torch.cat([best, rest[sampled]])
        return self.likelihood(points.select(chosen), y[chosen])

    def _screen_starts(self, likelihood: Likelihood, points: Points, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Return random starts [starts, d] after a few iterations, on a subset if there are many observations."""
        settings = self.settings
        if len(points) > settings.subset:
            likelihood = self._on_subset(points, y, settings.subset, rng)
        starts = likelihood.parameters.starts(rng, settings.starts, settings.smooth)
        screened, nll = minimise(
            likelihood, starts, likelihood.parameters.box, iterations=settings.screening, tolerance=1e-4
        )
        return screened[nll.argsort(stable=True)[: settings.finalists]]
