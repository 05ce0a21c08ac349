"""A Gaussian process on relaxed codes, and rounding: the way of GPyOpt (The GPyOpt authors 2016).

A nominal variable, or a graph, becomes a column in [0, 1] for each of its values, of which one is 1; an ordered one a
single column, its values evenly spaced. The process has an isotropic Matern-5/2 on these codes and the continuous
variables. Expected improvement (by more than 0.01 standard deviations) is maximised over the whole cube, and what is
found there is rounded: the largest column wins, an ordered variable takes its nearest value.

So the process never learns that its maximum was rounded. Garrido-Merchan and Hernandez-Lobato (2020) show what that
costs, and round inside the kernel instead, with which the acquisition is flat between values; this is the method that
they improve on.

Kept: kernel, maximum likelihood from five starts, the acquisition with its jitter, 1,000 random points of which the
best five are refined.

| changed | source | here | why |
|---|---|---|---|
| ordered values | columns as large as the values | evenly spaced in [0, 1] | one length scale serves all columns |
| tried before | tried again | the next best of all points that rounds to something new | none here tries twice |
| output scale, mean | searched, 0 | maximised out | the shared process has it so |
| pending trials | batches by local penalization | kriging believer | workers come one by one |
| constraints | on the relaxed codes | on what was rounded | what is tried must meet them |

What is lost: the edges of graphs, and the distances between ordered values that are numbers.
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
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternate
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.variables import Discrete

EI_MARGIN = 0.01  # of the standardised objective


def codes(variable: Discrete) -> Tensor:
    """The code of each value [V_p, columns]."""
    n = len(variable.vertices)
    if variable.ordered:
        return torch.linspace(0.0, 1.0, n, dtype=torch.float64)[:, None]
    return torch.eye(n, dtype=torch.float64)


class CodeKernel(PairKernel):
    """A Matern of the distance between codes; of a space without discrete variables, between its points."""

    parameters = (Parameter("theta", 1, (1e-3, 1e2), LogUniform(-2.0, 1.5)),)

    def __init__(self, space: Space) -> None:
        super().__init__([torch.cdist(code, code).square() for code in map(codes, space.discrete)])

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Correlations; a is the squared distance of the codes of the discrete variables."""
        return matern52((x2 + a) / values["theta"].square())


class RoundingGP(BayesianOptimizer):
    """Expected improvement over relaxed codes, rounded."""

    settings = ModelSettings(
        FitSettings(starts=5, prior=False, smooth=False, plug_in=True), SearchSettings(random_points=1000, starts=5)
    )

    def kernel(self, space: Space) -> CodeKernel:
        """The kernel of the process."""
        return CodeKernel(space)

    def acquisition(self, y: Tensor) -> Acquisition:
        """Expected improvement by more than the jitter."""
        return LogEI(float(y.min()) - EI_MARGIN)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Rounded points, feasible, the best first: those refined, then all others."""
        cube = self._cube
        process = surface.posterior.likelihood
        likelihood = process.of(self._relaxed(process.points), process.y, CodeKernel(cube))
        posterior = Posterior(likelihood, surface.posterior.eta)
        if self.pending:
            posterior.s2 = surface.posterior.s2  # that of the results alone
        relaxed = Surface(posterior, surface.acquisition)
        anywhere = Points.of(cube, state.rng.random((state.settings.random_points, len(cube))))
        ordered = anywhere.at(relaxed.value(anywhere).argsort(descending=True, stable=True))
        found, _ = alternate(relaxed, Region(cube), ordered.at(slice(state.settings.starts)), state.settings)
        X = self._rounded(found.and_then(ordered).C).encoded(self.space)
        return Points.of(self.space, X[self.space.feasible(X, strictly=True)])

    @cached_property
    def _cube(self) -> Space:
        """The space of the relaxed codes."""
        columns = len(self.space.continuous) + sum(codes(variable).shape[1] for variable in self.space.discrete)
        return Space([Real(f"z{k}", 0.0, 1.0) for k in range(columns)])

    def _relaxed(self, points: Points) -> Points:
        """Points as points of the cube."""
        columns = [codes(variable)[points.V[:, p]] for p, variable in enumerate(self.space.discrete)]
        return Points(torch.cat([points.C, *columns], 1), torch.zeros(len(points), 1, dtype=torch.int64))

    def _rounded(self, Z: Tensor) -> Points:
        """The nearest points of the space to those of the cube [m, columns]."""
        tables, D = [codes(variable) for variable in self.space.discrete], len(self.space.continuous)
        C, *columns = Z.split([D, *(table.shape[1] for table in tables)], dim=1)
        V = [torch.cdist(part.contiguous(), table).argmin(1) for part, table in zip(columns, tables, strict=True)]
        return Points(C, torch.stack(V, 1) if V else torch.zeros(len(Z), 1, dtype=torch.int64))
