"""The neural-network kernel, the one that the paper modulates with in Sec. 3.5."""

from typing import Any

import gpytorch
import torch
from gpytorch.constraints import Positive
from torch import Tensor

VARIANTS = ("paper", "textbook")


class NeuralNetworkKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]  # gpytorch has no types
    """(2 / pi) asin(s), in [-1, 1], with diagonal Sigma (`variance`, one per column).

    variant "paper":    s = 2 c'Sc' / ((1 + c'Sc)(1 + c''Sc')), as printed after Eq. 7.
    variant "textbook": s = 2 x'Sx' / sqrt((1 + 2 x'Sx)(1 + 2 x''Sx')) with x = (1, c) (Rasmussen & Williams, Eq. 4.29);
    the leading 1 has a variance of its own, the first.
    """

    def __init__(self, dimensions: int, variant: str = "textbook", batch_shape: torch.Size | None = None) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r}: it must be one of {VARIANTS}")
        super().__init__(batch_shape=torch.Size(batch_shape or ()))
        self.variant = variant
        size = dimensions + (variant == "textbook")
        self.register_parameter("raw_variance", torch.nn.Parameter(torch.zeros(*self.batch_shape, size)))
        self.register_constraint("raw_variance", Positive())
        self.double()

    @property
    def variance(self) -> Tensor:
        """Diagonal of Sigma [*batch, D], or [*batch, 1 + D] for the textbook form."""
        return self.raw_variance_constraint.transform(self.raw_variance)

    @variance.setter
    def variance(self, value: Any) -> None:
        value = torch.as_tensor(value, dtype=self.raw_variance.dtype).expand_as(self.raw_variance)
        self.initialize(raw_variance=self.raw_variance_constraint.inverse_transform(value))

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """k(x1, x2) [..., n, m], or its diagonal [..., n]."""
        if self.variant == "textbook":
            x1, x2 = (torch.cat([torch.ones_like(x[..., :1]), x], dim=-1) for x in (x1, x2))
        scaled = x1 * self.variance.unsqueeze(-2)
        inner = (scaled * x2).sum(-1) if diag else scaled @ x2.transpose(-1, -2)
        own1, own2 = (self._own(x) for x in (x1, x2))
        both = own1 * own2 if diag else own1.unsqueeze(-1) * own2.unsqueeze(-2)
        return (2.0 / torch.pi) * torch.asin((2.0 * inner / both).clamp(-1.0, 1.0))

    def _own(self, x: Tensor) -> Tensor:
        square = (x.square() * self.variance.unsqueeze(-2)).sum(-1)
        return 1.0 + square if self.variant == "paper" else (1.0 + 2.0 * square).sqrt()
