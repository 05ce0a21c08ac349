"""The family of Proposition 1, and modulation by a kernel (BO-FM paper, Sec. 3.4 and 3.5): sums of powers.

Both have factors sum_k a_k sum_e M_e (u_k + beta mu_e)^-rho_k, where u_k - 1 is conditionally negative definite in the
continuous parts, as d^tau and 1 - k_NN are; so they are positive definite (Supp. Sec. C). Sums over e have analytic
derivatives (`PowerSums`); torch differentiates the rest.

| symbol | shape | meaning |
|---|---|---|
| C1, C2 | [..., D] | continuous parts of two points |
| theta, beta, alpha, odds | | as in fm_kernel.py |
| d2 | [...] | sum_d (c_d - c'_d)^2 / theta_d^2 |
| k_NN | [...] | the neural network kernel of the continuous parts, in [-1, 1] |
| t | [B, M] | what modulates: d2, or 1 - k_NN |
| t0 | [B] | t of a point with itself; 1 - k_NN depends on the point |
| W | [G, E, M] | weights M_e[v, v'] of pairs per group of variables (factors.py) |
| S, N | [B, G, M], [B, P] | factors of the variables; their means over vertices at t0, by which they are divided |
| w | [B] | share of the additive terms (frequency_modulation.py) |
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fmnas.optimizers.gp.autograd_kernel import (
    AutogradConditioned,
    AutogradKernel,
    AutogradPairs,
    neighbouring_points,
    squared_distance,
)
from fmnas.optimizers.gp.factors import Factors, PairEntries
from fmnas.optimizers.gp.fm_kernel import UNIT_DEVIATION, FMKernel, combine_tables, fm_parameters, weight
from fmnas.optimizers.gp.frequency_modulation import (
    BLENDED_KERNELS,
    FAST_KERNELS,
    Blended,
    Combination,
    KernelName,
    Modulated,
)
from fmnas.optimizers.gp.kernel import ROOT_GUARD, Kernel, pair_indices
from fmnas.optimizers.gp.parameters import Constant, LogNormal, Parameter, Values
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space


class PowerSums(torch.autograd.Function):
    """S_k = sum_e W_e (u + beta mu_e)^-k for k = 1 ... count, each [B, G, ...]; u [B, G, ...], beta [B, G], mu [G, E].

    dS_k / du = -k S_(k+1), and S_k is homogeneous: u dS_k / du + beta dS_k / d beta = -k S_k.
    """

    @staticmethod
    def forward(ctx: Any, u: Tensor, beta: Tensor, mu: Tensor, W: Tensor, count: int) -> tuple[Tensor, ...]:
        b = (beta[..., None] * mu).reshape(*beta.shape, -1, *[1] * (u.dim() - 2))
        sums = [u.new_zeros(torch.broadcast_shapes(u.shape, W[:, 0].shape)) for _ in range(count + 1)]
        for e in range(mu.shape[1]):  # one by one: the intermediate results stay in the processor's cache
            inverse = (u + b[:, :, e]).reciprocal_()
            term = W[:, e]
            for S in sums:
                term = term * inverse
                S += term
        ctx.save_for_backward(u, beta, *sums)
        return tuple(sums[:-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *by_sums: Tensor) -> tuple[Tensor | None, ...]:
        u, beta, *sums = ctx.saved_tensors
        by_u, by_log_beta = torch.zeros_like(u), torch.zeros_like(beta)
        for k, by_S in enumerate(by_sums, start=1):
            by_u.addcmul_(by_S, sums[k], value=-k)
            by_log_beta -= k * torch.linalg.vecdot(by_S, sums[k - 1])
        by_log_beta -= torch.linalg.vecdot(by_u, u)
        return by_u, by_log_beta / beta, None, None, None


Sums = Callable[[Tensor, int], tuple[Tensor, ...]]
"""PowerSums of a group of variables as a function of u and count."""


class PowerKernel(AutogradKernel):
    """A kernel on a space, with additive terms if the combination has them.

    extra_parameters: those besides theta, alpha, beta and odds. scaled: whether alpha scales t; otherwise it is 1.
    """

    extra_parameters: tuple[Parameter, ...]
    scaled = True

    def __init__(self, space: Space, combination: Combination) -> None:
        super().__init__(space)
        self.combination, self.factors = combination, Factors(space)
        scaled = self.scaled and bool(space.discrete)
        shared = fm_parameters(len(space.continuous), self.factors.P, scaled=scaled, weighted=combination.weighted)
        self.parameters = (*shared, *self.extra_parameters)

    @abstractmethod
    def distance(self, C1: Tensor, C2: Tensor, values: Values) -> Tensor:
        """Return t [...]; values: name -> [..., size], to broadcast with C1 and C2."""

    @abstractmethod
    def origin(self, values: Values) -> Tensor:
        """Return t0 [B]; values: name -> [B, size]."""

    @abstractmethod
    def factor(self, t: Tensor, alpha: Tensor, values: Values, sums: Sums) -> Tensor:
        """Return S [B, G, ...]; t [B, 1, ...], alpha [B, G, ...]; values: name -> [B, 1, ..., size]."""

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        shape = torch.broadcast_shapes(a.V.shape, b.V.shape)[:-1]
        C1, V1, C2, V2 = (x.expand(*shape, -1).flatten(0, -2) for x in (a.C, a.V, b.C, b.V))
        weights = _projectors(self.factors, self.factors.pairs(V1, V2))
        return self.correlate(C1, C2, weights, _as_batch(values)).reshape(shape)

    def pairs(self, points: Points) -> AutogradPairs:
        i, j = pair_indices(len(points))
        W = _projectors(self.factors, self.factors.pairs(points.V[i], points.V[j]))
        return AutogradPairs(self, lambda values: self.correlate(points.C[i], points.C[j], W, values))

    def condition_on(self, values: Values, points: Points) -> "PowerConditioned":
        return PowerConditioned(self, values, points)

    def correlate(self, C1: Tensor, C2: Tensor, weights: PairEntries, values: Values) -> Tensor:
        """Return r [B, M] of pairs with continuous parts C1, C2 [M, D] and weights W."""
        t = self.distance(C1, C2, _insert(values, 1))
        S, N = torch.cat(self.group_factors(t, weights, values), 1), self.normaliser(values)
        q = S.prod(1) / N.prod(1)[:, None]
        s = ((1.0 / N[:, None, self.factors.order]) @ S)[:, 0] / self.factors.P
        return self.combination.combine(q, s, t, weight(values)[:, None])

    def group_factors(self, t: Tensor, weights: PairEntries, values: Values) -> list[Tensor]:
        """Return S [B, G, ...] of each group of variables; t [B, ...], W [G, E, ...]."""
        groups = zip(self.factors.groups, weights, strict=True)
        return [self._factor(t, group.members, group.mu, W, values) for group, W in groups]

    def normaliser(self, values: Values) -> Tensor:
        """Return N [B, P]."""
        factors, t0 = self.factors, self.origin(values)[:, None]
        return self._factor(t0, slice(None), factors.mu, factors.share[..., None], values)[..., 0]

    def _factor(self, t: Tensor, members: list[int] | slice, mu: Tensor, W: Tensor, values: Values) -> Tensor:
        alpha, beta = values["alpha"][:, members], values["beta"][:, members]
        alpha = alpha.reshape(*alpha.shape, *[1] * (t.dim() - 1))

        def sums(u: Tensor, count: int) -> tuple[Tensor, ...]:
            return tuple(PowerSums.apply(u, beta, mu, W, count))  # type: ignore[no-untyped-call]

        return self.factor(t[:, None], alpha, _insert(values, t.dim()), sums)


class MixtureKernel(PowerKernel):
    """f = 1 / (1 + b + alpha d2) + a_1 / (1 + b + alpha d2)^2 + a_2 / (1 + b + alpha d): a mixture of Proposition 1.

    weights: a_1, a_2. ModLap is the first term. The third is not differentiable at d = 0, as are rough functions.
    """

    extra_parameters = (Parameter("weights", 2, (1e-3, 1e3), Constant(1.0), LogNormal(1.0, 1.5)),)

    def distance(self, C1: Tensor, C2: Tensor, values: Values) -> Tensor:
        return squared_distance(C1, C2, values["theta"])

    def origin(self, values: Values) -> Tensor:
        return torch.zeros_like(values["odds"][:, 0])

    def factor(self, t: Tensor, alpha: Tensor, values: Values, sums: Sums) -> Tensor:
        a = values["weights"]
        first, second = sums(1.0 + alpha * t, 2)
        (third,) = sums(1.0 + alpha * (t + ROOT_GUARD).sqrt(), 1)
        return first + a[..., 0] * second + a[..., 1] * third


class KernelModulated(PowerKernel):
    """f = 1 / (2 + b - k_NN) (Eq. 7): modulation by the neural network kernel, which is not stationary.

    k_NN = 2 / pi asin(2 x'Sx' / sqrt((1 + 2 x'Sx)(1 + 2 x''Sx'))) (Rasmussen & Williams 2006, Eq. 4.29), with
    x = (1, c - 1/2) and S = diag(bias, theta^-2). The BO-FM paper prints it without the root, where it is at most 1/3.
    """

    extra_parameters = (Parameter("bias", 1, (1e-2, 1e2), Constant(1.0), LogNormal(1.0, 1.0)),)
    scaled = False

    def distance(self, C1: Tensor, C2: Tensor, values: Values) -> Tensor:
        return 1.0 - neural_network_kernel(C1, C2, values["theta"], values["bias"])

    def origin(self, values: Values) -> Tensor:
        # Of a point whose squares are those of a uniform distribution on average.
        theta = values["theta"]
        typical = torch.full_like(theta, 0.5 + UNIT_DEVIATION)
        return self.distance(typical, typical, values)

    def factor(self, t: Tensor, alpha: Tensor, values: Values, sums: Sums) -> Tensor:
        (only,) = sums(1.0 + alpha * t, 1)
        return only


POWER_KERNELS: dict[str, type[PowerKernel]] = {"mixture": MixtureKernel, "kernel-modulated": KernelModulated}


def build_kernel(space: Space, name: KernelName, *, blended: bool) -> Kernel:
    """Return one of FAST_KERNELS or POWER_KERNELS on a space; blended: with additive terms, if it has them."""
    if name in POWER_KERNELS:
        return POWER_KERNELS[name](space, Blended() if blended else Modulated())
    return FMKernel(space, (FAST_KERNELS | BLENDED_KERNELS if blended else FAST_KERNELS)[name])


def neural_network_kernel(C1: Tensor, C2: Tensor, theta: Tensor, bias: Tensor) -> Tensor:
    """Return k_NN [...] of continuous parts [..., D]; theta [..., D], bias [..., 1]."""
    z1, z2 = (C1 - 0.5) / theta, (C2 - 0.5) / theta
    inner, own1, own2 = (2.0 * (bias[..., 0] + (x * y).sum(-1)) for x, y in ((z1, z2), (z1, z1), (z2, z2)))
    return (2.0 / math.pi) * (inner / ((1.0 + own1) * (1.0 + own2)).sqrt()).asin()


class PowerConditioned(AutogradConditioned):
    """Correlations with n points; those of neighbouring vertices from a table per variable."""

    def __init__(self, kernel: PowerKernel, values: Values, points: Points) -> None:
        super().__init__(kernel, values, points)
        self._power_kernel = kernel
        self._rows = _projectors(kernel.factors, kernel.factors.rows(points.V))

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        kernel, factors, batch = self._power_kernel, self._power_kernel.factors, _as_batch(self.values)
        t = kernel.distance(points.C[:, None], self.points.C, self.values)  # [m, n]
        W = [rows[:, :, None] for rows in self._rows]  # [G, E, 1, V, n]
        N, tables = kernel.normaliser(batch)[0], [t] * factors.P
        for group, S in zip(factors.groups, kernel.group_factors(t[None, :, None], W, batch), strict=True):
            for k, p in enumerate(group.members):
                tables[p] = S[0, k, :, : factors.spaces[p].vertices] / N[p]  # [m, V_p, n]
        around = neighbouring_points(kernel.space, points)
        own = kernel.r(around, around, self.values).reshape(len(points), -1)
        return combine_tables(kernel.combination, tables, points.V, t, weight(self.values)), own


def _projectors(factors: Factors, weights: PairEntries) -> PairEntries:
    """Return entries of projectors [G, E, ...] for complete graphs, too: M_0 = 1 / V, M_1 = [v = v'] - 1 / V."""
    sizes = [group.complete for group in factors.groups]
    return [
        torch.stack([torch.full_like(W, 1.0 / size), W - 1.0 / size], 1) if size else W
        for size, W in zip(sizes, weights, strict=True)
    ]


def _as_batch(values: Values) -> Values:
    return {name: value[None] for name, value in values.items()}


def _insert(values: Values, count: int) -> Values:
    """Insert `count` dimensions of size 1 before the last one."""
    return {name: value[(..., *[None] * count, slice(None))] for name, value in values.items()}
