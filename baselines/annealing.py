"""Simulated annealing over a mixed space (Kirkpatrick et al. 1983), as MiVaBO's baselines maximise an acquisition.

CHAINS chains advance as one batch. A move changes one variable: a continuous one by a
normal step of STEP, clipped to [0, 1]; a discrete one to another value. It is accepted with probability
exp(-increase / temperature). An infeasible move is refused, as by the huge energy that the paper gives it. The
temperature falls by the same factor in every step.

| temperatures | from | to |
|---|---|---|
| published | 25,000 | 2.5: the defaults of simanneal, which accept nearly every move if energies are of order 1 |
| scaled | the standard deviation of the energies of the starts | a thousandth of it |
"""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region

Temperatures = Literal["scaled", "published"]
PUBLISHED_STEPS, CHAINS = 50_000, 50
STEP = 0.1
PUBLISHED = 25_000.0, 2.5
COOLING = 1e-3


def anneal(
    energy: Callable[[Points], Tensor],
    region: Region,
    rng: np.random.Generator,
    temperatures: Temperatures,
    steps: int = PUBLISHED_STEPS,
) -> tuple[Points, Tensor]:
    """Return the point of least energy of each chain, and its energy [CHAINS], best first.

    steps: of all chains together.
    """
    now = region.sample(rng, CHAINS)
    value = energy(now)
    best, best_value = now, value
    first, last = PUBLISHED
    if temperatures == "scaled":
        first = float(value.std()) or 1.0
        last = COOLING * first
    rounds = max(steps // CHAINS, 1)
    for step in range(rounds):
        temperature = first * math.exp(math.log(last / first) * step / rounds)
        moved = _move(now, region, rng)
        moved_value = torch.where(region.feasible(moved), energy(moved), torch.inf)
        accepted = torch.from_numpy(-rng.standard_exponential(CHAINS)) < (value - moved_value) / temperature
        now, value = _choose(accepted, moved, now), torch.where(accepted, moved_value, value)
        better = value < best_value
        best, best_value = _choose(better, now, best), torch.where(better, value, best_value)
    order = best_value.argsort(dim=0, stable=True)
    return best.select(order), best_value[order]


def _move(points: Points, region: Region, rng: np.random.Generator) -> Points:
    """Change one variable of each point."""
    C, V, rows = points.C.clone(), points.V.clone(), torch.arange(len(points))
    D, sizes = C.shape[1], [len(variable.vertices) for variable in region.space.discrete]
    which = torch.from_numpy(rng.integers(D + len(sizes), size=len(points)))
    steps, jumps = torch.from_numpy(STEP * rng.standard_normal(len(points))), torch.from_numpy(rng.random(len(points)))
    real = rows[which < D]
    C[real, which[real]] = (C[real, which[real]] + steps[real]).clamp(0.0, 1.0)
    other = rows[which >= D]
    if len(other):
        p = which[other] - D
        n = torch.tensor(sizes)[p]
        V[other, p] = (V[other, p] + 1 + (jumps[other] * (n - 1)).long()) % n
    return Points(C, V)


def _choose(condition: Tensor, yes: Points, no: Points) -> Points:
    """Return the points `yes` where the condition [m] holds, else `no`."""
    return Points(torch.where(condition[:, None], yes.C, no.C), torch.where(condition[:, None], yes.V, no.V))
