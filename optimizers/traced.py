"""The graph part of many pairs together with what its derivatives are made of: a fit wants both each time.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| G, m | | variables of a group; pairs of a part that fits into the processor's cache |
| S | [B, G, M] | factors of a group's variables, before they are normalised |
| L | [B, G, M] | d log S / d u, with u = 1 + alpha d2 |
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
        self._S = [d2.new_empty(len(d2), len(group.index), d2.shape[1]) for group in self._groups]
        self._L = [torch.empty_like(S) for S in self._S]
        self.q = torch.ones_like(d2)
        self.s = torch.zeros_like(d2) if factors.additive else self.q
        for part in factors.parts(d2):
            self._compute(part)
        self.q.div_(N.prod(1)[:, None])

    def _compute(self, part: slice) -> None:
        for group, S, L in zip(self._groups, self._S, self._L, strict=True):
            value, L[..., part] = factor_and_slope(self._factors.spectral, group, part, self._d2[:, part])
            self.q[:, part] *= value.prod(1)
            if self._factors.additive:
                self.s[:, part] += (group.share @ value)[:, 0]
                S[..., part] = value

    def pull(self, by_log_q: Tensor, by_s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What d nll / d log q and d nll / d s, each [B, M], pull: log alpha [B, P], log beta [B, P], d2 [B, M]."""
        spectral, alpha, additive = self._factors.spectral, self._alpha, self._factors.additive
        total = by_log_q.sum(-1, keepdim=True).expand_as(alpha).clone()
        here_and_far = alpha.new_zeros(*alpha.shape, 2)
        by_d2 = torch.zeros_like(self._d2)
        for part in self._factors.parts(self._d2):
            pulls = by_log_q[:, None, part]  # [B, 1, m]
            ones_and_d2 = torch.stack([torch.ones_like(self._d2[:, part]), self._d2[:, part]], -1)  # [B, m, 2]
            for group, S, L in zip(self._groups, self._S, self._L, strict=True):
                if additive:  # a factor's share of s moves with it: [B, G, m]
                    shared = S[..., part] * group.share.mT
                    total.index_add_(1, group.index, (shared @ by_s[:, part, None])[..., 0])
                    pulled = torch.addcmul(pulls, shared, by_s[:, None, part]).mul_(L[..., part])
                else:
                    pulled = L[..., part] * pulls
                by_d2[:, part] += (group.alpha.mT @ pulled)[:, 0]
                here_and_far.index_add_(1, group.index, pulled @ ones_and_d2)
        here, far = here_and_far.unbind(-1)
        by_alpha = alpha * far
        by_beta = spectral.sign * (here + by_alpha) + (spectral.offset - self._log_slope_of_N) * total
        return by_alpha, by_beta, by_d2
