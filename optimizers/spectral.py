"""The functions f(lambda, d) that turn a graph's Laplacian spectrum into a kernel (BO-FM paper, Eq. 9 and 10).

| symbol | meaning |
|---|---|
| b | beta lambda >= 0: a frequency of the graph, scaled |
| u | 1 + alpha d^2 >= 1: the continuous distance, scaled |
| S | sum_e M_e f: the factor of one discrete variable for a pair of points |
"""

from typing import Protocol

from torch import Tensor


class SpectralFunction(Protocol):
    """f(b, u) and how fast it falls along u; all arguments broadcast.

    Both functions depend on one combination of b and u alone, so that the slope along beta follows from the one along
    u: d log S / d log beta = offset + sign u d log S / d u.
    """

    offset: float
    sign: float

    def value(self, b: Tensor, u: Tensor) -> Tensor:
        """f(b, u)."""
        ...

    def fall(self, b: Tensor, f: Tensor) -> Tensor:
        """-d log f / du, given f = value(b, u); may be b or f itself."""
        ...


class ModulatedLaplacian:
    """f = 1 / (u + b) (Eq. 9): the method. Homogeneous of degree -1: u S_u + beta S_beta = -S."""

    offset, sign = -1.0, -1.0

    def value(self, b: Tensor, u: Tensor) -> Tensor:
        """f(b, u)."""
        return (u + b).reciprocal_()

    def fall(self, b: Tensor, f: Tensor) -> Tensor:
        """f."""
        return f


class ModulatedDiffusion:
    """f = exp(-u b) (Eq. 10): the ablation. At b = 0 it does not fall with the distance. u S_u = beta S_beta."""

    offset, sign = 0.0, 1.0

    def value(self, b: Tensor, u: Tensor) -> Tensor:
        """f(b, u)."""
        return (u * b).neg_().exp_()

    def fall(self, b: Tensor, f: Tensor) -> Tensor:
        """b."""
        return b
