"""Simulated annealing of many chains at once has the points of one chain after the other."""

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.baselines.annealing import CHAINS, Temperatures, anneal
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Real, Space

SPACE = Space(
    [Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4)],
    [LinearConstraint({"x": 1.0, "y": 1.0}, 1.2)],
)
SIZES, ROUNDS = (3, 5), 60


def energy_of(scale: float, x: float, y: float, op: float, k: float) -> float:
    """Two valleys: that of op = 2 is deeper."""
    return scale * ((x - 0.9) ** 2 + 3 * (y - 0.2 * k) ** 2 - (op == 2) + 0.3 * abs(k - 3))


def anneal_one(
    scale: float, start: list[float | int], first: float, last: float, draws: np.ndarray
) -> tuple[float, ...]:
    """The least energy of a chain and where it was. draws: variable, normal step, jump and exponential per round."""
    now, value = start, energy_of(scale, *start)
    best = (value, *now)
    for number, (which, step, jump, patience) in enumerate(draws):
        moved, p = list(now), int(which)
        if p < 2:
            moved[p] = min(max(moved[p] + 0.1 * step, 0.0), 1.0)
        else:
            alternatives = [(now[p] + shift) % SIZES[p - 2] for shift in range(1, SIZES[p - 2])]
            moved[p] = alternatives[int(jump * len(alternatives))]
        temperature = first * (last / first) ** (number / len(draws))
        if moved[0] + moved[1] <= 1.2 and energy_of(scale, *moved) - value < temperature * patience:
            now, value = moved, energy_of(scale, *moved)
        best = min(best, (value, *now), key=lambda each: each[0])
    return best


@pytest.mark.parametrize(("temperatures", "scale"), [("scaled", 1.0), ("published", 1e4)])
def test_the_chains_are_those_of_one_after_the_other(temperatures: Temperatures, scale: float) -> None:
    def energy(points: Points) -> Tensor:
        rows = zip(points.C.tolist(), points.V.tolist(), strict=True)
        return torch.tensor([energy_of(scale, *c, *v) for c, v in rows], dtype=torch.float64)

    rng, region = np.random.default_rng(4), Region(SPACE)
    starts = region.sample(rng, CHAINS)
    at_first = energy(starts).numpy()
    first, last = (at_first.std(ddof=1), at_first.std(ddof=1) / 1000) if temperatures == "scaled" else (25_000.0, 2.5)
    draws = [
        (
            rng.integers(4, size=CHAINS),
            rng.standard_normal(CHAINS),
            rng.random(CHAINS),
            rng.standard_exponential(CHAINS),
        )
        for _ in range(ROUNDS)
    ]
    chains = np.array(draws).transpose(2, 0, 1)
    rows = [[*c, *v] for c, v in zip(starts.C.tolist(), starts.V.tolist(), strict=True)]
    expected = sorted(anneal_one(scale, row, first, last, chain) for row, chain in zip(rows, chains, strict=True))
    points, values = anneal(energy, region, np.random.default_rng(4), temperatures, ROUNDS * CHAINS + CHAINS - 1)
    actual = np.column_stack([values, points.C, points.V])
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)
