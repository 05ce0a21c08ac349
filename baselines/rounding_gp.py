"""A Gaussian process on relaxed codes with rounding, the method of GPyOpt (The GPyOpt authors 2016).

A nominal variable or a graph becomes one indicator column per value, an ordered variable a single column with evenly
spaced values, all in [0, 1]. The process has an isotropic Matern-5/2 on these codes and the continuous variables.
Expected improvement is maximised over the whole cube from the best five of 1,000 random configurations. Each result is
rounded: of an indicator's columns the largest wins, an ordered variable takes its nearest value. The best of the five
after rounding is suggested.

The search does not know that its maximum will be rounded. Garrido-Merchan and Hernandez-Lobato (2020) show the cost,
and round inside the kernel; this is the method that they improve on.

Unchanged: kernel, maximum likelihood, starts and choice of the search, and the acquisition: improvement of an
observation, with its noise, by more than 0.01 standard deviations on the lowest predicted mean of a known point.

| changed | source | here | reason |
|---|---|---|---|
| continuous variables | in their units | in [0, 1] | one lengthscale for all columns |
| fit | five starts, 1,000 iterations each | after 12 iterations the best two of five | speed |
| fit above 64 results | the same | in three of four asks from the last optimum alone | speed |
| bounds of theta, noise variance | none; 1e-9, 1e6 | 1e-3, 1e2; 1e-6, 10 s2 | |
| local search | L-BFGS-B, 1,000 iterations | BFGS, 100; only the best of close starts continues | shared search |
| ordered values | columns of the values | evenly spaced in [0, 1] | one lengthscale for all columns |
| known configurations | tried again | next best point that rounds to a new one | no optimizer here repeats one |
| output scale, mean | fitted, 0 | maximised out | shared process |
| pending trials | batches by local penalization | kriging believer, also for the lowest mean | asynchronous workers |
| constraints | on the relaxed codes | on the rounded point | suggestions must be feasible |

Limitation: the edges of graphs and the distances between ordered numeric values are ignored.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.autograd_kernel import PairKernel
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternating_search, best_of
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.variables import Discrete

EI_MARGIN = 0.01  # of the standardised objective


def codes(variable: Discrete) -> Tensor:
    """Return the code of each value [V_p, columns]."""
    n = len(variable.vertices)
    if variable.ordered:
        return torch.linspace(0.0, 1.0, n, dtype=torch.float64)[:, None]
    return torch.eye(n, dtype=torch.float64)


class CodeKernel(PairKernel):
    """A Matern of the distance between the codes and continuous parts of points."""

    parameters = (Parameter("theta", 1, (1e-3, 1e2), LogUniform(-2.0, 1.5)),)

    def __init__(self, space: Space) -> None:
        super().__init__([torch.cdist(code, code).square() for code in map(codes, space.discrete)])

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations; a is the squared distance of the codes of discrete variables."""
        return matern52((x2 + a) / values["theta"].square())


@dataclass(frozen=True)
class ObservedLogEI(LogEI):
    """Log expected improvement of an observation. noise: its variance, which adds to that of f."""

    noise: float

    def value(self, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return the acquisition."""
        return super().value(mean, self._total(deviation))

    def slopes(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        total = self._total(deviation)
        value, by_mean, by_total = super().slopes(mean, total)
        return value, by_mean, by_total * deviation / total

    def _total(self, deviation: Tensor) -> Tensor:
        return (deviation.square() + self.noise).sqrt()


class RoundingGP(BayesianOptimizer):
    """Expected improvement over relaxed codes, with rounding."""

    settings = ModelSettings(
        FitSettings(starts=5, prior=False, smooth=False, plug_in=True), SearchSettings(random_points=1000, starts=5)
    )

    def kernel(self, space: Space) -> CodeKernel:
        """Return the kernel of the process."""
        return CodeKernel(space)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return feasible points, best first: the refined and rounded ones, then all others."""
        space, relaxed, count = self.space, self._relaxed_surface(surface.posterior), state.settings.random_points
        points = Points.from_encoded(space, space.sample_encoded(state.rng, count))
        relaxed_points = self._relax(points)
        order = relaxed.value(relaxed_points).argsort(descending=True, stable=True)
        starts = relaxed_points.select(order[: state.settings.starts])
        improved, _ = alternating_search(relaxed, Region(self._cube), starts, state.settings)
        rounded = self._round(improved.C)
        rounded = best_of(rounded, relaxed.value(self._relax(rounded)), len(rounded))
        X = rounded.to_encoded(space)
        return Points.from_encoded(space, X[space.feasible(X, strictly=True)]).concat(points.select(order))

    def _relaxed_surface(self, posterior: Posterior) -> Surface:
        """Return the acquisition over the cube, given the process over the space."""
        process = posterior.likelihood
        likelihood = process.with_data(self._relax(process.points), process.y, CodeKernel(self._cube))
        relaxed = Posterior(likelihood, posterior.eta)
        relaxed.s2 = posterior.s2  # that of the results without pending trials
        lowest = float(relaxed.predict(likelihood.points)[0].min())
        return Surface(relaxed, ObservedLogEI(lowest - EI_MARGIN, relaxed.g * relaxed.s2))

    @cached_property
    def _cube(self) -> Space:
        """The space of the relaxed codes."""
        columns = len(self.space.continuous) + sum(codes(variable).shape[1] for variable in self.space.discrete)
        return Space([Real(f"z{k}", 0.0, 1.0) for k in range(columns)])

    def _relax(self, points: Points) -> Points:
        """Map points to the cube."""
        columns = [codes(variable)[points.V[:, p]] for p, variable in enumerate(self.space.discrete)]
        return Points(torch.cat([points.C, *columns], 1), torch.zeros(len(points), 1, dtype=torch.int64))

    def _round(self, Z: Tensor) -> Points:
        """Round points of the cube [m, columns] to the nearest points of the space."""
        tables, D = [codes(variable) for variable in self.space.discrete], len(self.space.continuous)
        C, *columns = Z.split([D, *(table.shape[1] for table in tables)], dim=1)
        V = [torch.cdist(part.contiguous(), table).argmin(1) for part, table in zip(columns, tables, strict=True)]
        return Points(C, torch.stack(V, 1) if V else torch.zeros(len(Z), 1, dtype=torch.int64))
