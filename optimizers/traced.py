"""The graph part of many pairs together with its derivatives: a fit wants both each time, and so does a gradient.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| G, m | | variables of a group; pairs of a part that fits into the processor's cache |
| S | [B, G, m] | factors of a group's variables, before they are normalised |
| L | [B, G, m] | d log S / d u, with u = 1 + alpha d2 |
| q, s | [B, M] | prod_p S_p / N_p; mean_p S_p / N_p |
"""

import torch
from torch import Tensor

from fmnas.optimizers.factors import Factors, Weights, factor_and_slope


class Traced:
    """q and s of pairs under parameters alpha, beta [B, P], at squared distances d2 [B, M]; S and L are kept.

    Where the factors are not additive, q stands in the place of s.
    """

    def __init__(self, factors: Factors, weights: Weights, alpha: Tensor, beta: Tensor, d2: Tensor) -> None:
        self._factors, self._alpha, self._d2 = factors, alpha, d2
        self._groups = factors.scaled(weights, alpha, beta)
        N, self._log_slope_of_N = factors.normaliser(beta)
        self._kept: list[tuple[slice, list[tuple[Tensor, Tensor]]]] = []  # of each part, S and L of each group
        self.q = torch.ones_like(d2)
        self.s = torch.zeros_like(d2) if factors.additive else self.q
        for part in factors.parts(d2):
            found = [factor_and_slope(factors.spectral, group, part, d2[:, part]) for group in self._groups]
            for group, (S, _) in zip(self._groups, found, strict=True):
                self.q[:, part] *= S.prod(1)
                if factors.additive:
                    self.s[:, part] += (group.share @ S)[:, 0]
            self._kept.append((part, found))
        self.q.div_(N.prod(1)[:, None])

    def slopes(self) -> tuple[Tensor, Tensor]:
        """dq / d d2 and ds / d d2, each [B, M]."""
        q_slope = torch.zeros_like(self._d2)
        s_slope = torch.zeros_like(self._d2) if self._factors.additive else q_slope
        for part, found in self._kept:
            for group, (S, L) in zip(self._groups, found, strict=True):
                q_slope[:, part] += (group.alpha.mT @ L)[:, 0]
                if self._factors.additive:
                    s_slope[:, part] += ((group.share * group.alpha.mT) @ (S * L))[:, 0]
        q_slope *= self.q
        return q_slope, s_slope

    def pull(self, by_log_q: Tensor, by_s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What d nll / d log q and d nll / d s, each [B, M], pull: log alpha [B, P], log beta [B, P], d2 [B, M]."""
        spectral, alpha = self._factors.spectral, self._alpha
        total = by_log_q.sum(-1, keepdim=True).expand_as(alpha).clone()
        here_and_far = alpha.new_zeros(*alpha.shape, 2)
        by_d2 = torch.zeros_like(self._d2)
        for part, found in self._kept:
            pulls = by_log_q[:, None, part]  # [B, 1, m]
            ones_and_d2 = torch.stack([torch.ones_like(self._d2[:, part]), self._d2[:, part]], -1)  # [B, m, 2]
            for group, (S, L) in zip(self._groups, found, strict=True):
                if self._factors.additive:  # a factor's share of s moves with it: [B, G, m]
                    shared = S * group.share.mT
                    total.index_add_(1, group.index, (shared @ by_s[:, part, None])[..., 0])
                    pulled = torch.addcmul(pulls, shared, by_s[:, None, part]).mul_(L)
                else:
                    pulled = L * pulls
                by_d2[:, part] += (group.alpha.mT @ pulled)[:, 0]
                here_and_far.index_add_(1, group.index, pulled @ ones_and_d2)
        here, far = here_and_far.unbind(-1)
        by_alpha = alpha * far
        by_beta = spectral.sign * (here + by_alpha) + (spectral.offset - self._log_slope_of_N) * total
        return by_alpha, by_beta, by_d2
