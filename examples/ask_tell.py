"""Simulated annealing (Kirkpatrick et al. 1983): a plain object with ask and tell, and a function that creates it.

optimizers: [bo-fm, {name: annealing, use: "examples/ask_tell.py:make", cooling: 0.9}]
"""

import numpy as np


class Annealing:
    """Changes one variable per step; worse results are accepted with decreasing probability."""

    def __init__(self, space, rng, cooling):
        self.space, self.rng, self.cooling = space, rng, cooling
        self.temperature, self.current, self.value = 1.0, None, np.inf

    def ask(self):
        """Return a neighbour of the current configuration: a mapping with a value for each variable."""
        for _ in range(100 if self.current else 0):
            sample, name = self.space.sample(self.rng), str(self.rng.choice(self.space.names))
            neighbour = {**self.current, name: sample[name]}
            if neighbour != self.current and self.space.meets_constraints(neighbour):
                return neighbour
        return self.space.sample(self.rng)

    def tell(self, configuration, objective):
        """Report an objective (smaller is better), also of the shared initial design."""
        chance = np.exp(min(0.0, self.value - objective) / self.temperature) if self.current else 1.0
        if self.rng.random() < chance:
            self.current, self.value = configuration, objective
        self.temperature = max(self.temperature * self.cooling, 1e-12)


def make(space, seed, cooling: float = 0.9):
    """Create the optimizer. All random draws derive from the seed, so that a run can be resumed and replayed."""
    return Annealing(space, np.random.default_rng(seed), cooling)
