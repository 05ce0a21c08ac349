"""The factors of the discrete variables for many pairs of points: the fast implementation of kernels.py.

Pairs are processed a few thousand at a time, so that intermediate results stay in the processor's cache.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| d2 | [B, M] | squared continuous distance of each pair |
| alpha, beta | [B, P] | modulation by d2 (zero: none) and frequency scale per discrete variable |
| u | [B, P, M] | 1 + alpha d2; [B, P, 1] if all d2 are 0, as without continuous variables |
| W | [G, (E,) M] | weights of the pairs from their vertices (factors.py) |
| S | [B, P, M] | sum_e M_e f(beta mu_e, u): the factor of each variable, not normalised |
| N | [B, P] | normaliser: the mean of the factor over vertices at d = 0 |
| q, s | [B, M] | prod_p S_p / N_p: the graph part; mean_p S_p / N_p |
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from fmnas.optimizers.gp.factors import Factors, Group, PairEntries
from fmnas.optimizers.gp.frequency_modulation import FastKernel, FrequencyModulation
from fmnas.optimizers.gp.graphs import path_factor, path_factor_and_decay

CACHE = 1 << 17  # numbers per intermediate result: a megabyte


class ScaledGroup(NamedTuple):
    """A group of variables (factors.py) and their parameters: alpha [B, G, 1], b = beta mu [B, G, E, 1]."""

    group: Group
    alpha: Tensor
    b: Tensor


class GraphPart:
    """The graph part under parameters alpha, beta [B, P], for any pairs.

    alpha [B, P], log_slope_of_N [B, P] and share [B, 1, P] = 1 / (P N), the weight of a factor in s, are ordered by
    group. places [P]: positions of the space's variables in that order. N [B, P] is in the space's order.
    """

    def __init__(self, factors: Factors, form: FastKernel, alpha: Tensor, beta: Tensor) -> None:
        self.modulation, self.additive, self._factors = form.modulation, form.combination.additive, factors
        order = factors.order
        self.places = order.argsort()
        self.alpha = alpha[:, order]
        self.N, log_slope_of_N = normaliser(factors, form.modulation, beta)
        self.log_slope_of_N = log_slope_of_N[:, order]
        self.share = (1.0 / (factors.P * self.N[:, order]))[:, None]
        self.groups = [
            ScaledGroup(group, self.alpha[:, group.rows, None], (beta[:, group.members, None] * group.mu)[..., None])
            for group in factors.groups
        ]
        self.product_of_N = self.N.prod(1)[:, None]
        self._sizes = [space.vertices for space in factors.spaces]
        self._step = max(256, CACHE // (len(alpha) * factors.terms))

    def slices(self, M: int) -> Iterator[slice]:
        """Yield slices of M pairs."""
        return (slice(start, start + self._step) for start in range(0, M, self._step))

    def evaluate(self, weights: PairEntries, d2: Tensor) -> tuple[Tensor, Tensor]:
        """Return (q, s), each [B, M], of pairs with these weights at squared distances d2 [B, M]."""
        q = torch.ones_like(d2)
        s = torch.zeros_like(d2) if self.additive else q
        distinct = slice(None) if d2.any() else slice(1)
        for part in self.slices(d2.shape[1]):
            for (group, alpha, b), W in zip(self.groups, weights, strict=True):
                u = (alpha * d2[:, None, part][..., distinct]).add_(1.0)
                S = _sum(self.modulation, group, W[None, ..., part], b, u)
                q[:, part] *= S.prod(1)
                if self.additive:
                    s[:, part] += (self.share[..., group.rows] @ S)[:, 0]
        return q.div_(self.product_of_N), s

    def factors_and_slopes(self, weights: PairEntries, d2: Tensor) -> tuple[Tensor, Tensor]:
        """Return (S, d log S / du), each [B, P, m] ordered by group, of pairs at squared distances d2 [B, m]."""
        S = d2.new_empty(len(d2), len(self._sizes), d2.shape[1])
        L, distinct = torch.empty_like(S), slice(None) if d2.any() else slice(1)
        for (group, alpha, b), W in zip(self.groups, weights, strict=True):
            u = (alpha * d2[:, None, distinct]).add_(1.0)
            _sum_and_decay(self.modulation, group, W[None], b, u, S[:, group.rows], L[:, group.rows])
        S.clamp_(min=1e-300)
        return S, L.div_(S).neg_()

    def diagonals(self, beta: Tensor) -> list[Tensor]:
        """Return each variable's normalised factor between its vertices and themselves at d = 0: P times [V].

        beta [P]. Only for B = 1.
        """
        one, spaces = beta.new_ones(1), self._factors.spaces
        values = [self.modulation.value(beta[p] * space.mu, one) for p, space in enumerate(spaces)]
        return [space.diagonal(f) / self.N[0, p] for p, (space, f) in enumerate(zip(spaces, values, strict=True))]

    def tables(self, rows: PairEntries, d2: Tensor) -> list[Tensor]:
        """Return each variable's normalised factor between all vertices and n points: P times [S, V_p, n].

        rows: `Factors.rows` of the n points; d2 [S, n]: distances of S points to them. Only for B = 1.
        """
        tables: list[Tensor] = [d2] * len(self._sizes)
        for (group, alpha, b), table in zip(self.groups, rows, strict=True):
            for k, p in enumerate(group.members):
                W = table[k, ..., : self._sizes[p], :][None, None]  # [1, 1, (E,) V, n]
                u = (alpha[:, k] * d2).add_(1.0)[:, None, None]  # [S, 1, 1, n]
                S = _sum(self.modulation, group, W, b[:, k : k + 1, :, None], u)  # b [1, 1, E, 1, 1]
                tables[p] = S[:, 0].div_(self.N[0, p])
        return tables


class GraphPartWithGradient:
    """q and s of pairs with these weights at squared distances d2 [B, M], with S and L for their gradients.

    If the factors are not additive, s is q.
    """

    def __init__(self, graphs: GraphPart, weights: PairEntries, d2: Tensor) -> None:
        self._graphs, self._d2 = graphs, d2
        self._parts: list[tuple[slice, Tensor, Tensor]] = []  # slices with their S and L
        self.q = torch.empty_like(d2)
        self.s = torch.empty_like(d2) if graphs.additive else self.q
        for part in graphs.slices(d2.shape[1]):
            S, L = graphs.factors_and_slopes([W[..., part] for W in weights], d2[:, part])
            self.q[:, part] = S.prod(1)
            if graphs.additive:
                self.s[:, part] = (graphs.share @ S)[:, 0]
            self._parts.append((part, S, L))
        self.q.div_(graphs.product_of_N)

    def slopes(self) -> tuple[Tensor, Tensor]:
        """Return dq / d d2 and ds / d d2, each [B, M]."""
        graphs = self._graphs
        q_slope = torch.empty_like(self._d2)
        s_slope = torch.empty_like(self._d2) if graphs.additive else q_slope
        for part, S, L in self._parts:
            q_slope[:, part] = (graphs.alpha[:, None] @ L)[:, 0]
            if graphs.additive:
                s_slope[:, part] = ((graphs.share * graphs.alpha[:, None]) @ (S * L))[:, 0]
        q_slope *= self.q
        return q_slope, s_slope

    def pull(self, by_log_q: Tensor, by_s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Map d nll / d log q and d nll / d s [B, M] to gradients by log alpha, log beta [B, P] and d2 [B, M]."""
        graphs = self._graphs
        modulation, alpha = graphs.modulation, graphs.alpha
        total = by_log_q.sum(-1, keepdim=True).expand_as(alpha).clone()
        by_u, by_u_d2 = torch.zeros_like(alpha), torch.zeros_like(alpha)
        by_d2, varied = torch.empty_like(self._d2), bool(self._d2.any())
        for part, S, L in self._parts:
            pulls = by_log_q[:, None, part]  # [B, 1, m]
            if graphs.additive:  # a factor's part of s: [B, P, m]
                shared = S * graphs.share.mT
                total += (shared @ by_s[:, part, None])[..., 0]
                pulls = torch.addcmul(pulls, shared, by_s[:, None, part])
            pulled = pulls * L
            by_d2[:, part] = (alpha[:, None] @ pulled)[:, 0]
            by_u += pulled.sum(-1)
            if varied:
                by_u_d2 += (pulled @ self._d2[:, part, None])[..., 0]
        by_alpha = alpha * by_u_d2
        by_beta = modulation.sign * (by_u + by_alpha) + (modulation.offset - graphs.log_slope_of_N) * total
        places = graphs.places
        return by_alpha[:, places], by_beta[:, places], by_d2


