"""Random search, the weakest baseline."""

import numpy as np

from fmnas.optimizers import Optimizer, Suggestion
from fmnas.search_spaces.records import RANDOM


class RandomSearch(Optimizer):
    """Uniform draws from the (log-)scaled box and over the vertices, after the initial design."""

    chooses = RANDOM

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), RANDOM)
