"""Random search: what every method must beat."""

import numpy as np

from fmnas.optimizers import Optimizer, Suggestion
from fmnas.search_spaces.records import RANDOM


class RandomSearch(Optimizer):
    """Uniform on the (log-)scaled box and over the vertices; plays the initial design first."""

    chooses = RANDOM

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), RANDOM)