def normaliser(factors: Factors, modulation: FrequencyModulation, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Return N and d log N / d log beta, each [B, P]."""
    one = beta.new_ones(1)
    b = beta[..., None] * factors.mu
    f = modulation.value(b, one)
    N = (factors.share * f).sum(-1)
    decay = (factors.share * f * modulation.decay(b, f)).sum(-1) / N
    return N, modulation.offset - modulation.sign * decay


def _sum(modulation: FrequencyModulation, group: Group, W: Tensor, b: Tensor, u: Tensor) -> Tensor:
    """Return sum_e M_e f(b_e, u): [B, G, ...]; W [B or 1, G, (E,) ...], b [B, G, E, ...], u [B, G, ...].

    On a complete graph of V vertices M_0 = 1 / V, M_1 = [v = v'] - 1 / V, and mu_0 = 0.
    """
    if group.complete:
        f0, f1 = modulation.value(b[:, :, 0], u), modulation.value(b[:, :, 1], u)
        return f0.sub_(f1).div_(group.complete).add(W * f1)
    if group.path:
        return path_factor(group.path, W, b[:, :, 0], u)
    return (modulation.value(b, u[:, :, None]) * W).sum(2).clamp_(min=1e-300)


def _sum_and_decay(
    modulation: FrequencyModulation, group: Group, W: Tensor, b: Tensor, u: Tensor, S: Tensor, decay: Tensor
) -> None:
    """Compute S = sum_e M_e f(b_e, u) and -dS/du, written to S and decay [B, G, m]."""
    if group.path:
        factor, slope = path_factor_and_decay(group.path, W, b[:, :, 0], u)
        S.copy_(factor)
        decay.copy_(slope)
        return
    if not group.complete:
        f = modulation.value(b, u[:, :, None])
        weighted = f * W
        torch.sum(weighted, 2, out=S)
        torch.sum(weighted.mul_(modulation.decay(b, f)), 2, out=decay)
        return
    b0, b1 = b[:, :, 0], b[:, :, 1]
    f0, f1 = modulation.value(b0, u), modulation.value(b1, u)
    weighted0, weighted1 = f0 / group.complete, f1 * (W - 1.0 / group.complete)
    torch.add(weighted0, weighted1, out=S)
    torch.addcmul(weighted0 * modulation.decay(b0, f0), weighted1, modulation.decay(b1, f1), out=decay)
