"""Fitting the Gaussian process: maximum likelihood from many starts, and from where the last fit ended."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior


class FitError(RuntimeError):
    """No start of a fit gave a positive definite matrix. Never reaches a user: the optimizer falls back and says so."""


@dataclass(frozen=True)
class Fit:
    """A fitted process, and the negative log likelihood (or density) per observation: of the best and all finalists."""

    posterior: Posterior
    nll: float
    nll_of_finalists: tuple[float, ...]


@dataclass(frozen=True)
class FitSettings:
    """How hard to search for the maximum likelihood.

    starts: random starts of every fit. screening: iterations that all of them get.
    subset: on more observations than this, screen on a subset of this size: the best quarter and others at random.
    largest: on more than this, the parameters are fitted on such a subset; the process is given all observations.
    finalists: how many of the screened (the previous fit's optimum among them) go on, on all observations; after a
    screening on a subset, one.
    patience: the finalists' iterations are at most `patience / n^2`, and between 3 and `iterations`.
    tolerance: they end when one gains less, in nats of all observations together. prior: whether the
    parameters' priors count; without, it is maximum likelihood.
    warm: whether the optimum of an earlier fit is one more start. smooth: whether every second start is smoother than
    the paper's. plug_in: whether predictions take the estimated mean and output scale for known (process.py).
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
"""Maximum likelihood, every start cold and to convergence on all observations, as in the paper."""


class Surrogate:
    """Fits processes of one kernel.

    settings: how hard. Random draws come from the generator handed to `fit`.
    """

    def __init__(self, kernel: Kernel, settings: FitSettings) -> None:
        self.kernel, self.settings = kernel, settings

    def likelihood(self, points: Points, y: Tensor) -> Likelihood:
        """The likelihood of a data set."""
        return Likelihood(self.kernel, points, y, self.settings.prior, self.settings.plug_in)

    def fit(
        self, points: Points, y: Tensor, rng: np.random.Generator, warm: Tensor | None = None, afresh: bool = True
    ) -> Fit:
        """Maximise the likelihood of y [n]; the best wins. `warm`: eta of an earlier fit, one more start.

        afresh: False where `warm` alone will do once the observations outnumber `settings.subset`.
        Raises FitError when no start gives a positive definite matrix.
        """
        settings, every = self.settings, self.likelihood(points, y)
        likelihood = every
        if len(points) > settings.largest:
            likelihood = self._on_subset(points, y, settings.largest, rng)
        box = likelihood.parameters.box
        starts = torch.empty(0, len(box.lower), dtype=torch.float64)
        if warm is not None and settings.warm:
            starts = box.clip(warm)[None]
        if afresh or not len(starts) or len(points) <= settings.subset:
            starts = torch.cat([starts, self._screened(likelihood, points, y, rng)])
        finalists = settings.finalists if len(points) <= settings.subset else 1
        if len(starts) > finalists:
            values, _ = likelihood(starts, torch.arange(len(starts)))
            starts = starts[values.argsort(stable=True)[:finalists]]
        rounds = max(3, min(settings.iterations, int(settings.patience / likelihood.n**2)))
        eta, nll = minimise(likelihood, starts, box, iterations=rounds, tolerance=settings.tolerance / likelihood.n)
        best = int(nll.argmin())
        if not math.isfinite(float(nll[best])):
            raise FitError(f"no start gave a positive definite matrix for {len(points)} observations")
        return Fit(Posterior(every, eta[best]), float(nll[best]), tuple(nll.tolist()))

    def _on_subset(self, points: Points, y: Tensor, size: int, rng: np.random.Generator) -> Likelihood:
        """The likelihood of some of the observations: the best quarter of `size`, and others at random."""
        order = y.argsort(stable=True)
        best, rest = order[: size // 4], order[size // 4 :]
        others = torch.from_numpy(rng.permutation(len(rest))[: size - len(best)])
        chosen = torch.cat([best, rest[others]])
        return self.likelihood(points.at(chosen), y[chosen])

    def _screened(self, likelihood: Likelihood, points: Points, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Random starts [starts, d] after a few iterations, on a subset where there are many observations."""
        settings = self.settings
        if len(points) > settings.subset:
            likelihood = self._on_subset(points, y, settings.subset, rng)
        starts = likelihood.parameters.starts(rng, settings.starts, settings.smooth)
        screened, nll = minimise(
            likelihood, starts, likelihood.parameters.box, iterations=settings.screening, tolerance=1e-4
        )
        # One per start that the subset could rank: the full data then choose among the best and the previous optimum.
        return screened[nll.argsort(stable=True)[: settings.finalists]]
