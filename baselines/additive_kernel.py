"""HyBO's kernel: a sum of products of base kernels over all subsets of variables.

| symbol | shape | meaning |
|---|---|---|
| D, P, N | | continuous and discrete variables; N = D + P |
| R | | the largest number of variables in a product |
| n, m | | observations; other points |
| z | [N, ...] | base kernels of pairs of points: of discrete variables, then of continuous ones |
| e | [R, ...] | elementary symmetric polynomials of z: e_r is the sum of all products of r base kernels |
| w | [R] | weight of each order |

    k(x, x') = amplitude sum_r w_r e_r(z(x, x'))

A base kernel is 1 for equal values. For other values it is that of a diffusion on the complete graph of n values,
(1 - exp(-beta n)) / (1 + (n - 1) exp(-beta n)); of continuous values that lie dx apart in the unit cube it is
exp(-(2 dx)^2 / 2 exp(4 q)). The polynomials come from e_r += z_i e_{r-1}, variable by variable: the same numbers as by
the Newton-Girard identities, without their cancellation. k is linear in each z_i, which gives the kernel at all graph
neighbours of a point from one forward and one backward pass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fmnas.optimizers.gp.points import Points

NUGGET = 1e-6
"""Added to the diagonal of the kernel, times the amplitude."""
ONE = torch.ones((), dtype=torch.float64)


@dataclass(frozen=True)
class Parameters:
    """A sample. mean: of the process. All others but q are logarithms: beta [P], q [D], weights [R]."""

    mean: float
    amplitude: float
    noise: float
    beta: tuple[float, ...]
    q: tuple[float, ...]
    weights: tuple[float, ...]

    @classmethod
    def initial(cls, y: Tensor, discrete: int, continuous: int, orders: int) -> "Parameters":
        """Return where a chain begins, for objectives y [n]."""
        variance = float(y.var())
        start = (0.0,) * discrete, (0.0,) * continuous, (0.0,) * orders
        return cls(float(y.mean()), math.log(0.5 * variance), math.log(1e-3 * variance), *start)

    def to_tuple(self) -> tuple[float, ...]:
        """Return all numbers, e.g. for a trial's memo."""
        return (self.mean, self.amplitude, self.noise, *self.beta, *self.q, *self.weights)

    @classmethod
    def from_tuple(cls, values: Sequence[float], discrete: int, continuous: int) -> "Parameters":
        """Return the parameters of `to_tuple`."""
        mean, amplitude, noise, *rest = values
        ends = discrete, discrete + continuous
        return cls(
            mean, amplitude, noise, tuple(rest[: ends[0]]), tuple(rest[ends[0] : ends[1]]), tuple(rest[ends[1] :])
        )


@dataclass(frozen=True)
class AdditiveKernel:
    """The kernel without its amplitude. sizes: values of each discrete variable. orders: R."""

    sizes: tuple[int, ...]
    orders: int

    def base_kernels(self, parameters: Parameters, first: Points, second: Points) -> Tensor:
        """Return z [N, ...] for points whose rows broadcast: C [..., D] and V [..., P]."""
        z = [self.discrete_kernel(p, b, first.V[..., p] == second.V[..., p]) for p, b in enumerate(parameters.beta)]
        z += [continuous_kernel(q, (first.C[..., d] - second.C[..., d]).square()) for d, q in enumerate(parameters.q)]
        return torch.stack(z)

    def discrete_kernel(self, p: int, beta: float, equal: Tensor) -> Tensor:
        """Return the base kernel of a discrete variable: 1 where `equal`."""
        return torch.where(equal, ONE, self.different(p, beta))

    def different(self, p: int, beta: float) -> float:
        """Return the base kernel of different values of a discrete variable."""
        decay = math.exp(-math.exp(beta) * self.sizes[p])
        return (1.0 - decay) / (1.0 + (self.sizes[p] - 1) * decay)

    def polynomials(self, z: Tensor) -> Tensor:
        """Return e [R + 1, ...], with e_0 = 1, of base kernels z [N, ...]."""
        e = self.extend(torch.ones(1, *z.shape[1:], dtype=torch.float64), z)
        missing = self.orders + 1 - len(e)
        return torch.cat([e, torch.zeros(missing, *e.shape[1:], dtype=torch.float64)]) if missing else e

    def extend(self, e: Tensor, z: Tensor) -> Tensor:
        """Return e of more variables, with base kernels z [N, ...]. Of i variables e has at most i + 1 rows."""
        for factor in z:
            extended = torch.empty(min(len(e), self.orders) + 1, *factor.shape, dtype=torch.float64)
            extended[0] = 1.0
            torch.addcmul(e[1:], e[:-1], factor, out=extended[1 : len(e)])
            if len(extended) > len(e):
                torch.mul(e[-1], factor, out=extended[-1])
            e = extended
        return e

    def value(self, z: Tensor, parameters: Parameters) -> Tensor:
        """Return the kernel of base kernels z [N, ...]."""
        return weighted_sum(parameters.weights, self.polynomials(z)[1:])

    def value_and_slopes(self, z: Tensor, parameters: Parameters) -> tuple[Tensor, Tensor]:
        """Return (kernel [...], its derivatives by each base kernel [N, ...])."""
        polynomials = [torch.ones(1, *z.shape[1:], dtype=torch.float64)]  # of the first 0, 1, ... N variables
        for factor in z:
            polynomials.append(self.extend(polynomials[-1], factor[None]))
        e = polynomials.pop()
        weights = torch.tensor((0.0, *map(math.exp, parameters.weights)), dtype=torch.float64)[: len(e)]
        by_e, slopes = weights.reshape(-1, *(1,) * (z.dim() - 1)).expand_as(e), torch.empty_like(z)
        for i, before in reversed(list(enumerate(polynomials))):  # e = before + z_i times before, one order higher
            higher = by_e[1:]
            torch.sum(higher * before[: len(higher)], 0, out=slopes[i])
            by_e = by_e[: len(before)].clone()
            by_e[: len(higher)] += z[i] * higher
        return weighted_sum(parameters.weights, e[1:]), slopes

    def diagonal(self, parameters: Parameters) -> float:
        """Return the kernel of a point with itself."""
        count = len(self.sizes) + len(parameters.q)
        return sum(math.exp(w) * math.comb(count, r) for r, w in enumerate(parameters.weights, start=1))


def weighted_sum(log_weights: Sequence[float], e: Tensor) -> Tensor:
    """Return sum_r exp(log_weights_r) e_r of e [at most R, ...]."""
    return torch.tensordot(torch.tensor(log_weights[: len(e)], dtype=torch.float64).exp(), e, dims=1)


def continuous_kernel(q: float, squared: Tensor) -> Tensor:
    """Return the base kernel of a continuous variable, of squared distances in the unit cube."""
    return torch.exp(squared * (-2.0 * math.exp(-4.0 * q)))
