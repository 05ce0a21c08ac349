"""The base class of optimizers whose suggestions come from an external package.

Every ask builds the package's objects from the history, the pending trials and a seed of that ask, so that a restored
run continues exactly. Packages do not know the constraints of a space: the first feasible of MAX_REJECTED suggestions
is used; otherwise the suggestion is random, and the trial's note states it.
"""

import logging
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar

import numpy as np

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.search_spaces import Space, Trial
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import FALLBACK, RANDOM

MAX_REJECTED = 20
"""Infeasible suggestions of a package per ask before the suggestion is random."""


class WrappedOptimizer(Optimizer):
    """Base class of optimizers that use a package. Raises OptimizerError if it is not installed.

    name: the optimizer's name in the registry. package: the required package.
    """

    name: ClassVar[str]
    package: ClassVar[str]

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        with suppress_logs(self.package):
            optional_module(self.package, f"optimizer {self.name}", OptimizerError)

    @abstractmethod
    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Yield the package's suggestions, best first, feasible or not; all random draws derive from the seed."""

    def all_trials(self) -> list[tuple[Trial, float | None]]:
        """Return all trials with their objectives (None: pending), in the order asked."""
        objectives = {trial.id: result.objective for trial, result in self.history}
        trials = sorted([*(trial for trial, _ in self.history), *self.pending.values()], key=lambda trial: trial.id)
        return [(trial, objectives.get(trial.id)) for trial in trials]

    def _isolated_rng(self, rng: np.random.Generator) -> IsolatedRNG:
        """Return the global random states that the package uses in this ask."""
        return IsolatedRNG(int(rng.integers(2**32)))

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        with self._isolated_rng(rng).activate(), suppress_logs(self.package):
            rejected = 0
            for suggestion in islice(self.suggestions(int(rng.integers(2**31))), MAX_REJECTED):
                if self.space.meets_constraints(suggestion.configuration, strictly=True):
                    return suggestion
                rejected += 1
        problem = f"{rejected} suggestions were infeasible" if rejected else "no suggestion left"
        note = f"{self.package}: {problem}; random configuration instead"
        return Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=FALLBACK)


@contextmanager
def suppress_logs(package: str) -> Iterator[None]:
    """Suppress warnings and the log of a package: the trial's note has what a user needs to know."""
    logger = logging.getLogger(package)
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logger.setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            logger.setLevel(level)
