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

With `normalised`, each factor is divided by its mean over the spectrum at d2 = 0, as in BO-FM's Gaussian process: the
product of all factors at x = x' is then 1 on average.
`FormulaKernel` makes a kernel for gpytorch of any formula that torch differentiates, e.g. of gp/power_kernel.py.
A space without continuous variables has d2 = 0; one without discrete variables has one factor f(0, d2).
"""

from typing import Any

import gpytorch
import numpy as np
import torch
from gpytorch.constraints import Positive
from torch import Tensor

from fmnas.optimizers.gp.autograd_kernel import AutogradKernel
from fmnas.optimizers.gp.frequency_modulation import FrequencyModulation, ModulatedDiffusion, ModulatedLaplacian
from fmnas.optimizers.gp.parameters import Parameter
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space


def _positive(name: str, meaning: str) -> Any:
    """Return a property for a parameter registered by `_add_parameter`."""
    return property(lambda self: self.value(name), lambda self, value: self.set_value(value, name), doc=meaning)


class PositiveKernel(gpytorch.kernels.Kernel):  # type: ignore[misc]  # gpytorch has no types
    """Base class of kernels with positive parameters [*batch, size] in double precision."""

    def _add_parameter(self, name: str, size: int) -> None:
        raw = torch.nn.Parameter(torch.zeros(*self.batch_shape, size, dtype=torch.float64))
        self.register_parameter(f"raw_{name}", raw)
        self.register_constraint(f"raw_{name}", Positive())

    def value(self, name: str) -> Tensor:
        """Return a parameter [*batch, size]."""
        return getattr(self, f"raw_{name}_constraint").transform(getattr(self, f"raw_{name}"))

    def set_value(self, value: Any, name: str) -> None:
        """Set a parameter to a number or [*batch, size]."""
        raw = getattr(self, f"raw_{name}")
        value = torch.as_tensor(value, dtype=raw.dtype)
        if value.dim() > raw.dim():  # accept gpytorch's shape [*batch, 1, D]
            value = value.squeeze(-2)
        constraint = getattr(self, f"raw_{name}_constraint")
        self.initialize(**{f"raw_{name}": constraint.inverse_transform(value.expand_as(raw))})


class GraphKernel(PositiveKernel):
    """Base class: the spectra of a space, theta, and one beta per discrete variable, in double precision.

    forward: k(x1, x2) [..., n, m], or its diagonal [..., n].
    """

    modulation: FrequencyModulation = ModulatedLaplacian()
    lengthscale = _positive("lengthscale", "theta per continuous variable [*batch, D].")
    beta = _positive("beta", "Frequency scale per discrete variable [*batch, P].")

    def __init__(self, space: Space, *, normalised: bool = False, batch_shape: torch.Size | None = None) -> None:
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

    def _squared_distance(self, x1: Tensor, x2: Tensor, diag: bool) -> Tensor:
        """Return d2 [..., n, m], or [..., n] for the diagonal."""
        c1, c2 = (x[..., : self.D] / self.lengthscale.unsqueeze(-2) for x in (x1, x2))
        difference = c1 - c2 if diag else c1.unsqueeze(-2) - c2.unsqueeze(-3)
        return difference.square().sum(-1)

    def _graphs(self, x1: Tensor, x2: Tensor, d2: Tensor, diag: bool) -> Tensor:
        """Return the product over p of sum_i U[v, i] f(beta lambda_i, a) U[v', i], with a from `_modulation`."""
        product = torch.ones_like(d2)
        for p in range(self.P):
            eigenvalues, U = getattr(self, f"eigenvalues_{p}"), getattr(self, f"eigenvectors_{p}")
            left, right = (U[x[..., self.D + p].long()] for x in (x1, x2))  # [..., n, V], [..., m, V]
            if not diag:
                left, right = left.unsqueeze(-2), right.unsqueeze(-3)
            b = self._for_pairs(self.beta[..., p], diag).unsqueeze(-1) * eigenvalues
            f = self.modulation.value(b, 1.0 + self._modulation(p, d2, diag).unsqueeze(-1))
            factor = (left * f * right).sum(-1)
            if self.normalised:
                mean = self.modulation.value(self.beta[..., p, None] * eigenvalues, d2.new_ones(1)).mean(-1)
                factor = factor / self._for_pairs(mean, diag)
            product = product * factor
        return product

    def _modulation(self, p: int, d2: Tensor, diag: bool) -> Tensor:
        """Return what the distance adds to the frequencies of variable p [..., n, m]."""
        return torch.zeros_like(d2)

    def _for_pairs(self, value: Tensor, diag: bool) -> Tensor:
        """Reshape one number per parameter set [*batch] to broadcast with [..., n, m] (or [..., n])."""
        return value.reshape(*self.batch_shape, *[1] * (1 if diag else 2))


class ModulatedKernel(GraphKernel):
    """Eq. 5: the distance modulates the frequencies. `alpha`, `beta`, `lengthscale` can be set."""

    alpha = _positive("alpha", "Modulation scale per discrete variable [*batch, P].")

    def __init__(self, space: Space, *, normalised: bool = False, batch_shape: torch.Size | None = None) -> None:
        super().__init__(space, normalised=normalised, batch_shape=batch_shape)
        self._add_parameter("alpha", self.P)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        return self._graphs(x1, x2, d2, diag) if self.P else self.modulation.value(torch.zeros_like(d2), 1.0 + d2)

    def _modulation(self, p: int, d2: Tensor, diag: bool) -> Tensor:
        return self._for_pairs(self.alpha[..., p], diag) * d2


class ModLap(ModulatedKernel):
    """The modulated regularised Laplacian kernel (Eq. 9): BO-FM's default."""


class ModDif(ModulatedKernel):
    """The modulated diffusion kernel (Eq. 10): it violates the modulation principle; an ablation."""

    modulation = ModulatedDiffusion()


class ProdLap(GraphKernel):
    """RBF times regularised Laplacian, without modulation."""

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        return torch.exp(-0.5 * d2) * self._graphs(x1, x2, d2, diag)


class ProdDif(ProdLap):
    """RBF times diffusion."""

    modulation = ModulatedDiffusion()


class AddLap(GraphKernel):
    """RBF plus regularised Laplacian; `weights` [*batch, 2] are positive and learned."""

    weights = _positive("weights", "Weights of the continuous and of the discrete part [*batch, 2].")

    def __init__(self, space: Space, *, normalised: bool = False, batch_shape: torch.Size | None = None) -> None:
        super().__init__(space, normalised=normalised, batch_shape=batch_shape)
        self._add_parameter("weights", 2)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        d2 = self._squared_distance(x1, x2, diag)
        continuous, discrete = (self._for_pairs(self.weights[..., k], diag) for k in range(2))
        return continuous * torch.exp(-0.5 * d2) + discrete * self._graphs(x1, x2, d2, diag)


class AddDif(AddLap):
    """RBF plus diffusion."""

    modulation = ModulatedDiffusion()


class FormulaKernel(PositiveKernel):
    """An AutogradKernel (gp/autograd_kernel.py) on encoded configurations, with its parameters; theta is `lengthscale`.

    forward: k(x1, x2) [..., n, m], or its diagonal [..., n].
    """

    def __init__(self, kernel: AutogradKernel, *, batch_shape: torch.Size | None = None) -> None:
        super().__init__(batch_shape=torch.Size(batch_shape or ()))
        self.kernel = kernel
        for parameter in kernel.parameters:
            if not parameter.is_fixed:
                self._add_parameter(attribute_of(parameter), parameter.size)

    def forward(self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any) -> Tensor:
        a, b = (x1, x2) if diag else (x1[..., None, :], x2[..., None, :, :])
        k = 2 if diag else 3
        a, b, _ = torch.broadcast_tensors(a, b, torch.empty(*self.batch_shape, *[1] * k))  # [..., *batch, n, m, D + P]
        members = [(at, (..., *at, *[slice(None)] * k)) for at in np.ndindex(*self.batch_shape)]
        return torch.stack([self._r(a[rows], b[rows], at) for at, rows in members], -k).reshape(a.shape[:-1])

    def _r(self, a: Tensor, b: Tensor, at: tuple[int, ...]) -> Tensor:
        """Return the correlations of x, x' [..., D + P] under the parameters of one member of the batch."""
        values = {
            p.name: torch.full((p.size,), p.bounds[0]).double() if p.is_fixed else self.value(attribute_of(p))[at]
            for p in self.kernel.parameters
        }
        return self.kernel.r(self._points(a), self._points(b), values)

    def _points(self, x: Tensor) -> Points:
        D = len(self.kernel.space.continuous)
        vertices = x[..., D:] if self.kernel.space.discrete else torch.zeros(*x.shape[:-1], 1)
        return Points(x[..., :D], vertices.long())


def attribute_of(parameter: Parameter) -> str:
    """Return the name of a parameter in gpytorch."""
    return "lengthscale" if parameter.name == "theta" else parameter.name
