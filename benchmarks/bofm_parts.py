"""What each part of BO-FM's default brings: a factorial on the design half of the suite (suite.py).

    python benchmarks/bofm_parts.py run FILE [--arms default correlation=0 ...] [arguments of suite.py run]
    python benchmarks/bofm_parts.py effects FILE

Eighteen arms are an orthogonal array (Taguchi's L18): every pair of levels of two factors appears equally often, so the
mean of a level over all arms that have it, minus that of the factor's first level, is its main effect.

| factor | levels |
|---|---|
| fit | the mode; expected improvement averaged over four draws of the parameters at every second ask; at every ask |
| safeguard | none; with probability 0.1 the rarest value of a nominal variable |
| warpings | 26; 5; 1 |
| kernel | the product of factors alone; blended with their mean s; with (s + s^2) / 2, which has pairs of factors |
| search | 6 starts of 600 points; 20 of 2,000 |

The array has not been run whole. `--arms` runs others, by what differs from BO-FM's default: those behind docs/bo-fm.md
are "default", "correlation=0" (independent priors) and "fit=second".

`effects` prints main effects on log10 of the normalised regret and on the rank among the eighteen arms, with 95%
intervals over problems. The draws are by elliptical slice sampling (Murray et al. 2010) under the log-normal priors.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import suite
import torch
from torch import Tensor

from fmnas.comparison.analysis.across_problems import normalised_regret, rank_optimizers
from fmnas.comparison.analysis.resampling import mean_interval
from fmnas.optimizers import BOFM, Optimizer
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.acquisition import Acquisition, LogEI
from fmnas.optimizers.gp.bfgs import minimise
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import (
    BLENDED_KERNELS,
    FAST_KERNELS,
    Blended,
    FastKernel,
    ModulatedLaplacian,
)
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping, identity, log_above_median
from fmnas.optimizers.gp.parameters import ParameterVector
from fmnas.optimizers.gp.points import Points, is_new
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import (
    SearchSettings,
    SearchState,
    Surface,
    alternating_search,
    sample_near,
    start_points,
)
from fmnas.optimizers.optimizer import Suggestion
from fmnas.search_spaces import Configuration, Nominal, Space
from fmnas.search_spaces.records import MODEL

FACTORS: dict[str, tuple[str, ...]] = {
    "safeguard": ("none", "rarest"),
    "fit": ("mode", "second", "every"),
    "warpings": ("26", "5", "1"),
    "kernel": ("blended", "plain", "pairs"),
    "search": ("6", "20", "6"),
}
ARRAY = (
    *("11111", "11222", "11333", "12112", "12223", "12331", "13121", "13232", "13313"),
    *("21133", "21211", "21322", "22123", "22231", "22312", "23132", "23213", "23321"),
)
"""Taguchi's L18, its first five columns: the level of each factor in each arm."""
CHAINS, STEPS, AVERAGE_UP_TO, RARE = 4, 12, 200, 0.1
FEW = (
    Warping(log_above_median),
    Warping(identity),
    Warping(identity, -0.5),
    Warping(identity, 0.75),
    Warping(identity, 1.5),
)


class WithPairs(Blended):
    """r = (1 - w) q + w (s + s^2) / 2: the square of a sum of factors has all products of two."""

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return q + w * (0.5 * (s + s * s) - q)

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        by_s = w * (0.5 + s)
        return (1.0 - w).expand_as(q), by_s, torch.zeros_like(q), 0.5 * (s + s * s) - q


KERNELS = {
    "plain": FAST_KERNELS["modlap"],
    "blended": BLENDED_KERNELS["modlap"],
    "pairs": FastKernel(ModulatedLaplacian(), WithPairs()),
}


