"""How factors and the continuous distance make a kernel: the structures of the fast path, and the kernels they make.

| symbol | meaning |
|---|---|
| q | prod_p S_p / N_p: the graph part, 1 on the diagonal on average |
| s | mean_p S_p / N_p: the same factors, one variable at a time |
| d2 | squared continuous distance |
| w | share of s (Blended) or of the continuous part (Sum), in (0, 1) |
| r | the correlation that comes out |
"""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fmnas.optimizers.spectral import ModulatedDiffusion, ModulatedLaplacian, SpectralFunction


class Structure(Protocol):
    """r(q, s, d2, w) with its partial derivatives; all arguments broadcast.

    modulated: whether q and s depend on d2 (through alpha). additive: whether s matters; if not, any s will do.
    weighted: whether w matters.
    """

    modulated: bool
    additive: bool
    weighted: bool

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        ...

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(dr/dq, dr/ds, dr/dd2 with q and s held, dr/dw)."""
        ...


class Modulated:
    """r = q: the distance acts through the frequencies alone (Eq. 5)."""

    modulated, additive, weighted = True, False, False

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(1, 0, 0, 0)."""
        zero = torch.zeros_like(q)
        return torch.ones_like(q), zero, zero, zero


class Blended:
    """r = (1 - w) q + w s: what every variable does by itself, and what all do together.

    A product of many factors learns nothing of a value in one context from another; a sum does. Each term of s is a
    frequency-modulated kernel on one graph, so r keeps what Theorems 3.1 and 3.2 say.
    """

    modulated, additive, weighted = True, True, True

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return q + w * (s - q)

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(1 - w, w, 0, s - q)."""
        return (1.0 - w).expand_as(q), w.expand_as(q), torch.zeros_like(q), s - q


class Product:
    """r = exp(-d2 / 2) q."""

    modulated, additive, weighted = False, False, False

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return torch.exp(-0.5 * d2) * q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(exp(-d2 / 2), 0, -r / 2, 0)."""
        continuous, zero = torch.exp(-0.5 * d2), torch.zeros_like(q)
        return continuous, zero, -0.5 * continuous * q, zero


class Sum:
    """r = w exp(-d2 / 2) + (1 - w) q."""

    modulated, additive, weighted = False, False, True

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        """r."""
        return w * torch.exp(-0.5 * d2) + (1.0 - w) * q

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(1 - w, 0, -w exp(-d2 / 2) / 2, exp(-d2 / 2) - q)."""
        continuous = torch.exp(-0.5 * d2)
        return (1.0 - w).expand_as(q), torch.zeros_like(q), -0.5 * w * continuous, continuous - q


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
"""The paper's six."""

BLENDED_KERNELS: dict[str, FastKernel] = {
    "modlap": FastKernel("blended-modlap", _LAPLACIAN, Blended()),
    "moddif": FastKernel("blended-moddif", _DIFFUSION, Blended()),
}
"""Of these kernels there is one with additive terms."""
