"""EXP3 (Auer et al. 2002), a bandit for each discrete variable, as CoCaBO draws their values (Ru et al. 2020).

| symbol | shape | meaning |
|---|---|---|
| C | | values of a variable: the arms of its bandit |
| T | | pulls that there will be |
| gamma | | share of pulls that explore |
| w | [C] | weights |
| p | [C] | probabilities: (1 - gamma) w / sum w + gamma / C |

A pull with the reward g multiplies the weight of its arm by exp(g gamma / (p C)).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

LARGEST = 30.0
"""Of the logarithm of a weight, and minus it the smallest."""


def exploration(arms: int, pulls: int) -> float:
    """gamma = sqrt(C ln C / ((e - 1) (2/3) T)), and at most 1, where CoCaBO's code has no bound."""
    return min(1.0, math.sqrt(arms * math.log(arms) / ((math.e - 1.0) * (2.0 / 3.0) * pulls)))


@dataclass(frozen=True)
class EXP3:
    """A bandit. gamma: see above. log_weights: log w [C]."""

    gamma: float
    log_weights: Floats

    @property
    def probabilities(self) -> Floats:
        """p [C]."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray((1.0 - self.gamma) * weights / weights.sum() + self.gamma / len(weights))

    def rewarded(self, arm: int, reward: float) -> "EXP3":
        """The bandit after a pull of an arm."""
        log_weights = self.log_weights.copy()
        log_weights[arm] += reward * self.gamma / (self.probabilities[arm] * len(log_weights))
        return replace(self, log_weights=log_weights.clip(-LARGEST, LARGEST))


class Bandits:
    """A bandit for each discrete variable of a space, and the best that was seen of each of its values.

    The reward of a value is the best of all results that had it (the largest: minus the objective), on a scale from -1,
    the least such best of any value of any variable so far, to 1, the largest. The authors take it as it is, which
    suits an objective of order 1. MCBO scales it by the worst and the best of all results, of which the worst may be so
    bad that the bests of all values are alike and the draws next to uniform.
    """

    def __init__(self, space: Space, pulls: int) -> None:
        sizes = [len(variable.vertices) for variable in space.discrete]
        self.each = [EXP3(exploration(size, pulls), np.zeros(size)) for size in sizes]
        self._best = [np.full(size, np.nan) for size in sizes]

    def tell(self, vertices: Sequence[int], result: float, pulled: bool) -> None:
        """Take a result, the larger the better, of values [P]; pulled: whether these bandits drew them."""
        for arm, best in zip(vertices, self._best, strict=True):
            best[arm] = np.fmax(best[arm], result)
        if not (pulled and self._best):
            return
        least, largest = (float(extreme(np.concatenate(self._best))) for extreme in (np.nanmin, np.nanmax))
        for p, (arm, best) in enumerate(zip(vertices, self._best, strict=True)):
            reward = 2.0 * (best[arm] - least) / (largest - least) - 1.0 if largest > least else 0.0
            self.each[p] = self.each[p].rewarded(arm, reward)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Values [count, P], each variable's by its own bandit."""
        columns = [rng.choice(len(bandit.log_weights), size=count, p=bandit.probabilities) for bandit in self.each]
        return np.array(columns, dtype=np.int64).reshape(len(columns), count).T
