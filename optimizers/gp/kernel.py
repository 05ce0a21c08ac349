"""The kernel interface of the Gaussian process: all that a new GP method has to implement.

A kernel has parameters (parameters.py), correlations of all pairs of observations with the gradient that a fit needs
(`Pairs`), and correlations of new points with the observations for predictions and the search (`ConditionedKernel`).
`AutogradKernel` (autograd_kernel.py) derives all three from a formula; fm_kernel.py is the fast implementation of
BO-FM's kernels.

| symbol | shape | meaning |
|---|---|---|
| n, m | | observations; new points |
| B, d | | parameter sets evaluated together; numbers per set, without the noise |
| M | n (n + 1) / 2 | pairs of observations, including each with itself, in the order of `pair_indices` |
| K | | vertices of all discrete variables together |
| C, V | [m, D], [m, P] | continuous parts and vertices of points |
| r | [B, M] or [m, n] | correlations, about 1 on the diagonal; the process multiplies them by its output scale |
| own | [m] | r of each point with itself |
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from fmnas.optimizers.gp.parameters import LogNormal, LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points

ROOT_GUARD = 1e-24  # added to squares under a root, far below rounding error: the slope at 0 is infinite

Precomputed = TypeVar("Precomputed")

NOISE_RATIO = Parameter("noise", 1, (1e-6, 1e1), LogUniform(-4.0, -2.0), LogNormal(1e-3, 2.5))
"""Noise variance divided by the output scale: its lower bound makes any matrix of correlations positive definite."""

ByParameters = Callable[[Tensor], Tensor]
"""The pullback of a likelihood: maps its gradient by r [B, M] to that by eta [B, d], the log parameters."""

ByPosition = Callable[[Tensor, Tensor], Tensor]
"""The pullback of a prediction: maps its gradients by r [m, n] and by own [m] to that by C [m, D]."""


class Pairs(ABC):
    """Correlations of all pairs of some points, as functions of the parameters."""

    @abstractmethod
    def correlation(self, values: Values) -> Tensor:
        """Return r [B, M]."""

    @abstractmethod
    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        """Return r [B, M] and the pullback to the logarithms of the parameters."""


class ConditionedKernel(ABC, Generic[Precomputed]):
    """Correlations of any point with n fixed points, under one set of parameters."""

    @abstractmethod
    def precompute(self, V: Tensor) -> Precomputed:
        """Compute what depends only on the vertices V [m, P] of new points, while their continuous parts change."""

    @abstractmethod
    def with_pullback(self, C: Tensor, precomputed: Precomputed) -> tuple[Tensor, Tensor, ByPosition]:
        """Return (r [m, n], own [m], the pullback to C)."""

    @abstractmethod
    def correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return (r [m, n], own [m])."""

    @abstractmethod
    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        """Return (r [m, K, n], own [m, K]) after one variable of the point is set to one of its vertices, for all K.

        The K vertices are ordered by variable. Which of them are neighbours depends on the region (region.py).
        """


class Kernel(ABC):
    """A positive definite function of two points of a space.

    parameters: the parameters that a fit optimizes, without the noise. noise: its variance by the output scale.
    output_scale: None if a fit estimates it; a fixed one needs a single warping, as output_warping.py estimates it.
    """

    parameters: Sequence[Parameter] = ()
    noise: Parameter = NOISE_RATIO
    output_scale: float | None = None

    @abstractmethod
    def pairs(self, points: Points) -> Pairs:
        """Return the pairs of these points."""

    @abstractmethod
    def condition_on(self, values: Values, points: Points) -> ConditionedKernel[Any]:
        """Return the correlations with these points under the parameters `values`, each [size]."""


def pair_indices(n: int) -> tuple[Tensor, Tensor]:
    """Return (i [M], j [M]) with i <= j < n: the order of pairs."""
    i, j = torch.triu_indices(n, n)
    return i, j


def pull_back(r: Tensor, by_r: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the gradients of a loss by the inputs, given its gradient by_r; zeros where r does not depend on them."""
    if not (inputs and r.requires_grad):
        return tuple(map(torch.zeros_like, inputs))
    loss = (r * by_r).sum()  # with by_r as an argument, torch imports code for a quarter of a second
    return torch.autograd.grad(loss, inputs, allow_unused=True, materialize_grads=True)


def matern52(d2: Tensor) -> Tensor:
    """Return the Matern correlation of smoothness 5/2 at squared distances d2 (Rasmussen & Williams 2006, Eq. 4.17)."""
    d = (5.0 * d2 + ROOT_GUARD).sqrt()
    return (1.0 + d + d.square() / 3.0) * torch.exp(-d)
