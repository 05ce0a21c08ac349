"""What a Gaussian process asks of its kernel: the one thing that a new GP method has to write.

Three questions, one record each: which parameters there are (parameters.py); how alike the observations are, with the
slope that a fit needs (`Pairs`); and how alike new points are to them, for predictions and for the search
(`Correlation`). `AutogradKernel` (autograd_kernel.py) answers all of it for whoever writes the formula alone;
`GPyTorchKernel` (gpytorch_kernel.py) for a kernel of gpytorch's; fm_kernel.py is the fast path of BO-FM's.

| symbol | shape | meaning |
|---|---|---|
| n, m | | observations; new points |
| B, d | | parameter sets evaluated together; numbers in one of them, without the noise |
| M | n (n + 1) / 2 | pairs of observations, each with itself too, as `pair_indices` numbers them |
| K | | vertices of all discrete variables together |
| C, V | [m, D], [m, P] | continuous parts and vertices of points |
| r | [B, M] or [m, n] | correlations: 1 or so for a point with itself, the output scale is a matter of the process |
| own | [m] | r of each point with itself |
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from fmnas.optimizers.gp.parameters import Parameter, Values
from fmnas.optimizers.gp.points import Points

ROOT_GUARD = 1e-24  # added to squares under a root, far below rounding: at 0 its slope is infinite

OnVertices = TypeVar("OnVertices")

ByParameters = Callable[[Tensor], Tensor]
"""The pullback of a likelihood: its slope by r [B, M] to that by eta [B, d], the logarithms of the parameters."""

ByPosition = Callable[[Tensor, Tensor], Tensor]
"""The pullback of a prediction: its slopes by r [m, n] and by own [m] to that by C [m, D]."""


class Pairs(ABC):
    """The correlations of all pairs of some points, as the parameters change."""

    @abstractmethod
    def correlation(self, values: Values) -> Tensor:
        """r [B, M]."""

    @abstractmethod
    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        """r [B, M], and what takes its slope back to the logarithms of the parameters."""


class Correlation(ABC, Generic[OnVertices]):
    """The correlations of any point with n given ones, under one set of parameters."""

    @abstractmethod
    def on(self, V: Tensor) -> OnVertices:
        """What the vertices V [m, P] of new points alone decide: worked out once, while continuous parts change."""

    @abstractmethod
    def at(self, C: Tensor, known: OnVertices) -> tuple[Tensor, Tensor]:
        """(r [m, n], own [m]) of points with continuous parts C [m, D]; known: what `on` says of their vertices."""

    @abstractmethod
    def with_pullback(self, C: Tensor, known: OnVertices) -> tuple[Tensor, Tensor, ByPosition]:
        """The same, and what takes the slopes of r and own back to C."""

    def of(self, points: Points) -> tuple[Tensor, Tensor]:
        """(r [m, n], own [m])."""
        return self.at(points.C, self.on(points.V))

    @abstractmethod
    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        """(r [m, K, n], own [m, K]) where each variable in turn takes each of its vertices, all else as in the point.

        Variables follow one another in K; whether a vertex is a neighbour is a matter of the region (region.py).
        """


class Kernel(ABC):
    """A positive definite function of two points of one space.

    parameters: all that a fit may change, but for the noise.
    """

    parameters: Sequence[Parameter] = ()

    @abstractmethod
    def pairs(self, points: Points) -> Pairs:
        """The pairs of these points."""

    @abstractmethod
    def given(self, values: Values, points: Points) -> Correlation[Any]:
        """Correlations with these points, under the parameters `values`, each [size]."""


def pair_indices(n: int) -> tuple[Tensor, Tensor]:
    """(i [M], j [M]) with i <= j < n: how pairs are numbered."""
    i, j = torch.triu_indices(n, n)
    return i, j


def slopes_of(r: Tensor, by_r: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """What the slope by_r of a loss along r says of the inputs; zeros for those on which r does not depend."""
    if not (inputs and r.requires_grad):
        return tuple(torch.zeros_like(each) for each in inputs)
    return torch.autograd.grad(r, inputs, by_r, allow_unused=True, materialize_grads=True)


def matern52(d2: Tensor) -> Tensor:
    """The Matern correlation of smoothness 5/2 at squared distances d2 (Rasmussen & Williams 2006, Eq. 4.17)."""
    d = (5.0 * d2 + ROOT_GUARD).sqrt()
    return (1.0 + d + d.square() / 3.0) * torch.exp(-d)
