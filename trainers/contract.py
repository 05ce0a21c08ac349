"""The contract of a trainer, which turns a trial into an evaluation; and what can be wrong with its input or data."""

from collections.abc import Callable
from typing import Any, Protocol

from fmnas.search_spaces import Evaluation, FmnasError, Space, Trial, errors


class DataError(FmnasError):
    """Data that are missing, cut off, altered, or too few for what is asked."""


class TrainerError(FmnasError, ValueError):
    """A setting, a trial or a problem name that a trainer cannot work with."""


class TrainingFailedError(FmnasError, RuntimeError):
    """A training that broke down, by its own doing, with the cell that it trained; as where memory was too little.

    The trainer can go on with another trial.
    """


class DeviceFailedError(FmnasError):
    """A device broke down, or others took its memory: not the trial's fault, which may be repeated elsewhere.

    The process must not train on it again. What CUDA and torch keep of a failure ends with the process alone. So also
    for a step that could not be recorded as a CUDA graph (`images.cuda_graph.CaptureError`).
    """


class EvaluationStoppedError(FmnasError):
    """The end of an evaluation that was told to stop; it has no result."""


def optional_module(name: str, user: str) -> Any:
    """The module, imported. Raises TrainerError that names its user and the command that installs it."""
    return errors.optional_module(name, user, TrainerError)


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
