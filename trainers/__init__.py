"""Trainers, which evaluate configurations, and problems: images, tables and functions."""

from fmnas.trainers.contract import (
    DataError,
    DeviceFailedError,
    EvaluationStoppedError,
    Report,
    Stop,
    Trainer,
    TrainerError,
    TrainingFailedError,
)
from fmnas.trainers.functions.objective import objective
from fmnas.trainers.problem import DataSettings, Hardware, Problem, ProblemSettings

__all__ = [
    "DataError",
    "DataSettings",
    "DeviceFailedError",
    "EvaluationStoppedError",
    "Hardware",
    "Problem",
    "ProblemSettings",
    "Report",
    "Stop",
    "Trainer",
    "TrainerError",
    "TrainingFailedError",
    "objective",
]
