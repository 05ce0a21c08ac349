"""What optimizers share whose suggestions another package makes.

The package's own objects are built anew in every ask: from the history, from what is pending, and with a seed of that
ask's own. So nothing of the package's lives from one ask to the next, and a run that is restored goes on exactly.

No package is told of constraints. What it suggests is taken if it is feasible; else its next suggestion is,
LOOKED_AT of them in all; then chance chooses, and the trial says so.
"""

import logging
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import ClassVar

import numpy as np

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.isolation import PrivateRandomState
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import FALLBACK, RANDOM

LOOKED_AT = 20
"""How many suggestions of a package are looked at before it is taken to have no feasible one."""


class WrappedOptimizer(Optimizer):
    """Base of optimizers that ask a package. Raises OptimizerError where it is not installed.

    name: the optimizer's, in the registry. package: what it needs.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    def __init__(
        self, space: Space, *, seed: int = 0, epochs: int = 1, initial_design: Sequence[Configuration] = ()
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        with silent(self.package):
            optional_module(self.package, f"optimizer {self.name}", OptimizerError)

    @abstractmethod
    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """What the package suggests, the best first, feasible or not; all that is random derives from the seed."""

    def tried(self) -> list[tuple[Trial, float | None]]:
        """Each trial with its objective, or None while it is pending, in the order asked."""
        told: list[tuple[Trial, float | None]] = [(trial, result.objective) for trial, result in self.history]
        return sorted([*told, *((trial, None) for trial in self.pending.values())], key=lambda pair: pair[0].id)

    def _random_state(self, rng: np.random.Generator) -> PrivateRandomState:
        """What a package draws from where it takes a global state: of this ask alone."""
        return PrivateRandomState(int(rng.integers(2**32)))

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        with self._random_state(rng).inside(), silent(self.package):
            looked_at = 0
            for suggestion in islice(self.suggestions(int(rng.integers(2**31))), LOOKED_AT):
                if self.space.meets_constraints(suggestion.configuration, strictly=True):
                    return suggestion
                looked_at += 1
        note = f"{self.package} had nothing left to suggest and chance chose"
        if looked_at:
            note = f"none of the suggestions of {self.package} was feasible and chance chose"
        return Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=FALLBACK)


@contextmanager
def silent(package: str) -> Iterator[None]:
    """Without the package's log, and without warnings: what a user should know of an ask stands in its trial."""
    logger = logging.getLogger(package)
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)
