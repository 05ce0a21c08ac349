"""Slice sampling of one variable at a time, with the doubling procedure (Neal 2003, Figures 4 to 6)."""

from collections.abc import Callable

import numpy as np

MAX_DOUBLINGS = 10


def slice_sample(
    log_density: Callable[[float], float],
    x: float,
    width: float,
    rng: np.random.Generator,
    published_error: bool = False,
) -> float:
    """Return the next state of a Markov chain that leaves a density unchanged, unless `published_error`.

    log_density: up to a constant; -inf outside the support. x: the state, inside it. width: of the first interval.
    published_error: double as HyBO's code does, which takes the density of the lower end for that of the upper one.
    """
    level = log_density(x) - rng.exponential()

    def is_inside(at: float) -> bool:
        return log_density(at) > level

    left = x - width * rng.random()
    right = left + width
    is_left, is_right = is_inside(left), is_inside(right)
    for _ in range(MAX_DOUBLINGS):
        if not (is_left or is_right):
            break
        if rng.random() < 0.5:
            left -= right - left
            is_left = is_inside(left)
        else:
            right += right - left
            is_right = is_inside(left if published_error else right)

    def is_reachable(candidate: float) -> bool:
        """Whether doubling from the candidate could have made the same interval, which keeps the chain reversible."""
        low, high, differs = left, right, False
        while high - low > 1.1 * width:
            middle = 0.5 * (low + high)
            differs |= (x < middle) != (candidate < middle)
            low, high = (low, middle) if candidate < middle else (middle, high)
            if differs and not is_inside(low) and not is_inside(high):
                return False
        return True

    low, high = left, right
    while True:
        candidate = low + (high - low) * rng.random()
        if is_inside(candidate) and is_reachable(candidate):
            return candidate
        if candidate == x:  # the interval has shrunk to the state: rounding
            return x
        low, high = (candidate, high) if candidate < x else (low, candidate)
