"""Batched box-constrained minimisation by projected BFGS.

Each of B problems has a separate inverse Hessian and step length; converged problems leave the batch. The direction is
quasi-Newton on the variables that are not at an active bound (BFGS, Nocedal & Wright, Eq. 6.17 and 6.20: with some tens
of variables a dense matrix takes far fewer operations than limited memory); the step is projected onto the box and
reduced until the decrease suffices (Armijo).

| symbol | shape | meaning |
|---|---|---|
| x | [B, d] | points |
| f, g | [B], [B, d] | values and gradients |
| H | [B, d, d] | approximation of the inverse Hessian |
| s, y | [B, d] | the last step and its change of gradient |
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(x [b, d], which [b]) -> (f [b], g [b, d]); `which`: the problems of the rows. f may be inf."""

ARMIJO = 1e-4
MAX_REDUCTIONS = 10  # of a step


@dataclass
class _State:
    """The active problems `which` [b] with their x, f, g, H; `curved` [b]: whether H was updated."""

    which: Tensor
    x: Tensor
    f: Tensor
    g: Tensor
    H: Tensor
    curved: Tensor

    def keep(self, rows: Tensor) -> None:
        if not rows.all():
            self.which, self.x, self.f, self.g = self.which[rows], self.x[rows], self.f[rows], self.g[rows]
            self.H, self.curved = self.H[rows], self.curved[rows]


@dataclass(frozen=True)
class Box:
    """Bounds [d] of the variables."""

    lower: Tensor
    upper: Tensor

    def clip(self, x: Tensor) -> Tensor:
        """Project x onto the box."""
        return torch.minimum(torch.maximum(x, self.lower), self.upper)

    def free(self, x: Tensor, g: Tensor) -> Tensor:
        """Return which variables [B, d] are not at an active bound."""
        return ~(((x <= self.lower) & (g > 0)) | ((x >= self.upper) & (g < 0)))


def minimise(
    objective: Objective, start: Tensor, box: Box, *, iterations: int = 200, tolerance: float = 1e-8
) -> tuple[Tensor, Tensor]:
    """Minimise from each start [B, d]; return the points [B, d] and their values [B].

    A problem ends if an iteration gains less than `tolerance` relative to max(|f|, 1), if its projected gradient
    vanishes, or after `iterations`. No returned point is worse than its start.
    """
    x = box.clip(start)
    which = torch.arange(len(x))
    f, g = objective(x, which)
    best_x, best_f = x.clone(), f.clone()
    H = torch.eye(x.shape[1], dtype=x.dtype).repeat(len(x), 1, 1)
    state = _State(which, x, f, g, H, torch.zeros(len(x), dtype=torch.bool))
    state.keep(torch.isfinite(f))
    for _ in range(iterations):
        if len(state.which) == 0:
            break
        direction = _direction(state, box)
        promising = -0.5 * (state.g * direction).sum(-1) > 0.1 * tolerance * state.f.abs().clamp(min=1.0)
        state.keep(promising)  # of the others, the predicted gain of the full step is not worth an evaluation
        direction = direction[promising]
        if len(direction) == 0:
            break
        x, f, g, moved = _line_search(objective, state, direction, box)
        gain = state.f - f
        _update(state, x - state.x, g - state.g)
        state.x, state.f, state.g = x, f, g
        best_x[state.which], best_f[state.which] = x, f
        state.keep(moved & (gain > tolerance * f.abs().clamp(min=1.0)))
    return best_x, best_f


def _direction(state: _State, box: Box) -> Tensor:
    """Return a descent direction [b, d]: quasi-Newton, or a short gradient step if that does not descend."""
    free = box.free(state.x, state.g)
    steepest = torch.where(free, state.g, 0.0)
    newton = torch.where(free, (state.H @ steepest[..., None])[..., 0], 0.0)
    short = steepest / steepest.norm(dim=-1, keepdim=True).clamp(min=1.0)
    descends = (newton * steepest).sum(-1) > 1e-12 * steepest.norm(dim=-1) * newton.norm(dim=-1)
    return -torch.where((descends & state.curved)[:, None], newton, short)


def _update(state: _State, s: Tensor, y: Tensor) -> None:
    """Update H by BFGS if the curvature along the step is positive; before the first update H is scaled by s.y / y.y.

    Variables that did not move are at a bound; their gradients are ignored.
    """
    y = torch.where(s != 0.0, y, 0.0)
    sy, yy = (s * y).sum(-1), (y * y).sum(-1)
    usable = sy > 1e-10 * s.norm(dim=-1) * yy.sqrt()
    rho = torch.where(usable, sy, 1.0).reciprocal()
    H = torch.where(state.curved[:, None, None], state.H, state.H * (sy / yy.clamp(min=1e-300))[:, None, None])
    Hy = (H @ y[..., None])[..., 0]
    scaled = rho[:, None] * s
    curvature = (1.0 + rho * (y * Hy).sum(-1))[:, None] * scaled - rho[:, None] * Hy
    H = H + curvature[:, :, None] * s[:, None] - scaled[:, :, None] * Hy[:, None]
    state.H = torch.where(usable[:, None, None], H, state.H)
    state.curved = state.curved | usable


def _line_search(
    objective: Objective, state: _State, direction: Tensor, box: Box
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return (x, f, g, moved) of the first step with a sufficient decrease; the old point if no step has.

    A step that is too long is reduced to the minimum of the parabola through the two values and the derivative, within
    a tenth and a half of the step.
    """
    x, f, g = state.x.clone(), state.f.clone(), state.g.clone()
    moved = torch.zeros(len(f), dtype=torch.bool)
    waiting, step = torch.arange(len(f)), torch.ones_like(f)
    for _ in range(MAX_REDUCTIONS):
        trial = box.clip(state.x[waiting] + step[waiting, None] * direction[waiting])
        trial_f, trial_g = objective(trial, state.which[waiting])
        predicted = (state.g[waiting] * (trial - state.x[waiting])).sum(-1)
        good = torch.isfinite(trial_f) & (trial_f <= state.f[waiting] + ARMIJO * predicted) & (predicted < 0)
        rows = waiting[good]
        x[rows], f[rows], g[rows], moved[rows] = trial[good], trial_f[good], trial_g[good], True
        excess = 2.0 * (trial_f - state.f[waiting] - predicted)
        share = torch.where(torch.isfinite(excess), -predicted / excess.clamp(min=1e-300), 0.1).clamp(0.1, 0.5)
        step[waiting] *= share
        waiting = waiting[~good]
        if len(waiting) == 0:
            break
    return x, f, g, moved
