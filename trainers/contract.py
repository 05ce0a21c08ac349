"""The interface of a trainer, which turns a trial into an evaluation, and the errors of trainers and data."""

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from tokenize import TokenError
from typing import Any, Protocol
from zipfile import BadZipFile

from fmnas.search_spaces import Evaluation, FmnasError, Space, Trial, errors


class DataError(FmnasError):
    """Data are missing, damaged, or too few."""


DAMAGED = (OSError, ValueError, EOFError, RuntimeError, BadZipFile, zlib.error, TokenError)
"""What numpy, zipfile and zlib raise for damaged files."""


class TrainerError(FmnasError, ValueError):
    """A setting, a trial or the name of a problem is invalid."""


class TrainingFailedError(FmnasError, RuntimeError):
    """A training failed because of its configuration, e.g. too little memory. The trainer can evaluate other trials."""


class DeviceFailedError(FmnasError):
    """A device failed, or other processes use its memory: the trial is not at fault and may be repeated elsewhere.

    The process must not train on the device again: CUDA and torch keep the failure until the process ends. That also
    holds for a step that cannot be captured as a CUDA graph (`images.cuda_graph.CaptureError`).
    """


class NotRecordedError(TrainerError):
    """A recorded problem has no result of this configuration at these epochs."""


class RecordedFailureError(TrainingFailedError):
    """The recorded result is a failure. seconds: what it took then."""

    def __init__(self, reason: str, seconds: float) -> None:
        super().__init__(reason)
        self.seconds = seconds


class EvaluationStoppedError(FmnasError):
    """An evaluation was cancelled; it has no result."""


def optional_module(name: str, user: str) -> Any:
    """The imported module. Raises TrainerError that names its user and the command that installs it."""
    return errors.optional_module(name, user, TrainerError)


@dataclass(frozen=True)
class FinalEvaluation(Evaluation):
    """An evaluation on test data. files: name -> content, from which what was trained can be used again."""

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)


Report = Callable[[int, int, float], None]
"""Called after each epoch with (seed number from 0, epochs done, validation error)."""

Stop = Callable[[], bool]
"""Called often during an evaluation: whether to cancel it. It must be fast."""

Clock = Callable[[], float]
"""Returns seconds."""


def never_stop() -> bool:
    """A `Stop` that never cancels."""
    return False


def no_report(seed: int, epoch: int, error: float) -> None:
    """A `Report` that does nothing."""


class Trainer(Protocol):
    """Evaluates trials: a pure function of configuration, epochs, seed and data."""

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Train `trial.configuration` for `trial.epochs` epochs. Divergence is an evaluation, not an exception.

        Raises EvaluationStoppedError once `stop` returns true.
        """
        ...


def check_trial(trial: Trial, space: Space) -> None:
    """Raise SpaceError for a configuration outside the space, TrainerError for invalid epochs or an invalid seed."""
    space.validate(trial.configuration)
    for key, value, least in (("epochs", trial.epochs, 1), ("seed", trial.seed, 0)):
        if value < least:
            raise TrainerError(f"trial {trial.id}: {key} = {value}; it must be at least {least}")
