"""BO-FM's kernels as gpytorch kernels (paper, Eq. 5): what a reader checks the fast path against.

| symbol | shape | meaning |
|---|---|---|
| D, P | | number of continuous and of discrete variables |
| x | [..., n, D + P] | encoded configurations: unit-cube columns, then vertex indices |
| theta | [..., 1, D] | lengthscales |
| alpha, beta | [..., P] | modulation and frequency scale of each discrete variable |
| U, lambda | [V, V], [V] | spectrum of a variable's graph Laplacian |

    k((c,v),(c',v')) = prod_p sum_i U_p[v_p, i] f(beta_p lambda_i, alpha_p d^2(c, c')) U_p[v'_p, i],
    d^2(c, c') = sum_d (c_d - c'_d)^2 / theta_d^2
"""

from typing import Any

import gpytorch
import torch
from gpytorch.constraints import Positive
from torch import Tensor

from fmnas.optimizers.spectral import ModulatedDiffusion, ModulatedLaplacian, SpectralFunction
from fmnas.search_spaces import Space


class FrequencyModulatedKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]  # gpytorch has no types
    """Eq. 5 with the spectral function of a subclass, in the paper's form (not normalised).

    `alpha`, `beta` [*batch, P] and `lengthscale` [*batch, 1, D] can be read and set.
    A space without continuous variables has d = 0; one without discrete variables has a single factor
    f(0, d^2) with alpha = 1.
    """

    spectral: SpectralFunction

    def __init__(self, space: Space, batch_shape: torch.Size | None = None, **settings: Any) -> None:
        self.D, self.P = len(space.continuous), len(space.discrete)
        batch_shape = torch.Size([]) if batch_shape is None else batch_shape
        self.has_lengthscale = self.D > 0
        super().__init__(ard_num_dims=self.D or None, batch_shape=batch_shape, **settings)
        self.ard_num_dims = None  # gpytorch would compare it with all D + P columns
        for p, variable in enumerate(space.discrete):
            eigenvalues, eigenvectors = variable.spectrum
            self.register_buffer(f"eigenvalues_{p}", torch.tensor(eigenvalues))
            self.register_buffer(f"eigenvectors_{p}", torch.tensor(eigenvectors))
        for name in ("alpha", "beta"):
            self.register_parameter(f"raw_{name}", torch.nn.Parameter(torch.zeros(*batch_shape, self.P)))
            self.register_constraint(f"raw_{name}", Positive())
        self.double()

    @property
    def alpha(self) -> Tensor:
        """Modulation scale of each discrete variable [*batch, P]."""
        return self.raw_alpha_constraint.transform(self.raw_alpha)

    @alpha.setter
    def alpha(self, value: Any) -> None:
        self._set("raw_alpha", value)

    @property
    def beta(self) -> Tensor:
        """Frequency scale of each discrete variable [*batch, P]."""
        return self.raw_beta_constraint.transform(self.raw_beta)

    @beta.setter
    def beta(self, value: Any) -> None:
        self._set("raw_beta", value)

    def _set(self, raw_name: str, value: Any) -> None:
        raw = getattr(self, raw_name)
        value = torch.as_tensor(value, dtype=raw.dtype).expand_as(raw)
        self.initialize(**{raw_name: getattr(self, f"{raw_name}_constraint").inverse_transform(value)})

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        """k(x1, x2) [..., n, m], or its diagonal [..., n]."""
        d2 = self._squared_distance(x1[..., : self.D], x2[..., : self.D], diag)
        if self.P == 0:
            return self.spectral.value(torch.zeros_like(d2), d2)
        extra = (1,) if diag else (1, 1)
        product = torch.ones_like(d2)
        for p in range(self.P):
            eigenvalues, U = getattr(self, f"eigenvalues_{p}"), getattr(self, f"eigenvectors_{p}")
            left, right = U[x1[..., self.D + p].long()], U[x2[..., self.D + p].long()]  # [..., n, V], [..., m, V]
            if not diag:
                left, right = left.unsqueeze(-2), right.unsqueeze(-3)
            alpha = self.alpha[..., p].reshape(*self.batch_shape, *extra)
            beta = self.beta[..., p].reshape(*self.batch_shape, *extra, 1)
            f = self.spectral.value(beta * eigenvalues, (alpha * d2).unsqueeze(-1))
            product = product * (left * f * right).sum(-1)
        return product

    def _squared_distance(self, c1: Tensor, c2: Tensor, diag: bool) -> Tensor:
        if self.D == 0:
            shape = torch.broadcast_shapes(c1.shape[:-2], c2.shape[:-2], self.batch_shape)
            rows = (c1.shape[-2],) if diag else (c1.shape[-2], c2.shape[-2])
            return torch.zeros(*shape, *rows, dtype=torch.float64)
        c1, c2 = c1 / self.lengthscale, c2 / self.lengthscale
        difference = c1 - c2 if diag else c1.unsqueeze(-2) - c2.unsqueeze(-3)
        return difference.square().sum(-1)


class ModLap(FrequencyModulatedKernel):
    """The modulated regularised Laplacian kernel (Eq. 9): BO-FM's own."""

    spectral = ModulatedLaplacian()


class ModDif(FrequencyModulatedKernel):
    """The modulated diffusion kernel (Eq. 10): it violates the modulation principle; kept as the ablation."""

    spectral = ModulatedDiffusion()