class Averaged:
    """A `Surface` whose acquisition is the logarithm of the mean over posteriors of its exponential."""

    def __init__(self, posteriors: Sequence[Posterior], acquisition: Acquisition) -> None:
        self.surfaces = [Surface(posterior, acquisition) for posterior in posteriors]
        self.posterior = posteriors[0]

    def value(self, points: Points) -> Tensor:
        return self._mean([surface.value(points) for surface in self.surfaces])

    def best_neighbours(self, points: Points, region: Region) -> tuple[Tensor, Tensor]:
        if not region.has_moves:
            return points.V, torch.full((len(points),), -torch.inf, dtype=torch.float64)
        values = []
        for surface in self.surfaces:
            posterior = surface.posterior
            mean, variance, _ = posterior.predict_from(*posterior.correlation.neighbours(points))
            values.append(surface.acquisition.value(mean, variance.sqrt()))
        best, k = self._mean(values).masked_fill(~region.neighbours(points), -torch.inf).max(dim=1)
        vertices = points.V.clone()
        vertices[torch.arange(len(points)), region.variable[k]] = region.vertex[k]
        return vertices, best

    def climb(self, points: Points, region: Region, steps: int, tolerance: float) -> tuple[Tensor, Tensor]:
        def objective(C: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
            V = points.V[which]
            parts = [s.with_gradient(C, s.posterior.correlation.precompute(V)) for s in self.surfaces]
            values = torch.stack([value for value, _ in parts])
            shares = (values - values.logsumexp(0)).exp()
            gradient = (shares[..., None] * torch.stack([slope for _, slope in parts])).sum(0)
            return torch.where(region.feasible(Points(C, V)), -self._mean(list(values)), torch.inf), -gradient

        C, negative = minimise(objective, points.C, region.box, iterations=steps, tolerance=tolerance)
        return C, -negative

    def _mean(self, values: Sequence[Tensor]) -> Tensor:
        return torch.stack(list(values)).logsumexp(0) - math.log(len(values))


def profile_likelihood(likelihood: Likelihood, eta: Tensor) -> Tensor:
    """Return the log likelihood of each eta [B, d], mean and output scale maximised out; no gradient."""
    values = likelihood.parameters.values(eta)
    A = likelihood._lower(likelihood._pairs.correlation(values))
    A.diagonal(dim1=-2, dim2=-1).add_(values["noise"])
    L, info = torch.linalg.cholesky_ex(A)
    data = torch.stack([torch.ones_like(likelihood.y), likelihood.y], -1)
    one, y = torch.linalg.solve_triangular(L, data.expand(len(L), -1, -1), upper=False).unbind(-1)  # [B, n]
    mu = (one * y).sum(-1) / one.square().sum(-1)
    s2 = (y - mu[:, None] * one).square().mean(-1).clamp(min=1e-300)
    logdet = 2.0 * L.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    value = -0.5 * (likelihood.n * s2.log() + logdet)
    return torch.where((info > 0) | ~value.isfinite(), -torch.inf, value)


def draw_from_prior(vector: ParameterVector, count: int, rng: np.random.Generator) -> Tensor:
    """Draw eta minus its prior mean [count, d] from the correlated normal prior."""
    parts = []
    for parameter, size in zip(vector.parameters, vector.sizes, strict=True):
        c = parameter.prior.correlation if parameter.prior else 0.0
        own, common = rng.standard_normal((count, size)), rng.standard_normal((count, 1))
        parts.append(math.sqrt(1.0 - c) * own + math.sqrt(c) * common)
    return torch.from_numpy(np.concatenate(parts, 1)) * vector.deviation


def draw_parameters(posterior: Posterior, rng: np.random.Generator) -> Tensor:
    """Return CHAINS draws of eta [CHAINS, d] by elliptical slice sampling from the mode; free parameters only."""
    likelihood = posterior.likelihood
    plain = Likelihood(likelihood.kernel, likelihood.points, likelihood.y)
    vector, box = plain.parameters, plain.parameters.box
    free = (box.upper > box.lower).double()
    state = posterior.eta.repeat(CHAINS, 1)

    def log_likelihood(eta: Tensor) -> Tensor:
        inside = ((eta >= box.lower - 1e-9) & (eta <= box.upper + 1e-9)).all(-1)
        return torch.where(inside, profile_likelihood(plain, box.clip(eta)), -torch.inf)

    current = log_likelihood(state)
    for _ in range(STEPS):
        nu = draw_from_prior(vector, CHAINS, rng) * free
        level = current + torch.from_numpy(np.log(rng.random(CHAINS)))
        angle = torch.from_numpy(rng.uniform(0.0, 2 * np.pi, CHAINS))
        low, high = angle - 2 * np.pi, angle.clone()
        waiting = torch.ones(CHAINS, dtype=torch.bool)
        for _ in range(30):
            offset = (state - vector.mean) * free
            moved = state - offset + offset * angle.cos()[:, None] + nu * angle.sin()[:, None]
            value = log_likelihood(moved)
            accepted = waiting & (value > level)
            state, current = torch.where(accepted[:, None], moved, state), torch.where(accepted, value, current)
            waiting &= ~accepted
            if not waiting.any():
                break
            low, high = torch.where(angle < 0, angle, low), torch.where(angle >= 0, angle, high)
            angle = torch.where(waiting, low + (high - low) * torch.from_numpy(rng.random(CHAINS)), angle)
    return box.clip(state)


@dataclass(frozen=True)
class Arm:
    """Levels of the factors, and of two parts that the array does not have. The defaults are those of BO-FM.

    correlation: of the priors. margin: what an improvement has to exceed, in standard deviations of the modeled
    objectives.
    """

    safeguard: str = "none"
    fit: str = "mode"
    warpings: str = "26"
    kernel: str = "blended"
    search: str = "6"
    correlation: str = "0.5"
    margin: str = "0"

    @property
    def name(self) -> str:
        """What differs from the default, e.g. "fit=every,correlation=0"; "default" if nothing does."""
        levels = asdict(self).items()
        changed = [f"{factor}={level}" for factor, level in levels if level != getattr(Arm, factor)]
        return ",".join(changed) or "default"

    @classmethod
    def from_name(cls, name: str) -> "Arm":
        """Invert `name`."""
        return cls() if name == "default" else cls(**dict(part.split("=") for part in name.split(",")))


ARMS = [Arm(*(levels[int(digit) - 1] for levels, digit in zip(FACTORS.values(), row, strict=True))) for row in ARRAY]


class PartsBOFM(BOFM):
    """BO-FM with the parts of an arm."""

    def __init__(self, space: Space, *, arm: Arm, **others: Any) -> None:
        warpings = {"26": WARPINGS, "5": FEW, "1": (Warping(),)}[arm.warpings]
        super().__init__(space, mode=Mode(warpings=warpings), **others)
        if arm.search == "20":
            wide = SearchSettings(random_points=1600, spray_points=400, starts=20)
            self.settings = self.mode = replace(self.mode, search=wide)
        self.arm = arm

    def kernel(self, space: Space) -> FMKernel:
        kernel = FMKernel(space, KERNELS[self.arm.kernel])
        kernel.parameters = tuple(
            replace(p, prior=replace(p.prior, correlation=float(self.arm.correlation))) if p.size > 1 and p.prior else p
            for p in kernel.parameters
        )
        return kernel

    def acquisition(self, y: Tensor) -> Acquisition:
        """Expected improvement by more than the margin."""
        return LogEI(float(y.min()) - float(self.arm.margin))

    def _maximise(self, posterior: Posterior, rng: np.random.Generator) -> Suggestion:
        """Averaged, guarded or plain."""
        if self.arm.safeguard == "rarest" and rng.random() < RARE and (guarded := self._rarest(posterior, rng)):
            return guarded
        every = {"mode": 0, "second": 2, "every": 1}[self.arm.fit]
        if not every or self._asked % every or len(self.history) > AVERAGE_UP_TO:
            return super()._maximise(posterior, rng)
        likelihood, etas = posterior.likelihood, draw_parameters(posterior, rng)
        posteriors = [self._with_fantasies(Posterior(likelihood, eta)) for eta in etas]
        known, best = self._known_points(), self.observations()[int(likelihood.y.argmin())][0]
        lowest = torch.stack([one.likelihood.y for one in posteriors]).mean(0)
        surface = Averaged(posteriors, self.acquisition(lowest))
        state = SearchState(self._codes[best.id], known, self.settings.search, rng)
        region = Region(self.space)
        starts = start_points(surface, region, state)  # type: ignore[arg-type]
        improved, _ = alternating_search(surface, region, starts, state.settings)  # type: ignore[arg-type]
        for x in improved.concat(starts).to_encoded(self.space):
            if is_new(x[None], known).all():
                return Suggestion(self.space.decode(x), MODEL, memo=self._memo())
        return super()._maximise(posterior, rng)

    def _rarest(self, posterior: Posterior, rng: np.random.Generator) -> Suggestion | None:
        """The best of random and near points that have the nominal value with the fewest trials."""
        D, known = len(self.space.continuous), self._known_points()
        counts = [
            (int((known[:, D + p] == v).sum()), rng.random(), p, v)
            for p, variable in enumerate(self.space.discrete)
            if isinstance(variable, Nominal)
            for v in range(len(variable.vertices))
        ]
        if not counts:
            return None
        _, _, p, v = min(counts)
        best = self.observations()[int(posterior.likelihood.y.argmin())][0]
        X = np.concatenate(
            [sample_near(self.space, self._codes[best.id], 100, rng), self.space.sample_encoded(rng, 100)]
        )
        X[:, D + p] = v
        X = X[is_new(X, known)]
        X = X[Region(self.space).feasible(Points.from_encoded(self.space, X)).numpy()]
        if not len(X):
            return None
        posterior = self._with_fantasies(posterior)
        surface = Surface(posterior, self.acquisition(posterior.likelihood.y))
        x = X[int(surface.value(Points.from_encoded(self.space, X)).argmax())]
        return Suggestion(self.space.decode(x), MODEL, memo=self._memo())


def build_arm(name: str, space: Space, seed: int, design: list[Configuration], evaluations: int) -> Optimizer:
    """The optimizer of an arm, by the arm's name."""
    return PartsBOFM(space, arm=Arm.from_name(name), seed=seed, initial_design=design)


def print_effects(path: Path) -> None:
    """Main effects at each checkpoint."""
    results = suite.problems_in(suite.read_runs(path))
    names, reached = results[0].optimizers, results[0].incumbents.shape[2]
    at = suite.CHECKPOINTS[:reached]
    regret = np.stack([np.log10(normalised_regret(p).clip(min=suite.FLOOR)).mean(1) for p in results])  # [P, K, E]
    ranks = np.stack([rank_optimizers(problem.incumbents) for problem in results])
    arms = [Arm.from_name(name) for name in names]
    print(f"{len(results)} problems, {sum(p.incumbents.shape[1] for p in results)} pairs of a problem and a seed\n")
    for title, values in {"log10 of normalised regret": regret, "rank of 18": ranks}.items():
        print(f"| effect on {title} | level | " + " | ".join(map(str, at)) + " |\n" + "|---" * (reached + 2) + "|")
        for factor, levels in FACTORS.items():
            of_arm = np.array([getattr(arm, factor) for arm in arms])
            for level in dict.fromkeys(levels[1:]):
                if level == levels[0]:
                    continue
                effect = values[:, of_arm == level].mean(1) - values[:, of_arm == levels[0]].mean(1)  # [P, E]
                low, high = mean_interval(effect)
                cells = [f"{m:+.2f} ({a:+.2f} to {b:+.2f})" for m, a, b in zip(effect.mean(0), low, high, strict=True)]
                print(f"| {factor}, from {levels[0]} | {level} | " + " | ".join(cells) + " |")
        print()


def main() -> None:
    """Run what is missing, or print effects."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    suite.add_run_arguments(run := commands.add_parser("run"))
    run.add_argument("--arms", nargs="+", default=[arm.name for arm in ARMS])
    effects = commands.add_parser("effects")
    effects.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "effects":
        print_effects(arguments.file)
        return
    suite.run_missing(arguments, arguments.arms, build_arm)


if __name__ == "__main__":
    sys.exit(main())
