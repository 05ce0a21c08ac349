"""Many box-constrained minimisations advanced together: a projected L-BFGS in batch.

Each of B problems keeps its own memory and step length; those that have converged drop out of the batch. Directions
come from the two-loop recursion (Nocedal & Wright, Algorithm 7.4) on the variables that are not held at a bound; the
step is projected onto the box and halved until it decreases enough (Armijo).

| symbol | shape | meaning |
|---|---|---|
| x | [B, d] | points |
| f, g | [B], [B, d] | values and gradients |
| s, y | [m, B, d] | the last m steps and changes of gradient |
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(x [b, d], which [b]) -> (f [b], g [b, d]); `which` says which of the B problems the rows are. f may be inf."""

MEMORY = 10
ARMIJO = 1e-4
HALVINGS = 20


@dataclass
class _State:
    """The problems still running: `which` [b] of the B, and their x, f, g, memory."""

    which: Tensor
    x: Tensor
    f: Tensor
    g: Tensor
    s: list[Tensor]
    y: list[Tensor]

    def keep(self, rows: Tensor) -> None:
        self.which, self.x, self.f, self.g = self.which[rows], self.x[rows], self.f[rows], self.g[rows]
        self.s = [s[rows] for s in self.s]
        self.y = [y[rows] for y in self.y]


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
    state = _State(which, x, f, g, [], [])
    best_f[which] = f
    state.keep(torch.isfinite(f))
    for _ in range(iterations):
        if len(state.which) == 0:
            break
        direction = _direction(state, box)
        x, f, g, moved = _line_search(objective, state, direction, box)
        gain = state.f - f
        _remember(state, x - state.x, g - state.g)
        state.x, state.f, state.g = x, f, g
        best_x[state.which], best_f[state.which] = x, f
        state.keep(moved & (gain > tolerance * f.abs().clamp(min=1.0)))
    return best_x, best_f


def _direction(state: _State, box: Box) -> Tensor:
    """A descent direction [b, d]: the two-loop recursion, or steepest descent where that does not descend."""
    free = box.free(state.x, state.g)
    q = torch.where(free, state.g, 0.0)
    steepest = q
    coefficients = []
    for s, y in zip(reversed(state.s), reversed(state.y), strict=True):
        sy = (s * y).sum(-1)
        usable = sy > 0
        coefficient = torch.where(usable, (s * q).sum(-1) / torch.where(usable, sy, 1.0), 0.0)
        q = q - coefficient[:, None] * y
        coefficients.append((coefficient, usable, sy))
    q = _scale(state, steepest)[:, None] * q
    for (coefficient, usable, sy), s, y in zip(reversed(coefficients), state.s, state.y, strict=True):
        correction = torch.where(usable, (y * q).sum(-1) / torch.where(usable, sy, 1.0), 0.0)
        q = q + (coefficient - correction)[:, None] * s
    q = torch.where(free, q, 0.0)
    descends = (q * steepest).sum(-1) > 1e-12 * steepest.norm(dim=-1) * q.norm(dim=-1)
    return -torch.where(descends[:, None], q, _unit(steepest))


def _scale(state: _State, steepest: Tensor) -> Tensor:
    """Initial inverse Hessian gamma = s.y / y.y of the last step [b]; a short first step without one."""
    short = 1.0 / steepest.norm(dim=-1).clamp(min=1.0)
    if not state.s:
        return short
    s, y = state.s[-1], state.y[-1]
    sy, yy = (s * y).sum(-1), (y * y).sum(-1)
    return torch.where((sy > 0) & (yy > 0), sy / yy.clamp(min=1e-300), short)


def _unit(v: Tensor) -> Tensor:
    return v / v.norm(dim=-1, keepdim=True).clamp(min=1.0)


def _line_search(
    objective: Objective, state: _State, direction: Tensor, box: Box
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x, f, g, moved): the first of the steps 1, 1/2, 1/4, ... that decreases enough; the old point if none does."""
    x, f, g = state.x.clone(), state.f.clone(), state.g.clone()
    moved = torch.zeros(len(f), dtype=torch.bool)
    waiting = torch.arange(len(f))
    step = 1.0
    for _ in range(HALVINGS):
        trial = box.clip(state.x[waiting] + step * direction[waiting])
        trial_f, trial_g = objective(trial, state.which[waiting])
        predicted = (state.g[waiting] * (trial - state.x[waiting])).sum(-1)
        good = torch.isfinite(trial_f) & (trial_f <= state.f[waiting] + ARMIJO * predicted) & (predicted < 0)
        rows = waiting[good]
        x[rows], f[rows], g[rows], moved[rows] = trial[good], trial_f[good], trial_g[good], True
        waiting = waiting[~good]
        if len(waiting) == 0:
            break
        step *= 0.5
    return x, f, g, moved


def _remember(state: _State, s: Tensor, y: Tensor) -> None:
    state.s, state.y = [*state.s, s][-MEMORY:], [*state.y, y][-MEMORY:]
