"""BO-FM's kernels and the unmodulated variants as gpytorch kernels (BO-FM paper, Sec. 3).

| symbol | shape | meaning |
|---|---|---|
| D, P | | number of continuous and of discrete variables |
| x | [..., n, D + P] | encoded configurations: unit-cube columns, then vertex indices |
| theta | [..., D] | lengthscales |
| alpha, beta | [..., P] | modulation and frequency scale per discrete variable |
| U, lambda | [V, V], [V] | spectrum of a variable's graph Laplacian |
| d2 | [..., n, m] | sum_d (c_d - c'_d)^2 / theta_d^2 |

    modulated   prod_p sum_i U_p[v_p, i] f(beta_p lambda_i, alpha_p d2) U_p[v'_p, i]          (Eq. 5)
    product     exp(-d2 / 2) prod_p sum_i U_p[v_p, i] f(beta_p lambda_i, 0) U_p[v'_p, i]
    sum         w_1 exp(-d2 / 2) + w_2 prod_p ...

`normalised=True` is the form of the authors' public code: d2 averaged over dimensions, alpha d2 divided by P for
ModLap, and each factor divided by its mean over the spectrum (at d2 = 1 / theta_1^2). `normalised="at zero"` is the
form of BO-FM's Gaussian process: each factor divided by its mean over the spectrum at d2 = 0, so that the product of
all factors at x = x' is 1 on average.
A space without continuous variables has d2 = 0; one without discrete variables has one factor f(0, d2).
"""

from typing import Any, Literal

import gpytorch
import torch
from gpytorch.constraints import Positive
from torch import Tensor

from fmnas.optimizers.gp.frequency_modulation import FrequencyModulation, ModulatedDiffusion, ModulatedLaplacian
from fmnas.search_spaces import Space

Normalised = bool | Literal["at zero"]


def _positive(name: str, meaning: str) -> Any:
    """Return a property for a parameter registered by `_add_parameter`."""
    return property(lambda self: self._value(name), lambda self, value: self._set(name, value), doc=meaning)


class GraphKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]  # gpytorch has no types
    """Base class: the spectra of a space, theta, and one beta per discrete variable, in double precision.

    forward: k(x1, x2) [..., n, m], or its diagonal [..., n].
    """

    modulation: FrequencyModulation = ModulatedLaplacian()
    lengthscale = _positive("lengthscale", "theta per continuous variable [*batch, D].")
    beta = _positive("beta", "Frequency scale per discrete variable [*batch, P].")

    def __init__(self, space: Space, *, normalised: Normalised = False, batch_shape: torch.Size | None = None) -> None:
        self.D, self.P = len(space.continuous), len(space.discrete)
        # gpytorch's own lengthscale would also need an entry per discrete column.
        super().__init__(batch_shape=torch.Size(batch_shape or ()))
        self.normalised = normalised
        for p, variable in enumerate(space.discrete):
            eigenvalues, eigenvectors = variable.spectrum
            self.register_buffer(f"eigenvalues_{p}", torch.tensor(eigenvalues))
            self.register_buffer(f"eigenvectors_{p}", torch.tensor(eigenvectors))
        self._add_parameter("lengthscale", self.D)
        self._add_parameter("beta", self.P)

    def _add_parameter(self, name: str, size: int) -> None:
        raw = torch.nn.Parameter(torch.zeros(*self.batch_shape, size, dtype=torch.float64))
        self.register_parameter(f"raw_{name}", raw)
        self.register_constraint(f"raw_{name}", Positive())

    def _value(self, name: str) -> Tensor:
        return getattr(self, f"raw_{name}_constraint").transform(getattr(self, f"raw_{name}"))

    def _set(self, name: str, value: Any) -> None:
        raw = getattr(self, f"raw_{name}")
        value = torch.as_tensor(value, dtype=raw.dtype)
        if value.dim() > raw.dim():  # accept gpytorch's shape [*batch, 1, D]
            value = value.squeeze(-2)
        self.initialize(
            **{f"raw_{name}": getattr(self, f"raw_{name}_constraint").inverse_transform(value.expand_as(raw))}
        )

    def _squared_distance(self, x1: Tensor, x2: Tensor, diag: bool) -> Tensor:
        """Return d2 [..., n, m], or [..., n] for the diagonal."""
        c1, c2 = x1[..., : self.D], x2[..., : self.D]
        theta = self.lengthscale.unsqueeze(-2)  # [*batch, 1, D]
        c1, c2 = c1 / theta, c2 / theta
        difference = c1 - c2 if diag else c1.unsqueeze(-2) - c2.unsqueeze(-3)
        d2 = difference.square().sum(-1)
        return d2 / self.D if self.normalised is True and self.D else d2

    def _graph_factor(self, p: int, x1: Tensor, x2: Tensor, a: Tensor, diag: bool) -> Tensor:
        """Return sum_i U[v, i] f(beta lambda_i, a) U[v', i] of variable p, for a [..., n, m] (or [..., n])."""
        eigenvalues, U = getattr(self, f"eigenvalues_{p}"), getattr(self, f"eigenvectors_{p}")
        left, right = U[x1[..., self.D + p].long()], U[x2[..., self.D + p].long()]  # [..., n, V], [..., m, V]
        if not diag:
            left, right = left.unsqueeze(-2), right.unsqueeze(-3)
        beta = self._for_pairs(self.beta[..., p], diag).unsqueeze(-1)
        factor = (left * self._spectrum_at(beta * eigenvalues, a.unsqueeze(-1)) * right).sum(-1)
        if not self.normalised:
            return factor
        reference = self._reference(p) if self.normalised is True else GraphKernel._reference(self, p)
        return factor / self._for_pairs(
            self._spectrum_at(self.beta[..., p, None] * eigenvalues, reference).mean(-1), diag
        )

    def _for_pairs(self, value: Tensor, diag: bool) -> Tensor:
        """Reshape one number per parameter set [*batch] to broadcast with [..., n, m] (or [..., n])."""
        return value.reshape(*self.batch_shape, *[1] * (1 if diag else 2))

    def _spectrum_at(self, b: Tensor, a: Tensor) -> Tensor:
        return self.modulation.value(b, 1.0 + a)

    def _reference(self, p: int) -> Tensor:
        """Return a [*batch, 1] of the authors' normaliser."""
        return torch.zeros_like(self.beta[..., p, None])

    def _product(self, x1: Tensor, x2: Tensor, a: Tensor, diag: bool) -> Tensor:
        """Return the product of the graph factors at one a."""
        product = torch.ones_like(a)
        for p in range(self.P):
            product = product * self._graph_factor(p, x1, x2, a, diag)
        return product


