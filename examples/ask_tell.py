"""Simulated annealing (Kirkpatrick et al. 1983), written for no platform: an object with ask and tell, and a function.

optimizers: [bo-fm, {name: annealing, use: "examples/ask_tell.py:make", cooling: 0.9}]
"""

import numpy as np


class Annealing:
    """One variable drawn anew each time; worse is accepted, the later the less."""

    def __init__(self, space, rng, cooling):
        self.space, self.rng, self.cooling = space, rng, cooling
        self.temperature, self.current, self.value = 1.0, None, np.inf

    def ask(self):
        """A neighbour of the current configuration: a mapping with a value for each variable."""
        for _ in range(100 if self.current else 0):
            anew, name = self.space.sample(self.rng), str(self.rng.choice(self.space.names))
            neighbour = {**self.current, name: anew[name]}
            if neighbour != self.current and self.space.meets_constraints(neighbour):
                return neighbour
        return self.space.sample(self.rng)

    def tell(self, configuration, objective):
        """The smaller the better. It also hears of the points that all optimizers begin with."""
        chance = np.exp(min(0.0, self.value - objective) / self.temperature) if self.current else 1.0
        if self.rng.random() < chance:
            self.current, self.value = configuration, objective
        self.temperature *= self.cooling


def make(space, seed, cooling: float = 0.9):
    """What fmnas calls. What it draws from `rng` follows from the seed, so a run can be resumed and replayed."""
    return Annealing(space, np.random.default_rng(seed), cooling)
