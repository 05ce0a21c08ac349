"""The contract of a trainer: what turns a trial into an evaluation."""

from collections.abc import Callable
from typing import Protocol

from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.trainers.errors import TrainerError

Report = Callable[[int, int, float], None]
"""Called after each epoch with (seed number from 0, epochs done, validation error)."""


Stop = Callable[[], bool]
"""Asked now and then while a trial is evaluated: whether to end at once. It must be quick."""


def never() -> bool:
    """The stop of an evaluation that runs to its end."""
    return False


def ignore(seed: int, epoch: int, error: float) -> None:
    """The report of someone who does not listen."""


class Trainer(Protocol):
    """Evaluates trials: a pure function of configuration, epochs, seed and data."""

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """Train `trial.configuration` for `trial.epochs` epochs. Divergence is an evaluation, not an exception.

        Raises EvaluationStoppedError once `stop` says yes.
        """
        ...


def check_trial(trial: Trial, space: Space) -> None:
    """Raise SpaceError for a configuration outside the space, TrainerError for epochs or a seed that cannot be."""
    space.validate(trial.configuration)
    if trial.epochs < 1:
        raise TrainerError(f"trial {trial.id}: epochs = {trial.epochs}; it must be at least 1")
    if trial.seed < 0:
        raise TrainerError(f"trial {trial.id}: seed = {trial.seed}; it must be 0 or more")
