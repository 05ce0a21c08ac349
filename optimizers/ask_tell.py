"""Anything with `ask() -> configuration` and `tell(configuration, objective)`, as an optimizer.

    def make(space, seed, step=0.1):          # step: an option, which a configuration may set
        search = Search(space, np.random.default_rng(seed), step)
        return search                         # an object with ask and tell, or the two functions: ask, tell

The adapter keeps the books: it numbers the trials, knows what is pending, and plays the shared initial design, of which
the object hears by `tell` alone. The objective is minimised. `ask` may return None: nothing before the next `tell`;
then it must have changed nothing, since no record tells of that ask.

No record holds what such an object knows. So it is restored by playing its life again: it is built anew, and asked and
told in the recorded order. What it suggests must then be what the record has: it may depend on its seed and on what it
was told, and on nothing else. It has global random states of its own, which begin with its seed, so what it draws from
`random`, `numpy.random` and torch's default generator is settled, too; the caller's are as they were.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any, ClassVar

import numpy as np

from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.options import plain_parameters, with_parameters
from fmnas.search_spaces import Configuration, Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.records import MODEL


class NotRepeatedError(FmnasError):
    """An optimizer that is restored by asking it again suggests something else than the record has."""


class ReplayedOptimizer(Optimizer):
    """Base of optimizers with a state that only their own asks and tells lead to: `restore` asks again."""

    def restore(self, trial: Trial) -> None:
        """Ask again. Raises NotRepeatedError where the suggestion is not the recorded one, or there is none."""
        if trial.id != self._asked:
            super().restore(trial)  # which refuses it
        try:
            again = self.ask()
        except Exception as error:  # of a stranger's code
            raise NotRepeatedError(
                f"trial {trial.id}: asked for it again, the optimizer failed ({type(error).__name__}: {error})"
            ) from error
        if again is None or again.configuration != trial.configuration:
            suggested = "nothing" if again is None else again.configuration
            raise NotRepeatedError(
                f"trial {trial.id}: the record has {trial.configuration}, and asked again in the same order the "
                f"optimizer suggests {suggested}. It cannot go on where it was: what it suggests must follow from its "
                "seed and its results alone (`fmnas check` says more). The finished trials are kept, and `fmnas "
                "report` shows them"
            )
        self.pending[trial.id] = trial


class AskTellOptimizer(ReplayedOptimizer):
    """An object that asks and tells; `optimizer_made_by` says of which kind.

    make: builds the object, or the pair of functions, of a space, a seed and the options.
    """

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
        wanted = {name: value for name, value in common.items() if name in signature(self.make).parameters}
        try:
            with self._random.activate():
                made = self.make(space, seed, **wanted, **options)
        except FmnasError:
            raise
        except Exception as error:  # of a stranger's code
            raise OptimizerError(f"{type(self).__name__} cannot be made: {type(error).__name__}: {error}") from error
        self._object_ask, self._object_tell = self._pair(made)

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        with self._random.activate():
            given = self._object_ask()
        if given is None:
            return None
        if not isinstance(given, Mapping):
            raise OptimizerError(
                f"{type(self).__name__} suggests {given!r}: ask() must return a mapping with a value for each of "
                f"{', '.join(self.space.names)}"
            )
        return Suggestion(dict(given), MODEL)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        with self._random.activate():
            self._object_tell(dict(trial.configuration), evaluation.objective)

    def _pair(self, made: Any) -> tuple[Callable[[], Any], Callable[[Configuration, float], Any]]:
        """Its two functions."""
        if isinstance(made, tuple) and len(made) == 2 and all(map(callable, made)):
            return made
        lacking = [name for name in ("ask", "tell") if not callable(getattr(made, name, None))]
        if lacking:
            raise OptimizerError(
                f"{type(self).__name__} made {made!r}, which has no {' and no '.join(lacking)}: return an object with "
                "ask() and tell(configuration, objective), or the two functions"
            )
        return made.ask, made.tell


def can_make(found: Any) -> bool:
    """Whether it is a class with ask and tell, or a function, that takes a space and a seed."""
    if isinstance(found, type) and not (hasattr(found, "ask") and hasattr(found, "tell")):
        return False
    try:
        signature(found).bind_partial(None, None)
    except (TypeError, ValueError):  # it takes less, or is none, or nobody can tell
        return False
    return True


@cache
def optimizer_made_by(make: Callable[..., Any]) -> type[AskTellOptimizer]:
    """The optimizer whose object `make(space, seed, **options)` builds. Raises OptimizerError for odd options."""
    first = list(signature(make).parameters)[:2]
    parameters = plain_parameters(make, leave_out=first)
    name = getattr(make, "__name__", type(make).__name__)
    return with_parameters(AskTellOptimizer, name, parameters, make=staticmethod(make))
