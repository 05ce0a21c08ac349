"""The model of CASMOPOLITAN: its kernel, and the transform of its objectives.

With s = exp(l a), a the share of discrete variables in which two points agree (the transformed overlap), and m an
isotropic Matern-5/2 of the continuous parts, the kernel is

    r = (1 - lambda) (s + m) + lambda s m,  lambda = 1/2

The overlap only distinguishes equal and different values of a nominal variable or vertices of a graph.
"""

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from fmnas.optimizers.gp.autograd_kernel import PairKernel, overlap_tables
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.output_warping import Warping
from fmnas.optimizers.gp.parameters import LogUniform, Parameter, Values
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats


class CasmopolitanKernel(PairKernel):
    """The formula above; if a space lacks one kind of variables, only the other part."""

    def __init__(self, space: Space, mix: float = 0.5) -> None:
        super().__init__(ordered_overlap_tables(space))
        self.mix, self._kinds = mix, (bool(space.continuous), bool(space.discrete))
        theta = Parameter("theta", 1, (1e-2, 1e1), LogUniform(-3.0, 1.0))
        agreement = Parameter("l", 1, (1e-2, 2.5), LogUniform(-2.0, 0.9))
        self.parameters = (theta,) * self._kinds[0] + (agreement,) * self._kinds[1]

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations."""
        continuous, discrete = self._kinds
        if not continuous:
            return (values["l"] * a).exp()
        m = matern52(x2 / values["theta"].square())
        if not discrete:
            return m
        s = (values["l"] * a).exp()
        return (1.0 - self.mix) * (s + m) + self.mix * s * m


def ordered_overlap_tables(space: Space) -> list[Tensor]:
    """Return overlap tables in which two of n ordered values agree by 1 - distance / n."""
    tables = overlap_tables(space)
    for p, variable in enumerate(space.discrete):
        if variable.ordered:
            index = torch.arange(len(variable.vertices), dtype=torch.float64)
            distance = (index[:, None] - index).abs()
            tables[p] = (1.0 - distance / len(index)) / len(tables)
    return tables


class Copula(Warping):
    """Normal quantiles of the ranks divided by n + 1; equal objectives get the highest of their ranks."""

    def apply(self, y: Floats) -> Floats:
        """Map y [n] to z [n]."""
        return np.asarray(ndtri(np.searchsorted(np.sort(y), y, side="right") / (len(y) + 1)))
