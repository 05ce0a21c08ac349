"""Adapter of any object with `ask() -> configuration` and `tell(configuration, objective)` to the Optimizer contract.

    def make(space, seed, step=0.1):          # step: an option, which a configuration may set
        return Search(space, np.random.default_rng(seed), step)    # or two functions: ask, tell

The adapter numbers the trials, tracks the pending ones, and starts from the shared initial design, which it reports to
the object by `tell`. The objective is minimised. `ask` may return None to wait for the next `tell`; it must then leave
the object unchanged, because that ask is not recorded.

The object's state is not recorded. To restore it, the adapter builds a new one and repeats the recorded asks and tells.
So suggestions must depend on the seed and the results alone. `random`, `numpy.random` and torch's default generator are
private to the object and begin with its seed.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.options import subclass_with_parameters, yaml_parameters
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
        common = {"epochs": epochs, "initial_design": self.initial_design}
        options |= {name: value for name, value in common.items() if name in signature(self.make).parameters}
        try:
            with self._random.activate():
                made = self.make(space, seed, **options)
        except FmnasError:
            raise
        except Exception as error:  # of a user's code
            raise OptimizerError(f"{type(self).__name__} cannot be built: {type(error).__name__}: {error}") from error
        self._object_ask, self._object_tell = self._get_functions(made)

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

    def _get_functions(self, made: Any) -> tuple[Callable[[], Any], Callable[[Configuration, float], Any]]:
        if isinstance(made, tuple) and len(made) == 2 and all(map(callable, made)):
            return made
        missing = [name for name in ("ask", "tell") if not callable(getattr(made, name, None))]
        if missing:
            raise OptimizerError(
                f"{type(self).__name__} returned {made!r}, which has no {' and no '.join(missing)}: return an object "
                "with ask() and tell(configuration, objective), or the two functions"
            )
        return made.ask, made.tell


def is_factory(target: Any) -> bool:
    """Whether it is a function, or a class with ask and tell, that takes a space and a seed."""
    if isinstance(target, type) and not (hasattr(target, "ask") and hasattr(target, "tell")):
        return False
    try:
        signature(target).bind_partial(None, None)
    except (TypeError, ValueError):  # fewer parameters, not callable, or no signature
        return False
    return True


@cache
def optimizer_from_factory(make: Callable[..., Any]) -> type[AskTellOptimizer]:
    """The optimizer class around the objects that `make(space, seed, **options)` builds."""
    parameters = yaml_parameters(make, leave_out=list(signature(make).parameters)[:2])
    name = getattr(make, "__name__", type(make).__name__)
    return subclass_with_parameters(AskTellOptimizer, name, parameters, make=staticmethod(make))
