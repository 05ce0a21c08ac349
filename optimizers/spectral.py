"""The functions f(lambda, d) that turn a graph's Laplacian spectrum into a kernel (BO-FM paper, Eq. 9 and 10).

| symbol | meaning |
|---|---|
| b | beta lambda >= 0: a frequency of the graph, scaled |
| a | alpha d^2 >= 0: the modulation, the continuous distance scaled |
"""

from typing import Protocol

import torch
from torch import Tensor


class SpectralFunction(Protocol):
    """f(b, a) with its partial derivatives; all arguments broadcast."""

    def value(self, b: Tensor, a: Tensor) -> Tensor:
        """f(b, a)."""
        ...

    def partials(self, b: Tensor, a: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """(df/db, df/da), given f = value(b, a)."""
        ...


class ModulatedLaplacian:
    """f = 1 / (1 + b + a) (Eq. 9): the method."""

    def value(self, b: Tensor, a: Tensor) -> Tensor:
        """f(b, a)."""
        return (1.0 + b + a).reciprocal()

    def partials(self, b: Tensor, a: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """Both are -f^2."""
        slope = -f * f
        return slope, slope


class ModulatedDiffusion:
    """f = exp(-(1 + a) b) (Eq. 10): the ablation. At b = 0 it does not fall with the distance."""

    def value(self, b: Tensor, a: Tensor) -> Tensor:
        """f(b, a)."""
        return torch.exp(-(1.0 + a) * b)

    def partials(self, b: Tensor, a: Tensor, f: Tensor) -> tuple[Tensor, Tensor]:
        """(-(1 + a) f, -b f)."""
        return -(1.0 + a) * f, -b * f
