"""GP-SA, a baseline of MiVaBO (Daxberger et al. 2019, Sec. 4): a Gaussian process with annealed acquisition.

The process has an isotropic squared exponential kernel on the bits (binary_codes.py) and the continuous variables, in
[0, 1]; the lower confidence bound, with weight 2, is minimised by simulated annealing (annealing.py).

| changed | source | here | reason |
|---|---|---|---|
| fit | GPy: one start | five starts | shared process |
| weight of the deviation | not given | 2 | usual |
| output scale, mean | fitted, 0 | maximised out | shared process |
| annealing, its temperatures | 50,000 steps, 25,000 to 2.5 | as MiVaBO's (mivabo.py) | |
| pending trials, known configurations | none, not stated | kriging believer, next best new one | as all here |
"""

from typing import Annotated, Any

import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.annealing import PUBLISHED_STEPS, Temperatures, anneal
from fmnas.baselines.binary_codes import code_table
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import Acquisition, LowerConfidenceBound
from fmnas.optimizers.gp.autograd_kernel import PairKernel
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.parameters import LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchState, Surface
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space

KAPPA = 2.0
MORE_POINTS = 20  # random ones, for when the best of every chain is known


class BitKernel(PairKernel):
    """A squared exponential of the distance between the bits and continuous parts of points."""

    parameters = (Parameter("theta", 1, (1e-3, 1e2), LogUniform(-2.0, 1.5)),)

    def __init__(self, space: Space) -> None:
        super().__init__([torch.cdist(table, table).square() for table in map(code_table, space.discrete)])

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations; a is the squared distance of the bits."""
        return torch.exp(-0.5 * (x2 + a) / values["theta"].square())


class GPAnnealing(BayesianOptimizer):
    """The lower confidence bound, minimised by simulated annealing.

    temperatures: of the annealing. annealing_steps: its evaluations of the bound.
    The other parameters are those of `BayesianOptimizer`.
    """

    settings = ModelSettings(FitSettings(starts=5, prior=False, smooth=False, plug_in=True))

    def __init__(
        self,
        space: Space,
        *,
        temperatures: Temperatures = "scaled",
        annealing_steps: Annotated[int, Interval(ge=1)] = PUBLISHED_STEPS,
        **others: Any,
    ) -> None:
        check_options(type(self), temperatures=temperatures, annealing_steps=annealing_steps)
        super().__init__(space, **others)
        self.temperatures, self.annealing_steps = temperatures, annealing_steps

    def kernel(self, space: Space) -> BitKernel:
        """Return the kernel of the process."""
        return BitKernel(space)

    def acquisition(self, y: Tensor) -> Acquisition:
        """Return the confidence bound."""
        return LowerConfidenceBound(KAPPA)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return the best point of each chain, best first, then random ones."""
        region = Region(self.space)
        points, _ = anneal(
            lambda points: -surface.value(points), region, state.rng, self.temperatures, self.annealing_steps
        )
        return points.concat(region.sample(state.rng, MORE_POINTS))
