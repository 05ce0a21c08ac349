"""A Gaussian process on relaxed codes with rounding, the method of GPyOpt (The GPyOpt authors 2016).

A nominal variable or a graph becomes one indicator column per value, an ordered variable a single column with evenly
spaced values, all in [0, 1]. The process has an isotropic Matern-5/2 on these codes and the continuous variables.
Expected improvement (by more than 0.01 standard deviations) is maximised over the whole cube, and the result is
rounded: the largest column wins, an ordered variable takes its nearest value.

The process does not know that its maximum is rounded. Garrido-Merchan and Hernandez-Lobato (2020) show the cost, and
round inside the kernel; this is the method that they improve on.

Unchanged: kernel, maximum likelihood from five starts, acquisition with its jitter, 1,000 random points of which the
best five are refined.

| changed | source | here | reason |
|---|---|---|---|
| ordered values | columns of the values | evenly spaced in [0, 1] | one lengthscale for all columns |
| known configurations | tried again | next best point that rounds to a new one | no optimizer here repeats one |
| output scale, mean | fitted, 0 | maximised out | shared process |
| pending trials | batches by local penalization | kriging believer | asynchronous workers |
| constraints | on the relaxed codes | on the rounded point | suggestions must be feasible |

Limitation: the edges of graphs and the distances between ordered numeric values are ignored.
"""

from functools import cached_property

import torch
from torch import Tensor

from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import Acquisition, LogEI
from fmnas.optimizers.gp.autograd_kernel import PairKernel
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternating_search
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


class RoundingGP(BayesianOptimizer):
    """Expected improvement over relaxed codes, with rounding."""

    settings = ModelSettings(
        FitSettings(starts=5, prior=False, smooth=False, plug_in=True), SearchSettings(random_points=1000, starts=5)
    )

    def kernel(self, space: Space) -> CodeKernel:
        """Return the kernel of the process."""
        return CodeKernel(space)

    def acquisition(self, y: Tensor) -> Acquisition:
        """Return expected improvement by more than the jitter."""
        return LogEI(float(y.min()) - EI_MARGIN)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return rounded feasible points, best first: the refined ones, then all others."""
        cube = self._cube
        process = surface.posterior.likelihood
        likelihood = process.with_data(self._relax(process.points), process.y, CodeKernel(cube))
        posterior = Posterior(likelihood, surface.posterior.eta)
        if self.pending:
            posterior.s2 = surface.posterior.s2  # that of the results without pending trials
        relaxed = Surface(posterior, surface.acquisition)
        random_points = Points.from_encoded(cube, state.rng.random((state.settings.random_points, len(cube))))
        ordered = random_points.select(relaxed.value(random_points).argsort(descending=True, stable=True))
        improved, _ = alternating_search(
            relaxed, Region(cube), ordered.select(slice(state.settings.starts)), state.settings
        )
        X = self._round(improved.concat(ordered).C).to_encoded(self.space)
        return Points.from_encoded(self.space, X[self.space.feasible(X, strictly=True)])

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
