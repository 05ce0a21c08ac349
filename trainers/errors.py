"""What can be wrong with data or with a trainer's input.

FmnasError
├── DataError                data that are missing, cut off, altered, or too few for what is asked
├── TrainerError             a setting, a trial or a problem name that a trainer cannot work with
├── TrainingFailedError      a training that broke down, by its own doing: it took more memory than there is
├── DeviceFailedError        a device that this process cannot train on any more
│   └── CaptureError         a step that could not be recorded as a CUDA graph (captured.py)
└── EvaluationStoppedError   an evaluation that was told to stop
"""

from fmnas.search_spaces import FmnasError


class DataError(FmnasError):
    """Data that cannot be found, read or trusted."""


class TrainerError(FmnasError, ValueError):
    """A setting or a trial that a trainer cannot work with."""


class TrainingFailedError(FmnasError, RuntimeError):
    """A training that broke down, with the cell that it trained. The trainer can go on with another trial."""


class DeviceFailedError(FmnasError):
    """A device broke down, or others took its memory: not the trial's fault, which may be repeated elsewhere.

    The process must not train on it again. What CUDA and torch keep of a failure ends with the process alone.
    """


class EvaluationStoppedError(FmnasError):
    """The end of an evaluation that was told to stop; it has no result."""
