"""Many box-constrained minimisations advanced together: a projected BFGS in batch.

Each of B problems keeps its own inverse Hessian and step length; those that have converged drop out of the batch. The
direction is Newton's on the variables that are not held at a bound (BFGS, Nocedal & Wright, Eq. 6.17 and 6.20: with
some tens of variables the dense matrix is a few operations, where limited memory would take hundreds); the step is
projected onto the box and cut until it decreases enough (Armijo).

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
"""(x [b, d], which [b]) -> (f [b], g [b, d]); `which` says which of the B problems the rows are. f may be inf."""

ARMIJO = 1e-4
MOST_CUTS = 10  # of a step


@dataclass
class _State:
    """The problems still running: `which` [b] of the B, and their x, f, g, H; `curved` [b] once H has seen a step."""

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
    """Bounds [d] of every problem's variables."""

    lower: Tensor
    upper: Tensor

    def clip(self, x: Tensor) -> Tensor:
        """x projected onto the box."""
        return torch.minimum(torch.maximum(x, self.lower), self.upper)

    def free(self, x: Tensor, g: Tensor) -> Tensor:
        """Which variables [B, d] are not held at a bound by the gradient."""
        return ~(((x <= self.lower) & (g > 0)) | ((x >= self.upper) & (g < 0)))


def minimise(
    objective: Objective, start: Tensor, box: Box, *, iterations: int = 200, tolerance: float = 1e-8
) -> tuple[Tensor, Tensor]:
    """Minimise from each start [B, d]; returns the points [B, d] and their values [B].

    A problem ends when an iteration gains less than `tolerance` relative to max(|f|, 1), when its projected
    gradient vanishes, or after `iterations`. Never returns a point worse than its start.
    """
    x = box.clip(start)
    best_x, best_f = x.clone(), torch.full((len(x),), torch.inf, dtype=x.dtype)
    which = torch.arange(len(x))
    f, g = objective(x, which)
    H = torch.eye(x.shape[1], dtype=x.dtype).repeat(len(x), 1, 1)
    state = _State(which, x, f, g, H, torch.zeros(len(x), dtype=torch.bool))
    best_f[which] = f
    state.keep(torch.isfinite(f))
    for _ in range(iterations):
        if len(state.which) == 0:
            break
        direction = _direction(state, box)
        promising = -0.5 * (state.g * direction).sum(-1) > 0.1 * tolerance * state.f.abs().clamp(min=1.0)
        if not promising.all():  # what the quadratic model gains by the whole step is not worth an evaluation
            state.keep(promising)
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
    """A descent direction [b, d]: quasi-Newton, or a short step along the gradient where that does not descend."""
    free = box.free(state.x, state.g)
    steepest = torch.where(free, state.g, 0.0)
    newton = torch.where(free, (state.H @ steepest[..., None])[..., 0], 0.0)
    short = steepest / steepest.norm(dim=-1, keepdim=True).clamp(min=1.0)
    descends = (newton * steepest).sum(-1) > 1e-12 * steepest.norm(dim=-1) * newton.norm(dim=-1)
    return -torch.where((descends & state.curved)[:, None], newton, short)


def _update(state: _State, s: Tensor, y: Tensor) -> None:
    """The BFGS update of H where the step saw positive curvature; the first scales it by s.y / y.y before.

    A variable that did not move stands at a bound: what its slope did says nothing of the free ones.
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
    """(x, f, g, moved): the first step that decreases enough; the old point if none does.

    A step too long is cut to where the parabola through the two values and the slope has its minimum, between a tenth
    and a half of it.
    """
    x, f, g = state.x.clone(), state.f.clone(), state.g.clone()
    moved = torch.zeros(len(f), dtype=torch.bool)
    waiting, step = torch.arange(len(f)), torch.ones_like(f)
    for _ in range(MOST_CUTS):
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