class ModulatedKernel(GraphKernel):
    """Eq. 5: the distance modulates the frequencies. `alpha`, `beta`, `lengthscale` can be set.

    additive: k = weights_0 prod_p k_p + sum_p weights_p k_p, with `weights` [*batch, 1 + P] positive and learned; each
    term of the sum is Eq. 5 on one graph.
    """

    alpha = _positive("alpha", "Modulation scale per discrete variable [*batch, P].")
    weights = _positive("weights", "Weights of the product and of each factor [*batch, 1 + P], with `additive`.")

    def __init__(
        self,
        space: Space,
        *,
        normalised: Normalised = False,
        additive: bool = False,
        batch_shape: torch.Size | None = None,
    ) -> None:
        super().__init__(space, normalised=normalised, batch_shape=batch_shape)
        self.additive = additive and self.P > 0
        self._add_parameter("alpha", self.P)
        if self.additive:
            self._add_parameter("weights", 1 + self.P)

    @property
    def _share(self) -> float:
        """Factor of alpha d2: 1 / P in the authors' ModLap."""
        return 1.0

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        if self.P == 0:
            return self._spectrum_at(torch.zeros_like(d2), self._modulation_of(torch.ones_like(d2), d2))
        product, total = torch.ones_like(d2), torch.zeros_like(d2)
        for p in range(self.P):
            alpha = self._for_pairs(self.alpha[..., p], diag)
            factor = self._graph_factor(p, x1, x2, self._modulation_of(alpha, d2), diag)
            product = product * factor
            if self.additive:
                total = total + self._for_pairs(self.weights[..., 1 + p], diag) * factor
        return self._for_pairs(self.weights[..., 0], diag) * product + total if self.additive else product

    def _modulation_of(self, alpha: Tensor, d2: Tensor) -> Tensor:
        """Return what the distance adds to the frequencies [..., n, m]."""
        return alpha * d2 * self._share

    def _reference(self, p: int) -> Tensor:
        if not self.D:
            return super()._reference(p)
        return self.alpha[..., p, None] * self.lengthscale[..., :1].pow(-2) * self._share


class ModLap(ModulatedKernel):
    """The modulated regularised Laplacian kernel (Eq. 9): BO-FM's default."""

    @property
    def _share(self) -> float:
        return 1.0 / self.P if self.normalised is True and self.P else 1.0


class ModDif(ModulatedKernel):
    """The modulated diffusion kernel (Eq. 10): it violates the modulation principle; an ablation."""

    modulation = ModulatedDiffusion()


class ProductKernel(GraphKernel):
    """exp(-d2 / 2) times the graph kernels, without modulation."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        return torch.exp(-0.5 * d2) * self._product(x1, x2, torch.zeros_like(d2), diag)


class ProdLap(ProductKernel):
    """RBF times regularised Laplacian."""


class ProdDif(ProductKernel):
    """RBF times diffusion."""

    modulation = ModulatedDiffusion()


class SumKernel(GraphKernel):
    """w_1 exp(-d2 / 2) + w_2 graph kernels; `weights` [*batch, 2] are positive and learned."""

    weights = _positive("weights", "Weights of the continuous and of the discrete part [*batch, 2].")

    def __init__(self, space: Space, *, normalised: Normalised = False, batch_shape: torch.Size | None = None) -> None:
        super().__init__(space, normalised=normalised, batch_shape=batch_shape)
        self._add_parameter("weights", 2)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        continuous, discrete = (self._for_pairs(self.weights[..., k], diag) for k in range(2))
        return continuous * torch.exp(-0.5 * d2) + discrete * self._product(x1, x2, torch.zeros_like(d2), diag)


class AddLap(SumKernel):
    """RBF plus regularised Laplacian."""


class AddDif(SumKernel):
    """RBF plus diffusion."""

    modulation = ModulatedDiffusion()
