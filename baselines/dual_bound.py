"""A lower bound of a drawn function u' W v over a mixed space, by MiVaBO's dual decomposition (App. D, E).

The function is the sum of its discrete part and F factors, one per Fourier feature,

    factor_j(x, c) = sqrt(2 / F) cos(omega_j c + shift_j) waves_j(x)

Each factor has its own copy (x_j, c_j) of the variables, tied to the common one by multipliers (l_j, k_j). Without the
ties, minima are exact and their sum bounds the minimum from below, whatever the multipliers:

    min_x [discrete(x) + x sum_j l_j] + min_c [c sum_j k_j] + sum_j min_(x, c) [factor_j(x, c) - l_j x - k_j c]

It is maximised by subgradients with Polyak's steps, from the best known point. If the gap between that point's value
and the bound is zero, the point is certified as the minimum; in general a gap remains.

Unlike in the paper, the purely continuous part belongs to the factors, since a sum of cosines has no exact oracle. One
cosine has: along the lower boundary of {(omega c, -k c)}, a convex path with a corner per variable, the factor is a
cosine plus a line on each piece. Constraints with a Real are ignored in the bound, which remains one, and hold in the
result.

| symbol | shape | meaning |
|---|---|---|
| N, b, D, F, V, X, W | | as in binary_codes.py and linear_model.py |
| l, k | [F, b], [F, D] | multipliers |
| a | [N, F] | amplitude of each factor at each combination of values |
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fmnas.baselines.binary_codes import BinaryCodes
from fmnas.baselines.linear_model import Features, LinearFunction
from fmnas.optimizers.gp.points import Points

DUAL_STEPS = 200
CERTIFIED = 1e-6
"""Largest gap of a certified minimum, relative to max(1, |value|)."""
PATIENCE = 10
"""Dual steps without a better bound until the steps are halved."""
LARGEST_DUAL = 4096
"""Combinations of discrete values: a dual step takes milliseconds for hundreds."""


class DualProblem:
    """The dual of the minimization of a function over a space with a list of all combinations of values."""

    def __init__(self, f: LinearFunction, codes: BinaryCodes) -> None:
        assert codes.vertices is not None
        self._features, self._vertices, self._X = f.features, codes.vertices, codes.encode(codes.vertices)
        waves = f.waves(self._X)
        self._discrete, self._a = waves[:, 0], f.features.scale * waves[:, 1:]

    def maximise(self, upper: float) -> tuple[float, Points]:
        """Return the best bound found, and a point from each step: the common x and the mean of the copies of c.

        upper: the least known value, at which the search ends.
        """
        F, D = self._features.omega.shape
        l, k = torch.zeros(F, self._X.shape[1], dtype=torch.float64), torch.zeros(F, D, dtype=torch.float64)  # noqa: E741
        best, since, factor, V, C = -math.inf, 0, 1.0, [], []
        for _ in range(DUAL_STEPS):
            step = self.relax(l, k)
            V.append(self._vertices[step.n])
            C.append(step.copies.mean(0) if F else torch.zeros(D, dtype=torch.float64))
            since = 0 if step.bound > best + CERTIFIED * abs(upper) else since + 1
            best = max(best, step.bound)
            square = float(step.by_l.square().sum() + step.by_k.square().sum())
            if upper - best <= CERTIFIED * max(1.0, abs(upper)) or square == 0.0:
                break
            if since == PATIENCE:
                since, factor = 0, factor / 2.0
            length = factor * (upper - step.bound) / square
            l, k = l + length * step.by_l, k + length * step.by_k  # noqa: E741
        return best, Points(torch.stack(C), torch.stack(V))

    def relax(self, l: Tensor, k: Tensor) -> "Relaxation":  # noqa: E741
        """Solve the untied problems for multipliers l [F, b], k [F, D]."""
        common = self._discrete + self._X @ l.sum(0)
        n, total = int(common.argmin()), k.sum(0)
        c = (total < 0).double()
        least, t = least_waves(self._features, self._a, k)  # [N, F] each
        shifted = least - self._X @ l.T
        rows, columns = shifted.argmin(0), torch.arange(len(k))
        copies = points_on_path(self._features, k, t[rows, columns])
        bound = float(common[n] + c @ total + shifted[rows, columns].sum())
        return Relaxation(bound, n, copies, self._X[n] - self._X[rows], c - copies)


@dataclass(frozen=True)
class Relaxation:
    """The minima of the untied problems.

    bound: their sum. n: the number of the common x. copies [F, D]: those of c. by_l, by_k: supergradients of the bound.
    """

    bound: float
    n: int
    copies: Tensor
    by_l: Tensor
    by_k: Tensor


def least_waves(features: Features, a: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Return the minima over the cube of a cos(omega c + shift) - k c [N, F], and their phases omega c + shift.

    The path of the least -k c for each phase has D pieces. In a piece from t to t', with slope m, the cosine plus a
    line is least at an end or where sin = m / a and a cos < 0, once per period.
    """
    t, h, slope = _path(features, k)  # [F, D + 1], [F, D + 1], [F, D]
    ends = a[..., None] * t.cos() + h  # [N, F, D + 1]
    least, where = ends.min(-1) if t.shape[1] else (a, a)
    phase = t.expand_as(ends).gather(-1, where[..., None])[..., 0]
    ratio = slope / torch.where(a == 0.0, 1e-300, a)[..., None]  # [N, F, D]
    turn = ratio.clamp(-1.0, 1.0).asin()
    turn = torch.where(a[..., None] > 0.0, math.pi - turn, turn)
    first = turn + 2.0 * math.pi * ((t[:, :-1] - turn) / (2.0 * math.pi)).ceil()
    longest = float((t[:, 1:] - t[:, :-1]).max()) if slope.numel() else 0.0
    for period in range(math.floor(longest / (2.0 * math.pi)) + 1 if slope.numel() else 0):
        inside = first + 2.0 * math.pi * period
        value = a[..., None] * inside.cos() + h[:, :-1] + slope * (inside - t[:, :-1])
        value = torch.where((inside <= t[:, 1:]) & (ratio.abs() <= 1.0), value, torch.inf)
        lowest, piece = value.min(-1)
        better = lowest < least
        phase = torch.where(better, inside.gather(-1, piece[..., None])[..., 0], phase)
        least = torch.where(better, lowest, least)
    return least, phase


def _path(features: Features, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the phases t [F, D + 1] and least -k c there, h [F, D + 1], at the corners; the slopes [F, D] between."""
    length = features.omega.abs().clamp(min=1e-12)
    backward = features.omega < 0.0  # these variables go from 1 to 0
    gain = torch.where(backward, k, -k)
    slope, order = (gain / length).sort(dim=-1, stable=True)
    start = torch.stack([features.shift + torch.where(backward, features.omega, 0.0).sum(-1), -(k * backward).sum(-1)])
    steps = torch.stack([length.gather(-1, order), gain.gather(-1, order)])
    t, h = torch.cat([start[..., None], start[..., None] + steps.cumsum(-1)], -1)
    return t, h, slope


def points_on_path(features: Features, k: Tensor, phase: Tensor) -> Tensor:
    """Return the points c [F, D] of the path at phases [F]."""
    length = features.omega.abs().clamp(min=1e-12)
    backward = features.omega < 0.0
    order = (torch.where(backward, k, -k) / length).argsort(dim=-1, stable=True)
    t, _, _ = _path(features, k)
    share = ((phase[:, None] - t[:, :-1]) / length.gather(-1, order)).clamp(0.0, 1.0)
    c = torch.zeros_like(share).scatter(-1, order, share)
    return torch.where(backward, 1.0 - c, c)
