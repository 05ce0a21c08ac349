"""A bracket of DEHB: where it is in its rungs, and the members of its subpopulations that it promotes."""

from dataclasses import dataclass
from math import inf

from fmnas.baselines.differential_evolution import Point


@dataclass(frozen=True)
class Member:
    """A point in a subpopulation. trial: the one that evaluates it, None: not asked yet; objective: inf until known."""

    u: Point
    trial: int | None = None
    objective: float = inf


class Bracket:
    """A run of successive halving, at one of its rungs. free, running: trials of this rung to ask, and pending."""

    def __init__(self, first: int, sizes: tuple[int, ...], *, promotes: bool) -> None:
        """first: the number of its first rung. promotes: whether the next rungs begin with the best of the last."""
        self.first, self.sizes, self.promotes = first, sizes, promotes
        self.rung, self.free, self.running = first, sizes[0], 0
        self.promotions: list[Member] | None = None
        self.is_finished = False

    @property
    def size(self) -> int:
        """Number of trials of its rung."""
        return self.sizes[self.rung - self.first]

    def advance(self) -> None:
        """Go to the next rung if all trials of this one have ended."""
        if self.free or self.running or self.is_finished:
            return
        self.is_finished = self.rung + 1 == self.first + len(self.sizes)
        if not self.is_finished:
            self.rung, self.promotions = self.rung + 1, None
            self.free = self.size
