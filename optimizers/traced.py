"""The graph part of many pairs together with its derivatives: a fit wants both each time, and so does a gradient.

| symbol | shape | meaning |
|---|---|---|
| B, M | | parameter sets evaluated together; pairs of points |
| m | | pairs of a part that fits into the processor's cache |
| S | [B, P, m] | factors of the variables, before they are normalised; group by group (graph_part.py) |
| L | [B, P, m] | d log S / d u, with u = 1 + alpha d2 |
| q, s | [B, M] | prod_p S_p / N_p; mean_p S_p / N_p |
"""

import torch
from torch import Tensor

from fmnas.optimizers.factors import Weights
from fmnas.optimizers.graph_part import GraphPart


class Traced:
    """q and s of pairs with these weights at squared distances d2 [B, M]; S and L are kept.

    Where the factors are not additive, q stands in the place of s.
    """

    def __init__(self, graphs: GraphPart, weights: Weights, d2: Tensor) -> None:
        self._graphs, self._d2 = graphs, d2
        self._kept: list[tuple[slice, Tensor, Tensor]] = []  # parts with their S and L
        self.q = torch.empty_like(d2)
        self.s = torch.empty_like(d2) if graphs.additive else self.q
        for part in graphs.parts(d2.shape[1]):
            S, L = graphs.factors_and_slopes([W[..., part] for W in weights], d2[:, part])
            self.q[:, part] = S.prod(1)
            if graphs.additive:
                self.s[:, part] = (graphs.share @ S)[:, 0]
            self._kept.append((part, S, L))
        graphs.normalised(self.q)

    def slopes(self) -> tuple[Tensor, Tensor]:
        """dq / d d2 and ds / d d2, each [B, M]."""
        graphs = self._graphs
        q_slope = torch.empty_like(self._d2)
        s_slope = torch.empty_like(self._d2) if graphs.additive else q_slope
        for part, S, L in self._kept:
            q_slope[:, part] = (graphs.alpha[:, None] @ L)[:, 0]
            if graphs.additive:
                s_slope[:, part] = ((graphs.share * graphs.alpha[:, None]) @ (S * L))[:, 0]
        q_slope *= self.q
        return q_slope, s_slope

    def pull(self, by_log_q: Tensor, by_s: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What d nll / d log q and d nll / d s, each [B, M], pull: log alpha [B, P], log beta [B, P], d2 [B, M]."""
        graphs = self._graphs
        spectral, alpha = graphs.spectral, graphs.alpha
        total = by_log_q.sum(-1, keepdim=True).expand_as(alpha).clone()
        here, far = torch.zeros_like(alpha), torch.zeros_like(alpha)
        by_d2 = torch.empty_like(self._d2)
        for part, S, L in self._kept:
            pulls = by_log_q[:, None, part]  # [B, 1, m]
            if graphs.additive:  # a factor's share of s moves with it: [B, P, m]
                shared = S * graphs.share.mT
                total += (shared @ by_s[:, part, None])[..., 0]
                pulls = torch.addcmul(pulls, shared, by_s[:, None, part])
            pulled = pulls * L
            by_d2[:, part] = (alpha[:, None] @ pulled)[:, 0]
            here += pulled.sum(-1)
            far += (pulled @ self._d2[:, part, None])[..., 0]
        by_alpha = alpha * far
        by_beta = spectral.sign * (here + by_alpha) + (spectral.offset - graphs.log_slope_of_N) * total
        places = graphs.places
        return by_alpha[:, places], by_beta[:, places], by_d2
