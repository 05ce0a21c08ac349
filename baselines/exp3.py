"""EXP3 (Auer et al. 2002): one bandit per discrete variable draws its values in CoCaBO (Ru et al. 2020), and two draw
graphs in GEBO (gebo.py).

| symbol | shape | meaning |
|---|---|---|
| C | | number of values of a variable, the arms of its bandit |
| T | | total number of pulls |
| gamma | | share of exploring pulls |
| w | [C] | weights |
| p | [C] | probabilities: (1 - gamma) w / sum w + gamma / C |

A reward g multiplies the weight of its arm by exp(g gamma / (p C)).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

MAX_LOG_WEIGHT = 30.0
"""Logarithms of weights are clipped to [-30, 30]."""


def exploration_rate(arms: int, pulls: int) -> float:
    """Return gamma = sqrt(C ln C / ((e - 1) (2/3) T)), at most 1 (CoCaBO's code has no bound)."""
    return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1.0) * (2.0 / 3.0) * pulls)))


@dataclass(frozen=True)
class EXP3:
    """A bandit. log_weights: log w [C]."""

    gamma: float
    log_weights: Floats

    @property
    def probabilities(self) -> Floats:
        """p [C]."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray((1.0 - self.gamma) * weights / weights.sum() + self.gamma / len(weights))

    def update(self, arm: int, reward: float, probability: float) -> "EXP3":
        """Return the bandit after a pull of an arm, which had this probability when it was drawn."""
        return self.add_rewards({arm: reward / probability})

    def add_rewards(self, estimates: Mapping[int, float]) -> "EXP3":
        """Return the bandit after rewards of some arms, each divided by the probability of receiving it."""
        log_weights = self.log_weights.copy()
        for arm, estimate in estimates.items():
            log_weights[arm] += estimate * self.gamma / len(log_weights)
        return replace(self, log_weights=log_weights.clip(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT))

    def reset_arm(self, arm: int) -> "EXP3":
        """Return the bandit with the weight 1 of an arm, and the others scaled such that all sum to C."""
        weights = np.exp(self.log_weights)
        weights[arm] = 0.0
        weights *= (len(weights) - 1) / max(weights.sum(), 1e-300)
        weights[arm] = 1.0
        return replace(self, log_weights=np.log(weights).clip(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT))


class Bandits:
    """One bandit per discrete variable of a space, and the best result of each value.

    The reward of a value is its best result (the largest minus-objective), scaled so that the lowest best result of any
    value of any variable is -1 and the highest is 1. The authors do not scale it, which suits objectives of order 1.
    MCBO scales by the worst and the best of all results; a very bad worst result then makes all rewards nearly equal.
    Here such a result has this effect only while it is the best of its value.
    """

    def __init__(self, space: Space, pulls: int) -> None:
        sizes = [len(variable.vertices) for variable in space.discrete]
        self.bandits = [EXP3(exploration_rate(size, pulls), np.zeros(size)) for size in sizes]
        self._best = [np.full(size, np.nan) for size in sizes]

    def probabilities(self, vertices: Sequence[int]) -> tuple[float, ...]:
        """Return those of values [P] now."""
        pairs = zip(self.bandits, vertices, strict=True)
        return tuple(float(bandit.probabilities[arm]) for bandit, arm in pairs)

    def tell(self, vertices: Sequence[int], result: float, drawn_with: Sequence[float] | None) -> None:
        """Record the result (larger is better) of values [P].

        drawn_with: their probabilities when these bandits drew them; None if they did not.
        """
        for arm, best in zip(vertices, self._best, strict=True):
            best[arm] = np.fmax(best[arm], result)
        if not drawn_with:
            return
        least, largest = (float(extreme(np.concatenate(self._best))) for extreme in (np.nanmin, np.nanmax))
        for p, (arm, best) in enumerate(zip(vertices, self._best, strict=True)):
            reward = 2.0 * (best[arm] - least) / (largest - least) - 1.0 if largest > least else 0.0
            self.bandits[p] = self.bandits[p].update(arm, reward, drawn_with[p])

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Draw values [count, P]."""
        columns = [rng.choice(len(bandit.log_weights), size=count, p=bandit.probabilities) for bandit in self.bandits]
        return np.array(columns, dtype=np.int64).reshape(len(columns), count).T
