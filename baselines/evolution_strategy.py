"""CMA-ES (Hansen 2016, "The CMA Evolution Strategy: A Tutorial") on the unit cube, for several starts at once.

| symbol | shape | meaning |
|---|---|---|
| S, D, L | | starts; dimensions; points of a generation |
| mean, sigma, cov | [S, D], [S], [S, D, D] | of each start's normal distribution |
| steps | [S, L, D] | (point - mean) / sigma |

Points beyond the cube are moved to its surface, and count as drawn there.
"""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

POPULATION, GENERATIONS, SIGMA = 50, 10, 0.1


def maximise_cma(
    value: Callable[[Tensor], Tensor],
    starts: Tensor,
    rng: np.random.Generator,
    *,
    population: int = POPULATION,
    generations: int = GENERATIONS,
    sigma: float = SIGMA,
) -> tuple[Tensor, Tensor]:
    """Return the best point of each start [S, D], and its value [S]; a start itself if nothing better was drawn.

    value: of points [S, L, D], where row s belongs to start s: [S, L]; -inf where a point is not allowed.
    """
    S, D = starts.shape
    weights = math.log(population // 2 + 0.5) - torch.arange(1, population // 2 + 1, dtype=torch.float64).log()
    weights /= weights.sum()
    mu = 1.0 / float(weights.square().sum())
    c_sigma = (mu + 2) / (D + mu + 5)
    damping = 1 + 2 * max(0.0, math.sqrt((mu - 1) / (D + 1)) - 1) + c_sigma
    c_c = (4 + mu / D) / (D + 4 + 2 * mu / D)
    c_1 = 2 / ((D + 1.3) ** 2 + mu)
    c_mu = min(1 - c_1, 2 * (mu - 2 + 1 / mu) / ((D + 2) ** 2 + mu))
    expected_norm = math.sqrt(D) * (1 - 1 / (4 * D) + 1 / (21 * D * D))

    mean, sigmas = starts.clone(), torch.full((S,), sigma, dtype=torch.float64)
    cov = torch.eye(D, dtype=torch.float64).repeat(S, 1, 1)
    path_c, path_sigma = torch.zeros(S, D, dtype=torch.float64), torch.zeros(S, D, dtype=torch.float64)
    best, best_value = starts.clone(), value(starts[:, None])[:, 0]
    for generation in range(1, generations + 1):
        scales, axes = torch.linalg.eigh(cov)
        scales = scales.clamp(min=1e-20).sqrt()
        z = torch.from_numpy(rng.standard_normal((S, population, D)))
        points = mean[:, None] + sigmas[:, None, None] * torch.einsum("sij,sj,slj->sli", axes, scales, z)
        points = points.clamp(0.0, 1.0)
        values = value(points)
        order = values.argsort(dim=1, descending=True, stable=True)[:, : population // 2, None].expand(-1, -1, D)
        top_value, top = values.max(1)
        better = top_value > best_value
        best[better], best_value[better] = points[better, top[better]], top_value[better]
        steps = (points.gather(1, order) - mean[:, None]) / sigmas[:, None, None]
        step = torch.einsum("l,sld->sd", weights, steps)
        mean = mean + sigmas[:, None] * step
        whitened = torch.einsum("sij,sj,skj,sk->si", axes, 1 / scales, axes, step)
        path_sigma = (1 - c_sigma) * path_sigma + math.sqrt(c_sigma * (2 - c_sigma) * mu) * whitened
        norm = path_sigma.norm(dim=1)
        is_short = norm / math.sqrt(1 - (1 - c_sigma) ** (2 * generation)) < (1.4 + 2 / (D + 1)) * expected_norm
        path_c = (1 - c_c) * path_c + is_short[:, None] * math.sqrt(c_c * (2 - c_c) * mu) * step
        rank_one = path_c[:, :, None] * path_c[:, None] + (~is_short)[:, None, None] * c_c * (2 - c_c) * cov
        rank_mu = torch.einsum("l,sli,slj->sij", weights, steps, steps)
        cov = (1 - c_1 - c_mu) * cov + c_1 * rank_one + c_mu * rank_mu
        sigmas = sigmas * torch.exp((c_sigma / damping) * (norm / expected_norm - 1)).clamp(max=2.0)
    return best, best_value
