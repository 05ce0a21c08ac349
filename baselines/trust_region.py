"""A trust region of a mixed space: a box and a Hamming ball that grow and shrink together (Wan et al. 2021).

After `rules.successes` successes in a row both lengths grow by `rules.factor`, after `rules.failures` failures in a row
they shrink by it; the Hamming length is a whole number, rounded down. The region is exhausted once one of them is as
short as it may be: the search begins anew elsewhere.
"""

import math
from dataclasses import dataclass, replace

from fmnas.search_spaces import Space

GAIN = 1e-3  # of the best so far: an improvement by less is a failure


@dataclass(frozen=True)
class Length:
    """A length's first value and its bounds."""

    first: float
    least: float
    most: float

    def clip(self, value: float) -> float:
        """The nearest that it may be."""
        return min(max(value, self.least), self.most)


@dataclass(frozen=True)
class GrowthRules:
    """box: side of the box, in unit-cube lengths. ball: how many discrete variables may differ from the centre."""

    box: Length
    ball: Length
    factor: float = 1.5
    successes: int = 3
    failures: int = 40

    @classmethod
    def of(cls, space: Space) -> "GrowthRules":
        """The authors' rules, but for the ball: from 80% of the P discrete variables, and to all of them at most.

        The authors set it for each problem, for small ones to more than P, where it bounds nothing. This is what MCBO
        (Dreczkowski et al. 2023) has in its place.
        """
        P = len(space.discrete)
        return cls(Length(0.8, 2.0**-7, 1.6), Length(math.ceil(0.8 * P), min(P, 1), P))


@dataclass(frozen=True)
class TrustRegion:
    """side: of the box. radius: of the ball. successes, failures: the last results that were such, in a row."""

    rules: GrowthRules
    side: float
    radius: int
    successes: int = 0
    failures: int = 0

    @classmethod
    def first(cls, rules: GrowthRules) -> "TrustRegion":
        """As it is at the beginning."""
        return cls(rules, rules.box.first, int(rules.ball.first))

    @property
    def exhausted(self) -> bool:
        """Whether it is as short as it may be; a ball that began so, with one discrete variable, does not count."""
        box, ball = self.rules.box, self.rules.ball
        return self.side <= box.least or ball.first > ball.least >= self.radius

    def after(self, success: bool) -> "TrustRegion":
        """The region after one more result."""
        rules = self.rules
        successes, failures = (self.successes + 1, 0) if success else (0, self.failures + 1)
        if successes == rules.successes:
            side, radius = self.side * rules.factor, self.radius * rules.factor
        elif failures == rules.failures:
            side, radius = self.side / rules.factor, self.radius / rules.factor
        else:
            return replace(self, successes=successes, failures=failures)
        return TrustRegion(rules, rules.box.clip(side), int(rules.ball.clip(radius)))


def is_success(objective: float, best: float) -> bool:
    """Whether a result improves on the best before it, by a thousandth of that."""
    return objective <= best - GAIN * abs(best)
