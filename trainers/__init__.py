"""Trainers, which evaluate configurations, and problems: images, tables and functions."""

from fmnas.trainers.contract import (
    DataError,
    DeviceFailedError,
    EvaluationStoppedError,
    Stop,
    Trainer,
    TrainerError,
    TrainingFailedError,
)
from fmnas.trainers.functions.objective import objective
from fmnas.trainers.problem import Problem

__all__ = [
    "DataError",
    "DeviceFailedError",
    "EvaluationStoppedError",
    "Problem",
    "Stop",
    "Trainer",
    "TrainerError",
    "TrainingFailedError",
    "objective",
]
