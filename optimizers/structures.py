"""How the continuous distance enters a kernel: the three structures of the fast path, and the six kernels they make.

| symbol | meaning |
|---|---|
| q | prod_p S_p / N_p: the graph part, 1 on the diagonal on average |
| d2 | squared continuous distance |
| w | share of the continuous part, in (0, 1); the sum alone has one |
| r | the correlation that comes out |
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fmnas.optimizers.spectral import ModulatedDiffusion, ModulatedLaplacian, SpectralFunction


class Structure(Protocol):
    """r(q, d2, w) with its partial derivatives; all arguments broadcast.

    modulated: whether q depends on d2 (through alpha). weighted: whether w matters.
    """

    modulated: bool
    weighted: bool

    def combine(self, q: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        ...

    def slopes(self, q: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(dr/dq, dr/dd2 with q held, dr/dw)."""
        ...


class Modulated:
    """r = q: the distance acts through the frequencies alone (Eq. 5)."""

    modulated, weighted = True, False

    def combine(self, q: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return q

    def slopes(self, q: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(1, 0, 0)."""
        zero = torch.zeros_like(q)
        return torch.ones_like(q), zero, zero


class Product:
    """r = exp(-d2 / 2) q."""

    modulated, weighted = False, False

    def combine(self, q: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return torch.exp(-0.5 * d2) * q

    def slopes(self, q: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(exp(-d2 / 2), -r / 2, 0)."""
        continuous = torch.exp(-0.5 * d2)
        return continuous, -0.5 * continuous * q, torch.zeros_like(q)


class Sum:
    """r = w exp(-d2 / 2) + (1 - w) q."""

    modulated, weighted = False, True

    def combine(self, q: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return w * torch.exp(-0.5 * d2) + (1.0 - w) * q

    def slopes(self, q: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(1 - w, -w exp(-d2 / 2) / 2, exp(-d2 / 2) - q)."""
        continuous = torch.exp(-0.5 * d2)
        return (1.0 - w).expand_as(q), -0.5 * w * continuous, continuous - q


@dataclass(frozen=True)
class FastKernel:
    """A kernel of the fast path: a spectral function and a structure."""

    name: str
    spectral: SpectralFunction
    structure: Structure


_LAPLACIAN, _DIFFUSION = ModulatedLaplacian(), ModulatedDiffusion()

FAST_KERNELS: dict[str, FastKernel] = {
    kernel.name: kernel
    for kernel in (
        FastKernel("modlap", _LAPLACIAN, Modulated()),
        FastKernel("moddif", _DIFFUSION, Modulated()),
        FastKernel("prodlap", _LAPLACIAN, Product()),
        FastKernel("proddif", _DIFFUSION, Product()),
        FastKernel("addlap", _LAPLACIAN, Sum()),
        FastKernel("adddif", _DIFFUSION, Sum()),
    )
}
