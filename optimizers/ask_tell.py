"""Adapter of any object with `ask() -> configuration` and `tell(configuration, objective)` to the Optimizer contract.

    def make(space, seed, step=0.1):          # step: an option, which a configuration may set
        return Search(space, np.random.default_rng(seed), step)    # or two functions: ask, tell

The adapter numbers the trials, tracks the pending ones, and starts from the shared initial design, which it reports to
the object by `tell`. The objective is minimised. `ask` may return None to wait for the next `tell`; it must then leave
the object unchanged, because that ask is not recorded.

The object's state is not recorded. To restore it, the adapter builds a new one and repeats the recorded asks and tells.
So suggestions must depend on the seed and the results alone. `random`, `numpy.random` and torch's default generator are
private to the object and begin with its seed; import torch at the top of a module, not within a function.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion
from fmnas.search_spaces import Configuration, Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.records import MODEL


class NonReproducibleError(FmnasError):
    """An optimizer that is restored by asking it again suggests something else than was recorded."""


class ReplayedOptimizer(Optimizer):
    """Base of optimizers whose state follows only from their own asks and tells: `restore` asks again."""

    def restore(self, trial: Trial) -> None:
        """Ask again. Raises NonReproducibleError unless the suggestion is the recorded one."""
        if trial.id != self._asked:
            super().restore(trial)  # raises
        try:
            again = self.ask()
        except Exception as error:  # of a user's code
            raise NonReproducibleError(f"trial {trial.id}: ask() failed ({type(error).__name__}: {error})") from error
        if again is None or again.configuration != trial.configuration:
            configuration = again and again.configuration
            raise NonReproducibleError(
                f"trial {trial.id}: ask() returned {configuration}, the journal has {trial.configuration}: not "
                "reproducible. Suggestions must depend on the seed and the results alone; `fmnas check` tests it. The "
                "finished trials are kept: see `fmnas report`"
            )
        self.pending[trial.id] = trial


class AskTellOptimizer(ReplayedOptimizer):
    """An object that asks and tells. make: a factory of it, or of its two functions, as `is_factory` says."""

    make: ClassVar[Callable[..., Any]]

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] = (),
        **options: Any,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self._random = IsolatedRNG(seed)
        with self._random.activate():
            made = self.make(space, seed, **options)
        pair = made if isinstance(made, tuple) else (getattr(made, "ask", None), getattr(made, "tell", None))
        if len(pair) != 2 or not all(map(callable, pair)):
            raise OptimizerError(
                f"{type(self).__name__} returned {made!r}: return an object with ask() and tell(configuration, "
                "objective), or the two functions"
            )
        self._object_ask, self._object_tell = pair

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        with self._random.activate():
            configuration = self._object_ask()
        if configuration is None:
            return None
        if not isinstance(configuration, Mapping):
            raise OptimizerError(
                f"{type(self).__name__}: ask() returned {configuration!r}: it must return a mapping with a value for "
                f"each of {', '.join(self.space.names)}"
            )
        return Suggestion(dict(configuration), MODEL)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        with self._random.activate():
            self._object_tell(dict(trial.configuration), evaluation.objective)


def is_factory(target: Any) -> bool:
    """Whether it is a function, or a class with ask and tell."""
    return callable(target) and (not isinstance(target, type) or (hasattr(target, "ask") and hasattr(target, "tell")))


def optimizer_from_factory(make: Callable[..., Any]) -> type[AskTellOptimizer]:
    """The optimizer class around the objects that `make(space, seed, **options)` builds."""
    return type(getattr(make, "__name__", type(make).__name__), (AskTellOptimizer,), {"make": staticmethod(make)})
