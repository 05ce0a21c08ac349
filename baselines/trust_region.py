"""A trust region of a mixed space: a box and a Hamming ball that grow and shrink together (Wan et al. 2021).

After `rules.successes` consecutive successes both sizes grow by `rules.factor`; after `rules.failures` consecutive
failures they shrink by it. The Hamming radius is rounded down. The region is exhausted once one of them reaches its
minimum; the search then restarts in a new region.
"""

import math
from dataclasses import dataclass, replace

from fmnas.search_spaces import Space

MIN_GAIN = 1e-3  # of a success, relative to the best objective so far


Sizes = tuple[float, float, float]
"""The initial value of a size, its least and its largest one."""


@dataclass(frozen=True)
class GrowthRules:
    """How a region changes. box: side length in the unit cube. ball: Hamming radius."""

    box: Sizes
    ball: Sizes
    factor: float = 1.5
    successes: int = 3
    failures: int = 40

    @classmethod
    def for_space(cls, space: Space) -> "GrowthRules":
        """Return the authors' rules with a ball from 80% to 100% of the P discrete variables.

        The authors set the ball per problem, for small ones above P, where it has no effect. The values here are those
        of MCBO (Dreczkowski et al. 2023).
        """
        P = len(space.discrete)
        return cls((0.8, 2.0**-7, 1.6), (math.ceil(0.8 * P), min(P, 1), P))


@dataclass(frozen=True)
class TrustRegion:
    """A region. side: of the box. radius: of the ball. successes, failures: consecutive ones up to the last result."""

    rules: GrowthRules
    side: float
    radius: int
    successes: int = 0
    failures: int = 0

    @classmethod
    def initial(cls, rules: GrowthRules) -> "TrustRegion":
        """Return a new region."""
        return cls(rules, rules.box[0], int(rules.ball[0]))

    @property
    def is_exhausted(self) -> bool:
        """Whether a size reached its minimum; a ball that started there (one discrete variable) does not count."""
        (_, least_side, _), (initial, least_radius, _) = self.rules.box, self.rules.ball
        return self.side <= least_side or initial > least_radius >= self.radius

    def update(self, success: bool) -> "TrustRegion":
        """Return the region after one more result."""
        rules = self.rules
        successes, failures = (self.successes + 1, 0) if success else (0, self.failures + 1)
        if successes == rules.successes:
            side, radius = self.side * rules.factor, self.radius * rules.factor
        elif failures == rules.failures:
            side, radius = self.side / rules.factor, self.radius / rules.factor
        else:
            return replace(self, successes=successes, failures=failures)
        (_, low, high), (_, least, largest) = rules.box, rules.ball
        return TrustRegion(rules, min(max(side, low), high), int(min(max(radius, least), largest)))


def is_success(objective: float, best: float) -> bool:
    """Return whether a result improves on the best one before it by at least MIN_GAIN."""
    return objective <= best - MIN_GAIN * abs(best)
