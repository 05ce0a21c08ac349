"""The formulas of frequency-modulated and related kernels: the function f, and combinations of factors.

Each discrete variable has a factor sum_e M_e f(beta mu_e, u) over the eigenspaces of its graph (factors.py); a
combination computes a correlation from the factors and the continuous distance (BO-FM paper, Sec. 3 and Eq. 9 and 10).

| symbol | meaning |
|---|---|
| d2 | squared continuous distance |
| b | beta lambda >= 0: a scaled frequency of the graph |
| u | 1 + alpha d2 >= 1: the scaled continuous distance |
| S, N | sum_e M_e f: the factor of one discrete variable for a pair of points; its normaliser |
| q | prod_p S_p / N_p: the graph part, 1 on the diagonal on average |
| s | mean_p S_p / N_p: the mean of the same factors |
| w | share of s (Blended) or of the continuous part (Sum), in (0, 1) |
| r | the correlation |
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


class FrequencyModulation(ABC):
    """f(b, u) and its derivative by u; all arguments broadcast.

    The derivative by beta follows from the one by u: d log S / d log beta = offset + sign u d log S / d u.
    """

    offset: float
    sign: float

    @abstractmethod
    def value(self, b: Tensor, u: Tensor) -> Tensor:
        """Return f(b, u)."""

    @abstractmethod
    def decay(self, b: Tensor, f: Tensor) -> Tensor:
        """Return -d log f / du, given f = value(b, u); may return b or f itself."""


class ModulatedLaplacian(FrequencyModulation):
    """f = 1 / (u + b) (Eq. 9), the paper's method. Homogeneous of degree -1: u S_u + beta S_beta = -S."""

    offset, sign = -1.0, -1.0

    def value(self, b: Tensor, u: Tensor) -> Tensor:
        return (u + b).reciprocal_()

    def decay(self, b: Tensor, f: Tensor) -> Tensor:
        return f


class ModulatedDiffusion(FrequencyModulation):
    """f = exp(-u b) (Eq. 10), the ablation. At b = 0 it does not decay with the distance. u S_u = beta S_beta."""

    offset, sign = 0.0, 1.0

    def value(self, b: Tensor, u: Tensor) -> Tensor:
        return (u * b).neg_().exp_()

    def decay(self, b: Tensor, f: Tensor) -> Tensor:
        return b


class Combination(ABC):
    """r(q, s, d2, w) with its partial derivatives; all arguments broadcast.

    modulated: whether q and s depend on d2 (through alpha). additive, weighted: whether r depends on s and on w.
    """

    modulated = additive = weighted = False

    @abstractmethod
    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """Return r."""

    @abstractmethod
    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return (dr/dq, dr/ds, dr/dd2 at fixed q and s, dr/dw)."""


class Modulated(Combination):
    """r = q: the distance acts only through the frequencies (Eq. 5)."""

    modulated = True

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        zero = torch.zeros_like(q)
        return torch.ones_like(q), zero, zero, zero


class Blended(Combination):
    """r = (1 - w) q + w s: an interaction of all variables plus additive effects.

    A product of many factors does not transfer what is learned about a value to other contexts; a sum does. Each term
    of s is a frequency-modulated kernel on one graph, so Theorems 3.1 and 3.2 hold for r.
    """

    modulated = additive = weighted = True

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return q + w * (s - q)

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return (1.0 - w).expand_as(q), w.expand_as(q), torch.zeros_like(q), s - q


class Product(Combination):
    """r = exp(-d2 / 2) q."""

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return torch.exp(-0.5 * d2) * q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        continuous, zero = torch.exp(-0.5 * d2), torch.zeros_like(q)
        return continuous, zero, -0.5 * continuous * q, zero


class Sum(Combination):
    """r = w exp(-d2 / 2) + (1 - w) q."""

    weighted = True

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return w * torch.exp(-0.5 * d2) + (1.0 - w) * q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        continuous = torch.exp(-0.5 * d2)
        return (1.0 - w).expand_as(q), torch.zeros_like(q), -0.5 * w * continuous, continuous - q


@dataclass(frozen=True)
class FastKernel:
    """A frequency modulation and a combination."""

    modulation: FrequencyModulation
    combination: Combination


_LAPLACIAN, _DIFFUSION = ModulatedLaplacian(), ModulatedDiffusion()

KernelName = Literal["modlap", "moddif", "prodlap", "proddif", "addlap", "adddif", "mixture", "kernel-modulated"]
"""Of FAST_KERNELS, or of POWER_KERNELS (power_kernel.py)."""

FAST_KERNELS: dict[str, FastKernel] = {
    "modlap": FastKernel(_LAPLACIAN, Modulated()),
    "moddif": FastKernel(_DIFFUSION, Modulated()),
    "prodlap": FastKernel(_LAPLACIAN, Product()),
    "proddif": FastKernel(_DIFFUSION, Product()),
    "addlap": FastKernel(_LAPLACIAN, Sum()),
    "adddif": FastKernel(_DIFFUSION, Sum()),
}
"""The paper's six kernels."""

BLENDED_KERNELS: dict[str, FastKernel] = {
    "modlap": FastKernel(_LAPLACIAN, Blended()),
    "moddif": FastKernel(_DIFFUSION, Blended()),
}
"""The kernels that have a variant with additive terms."""
