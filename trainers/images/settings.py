"""The settings of a trainer of images, the same for all of its trials."""

import math
from dataclasses import dataclass
from typing import get_args

from fmnas.trainers.contract import TrainerError
from fmnas.trainers.problem import Arrangement, FlopsConvention

FLOPS_WEIGHT = 0.02
"""The weight of FLOPs in the paper (Sec. 5.3)."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings that are the same for every trial.

    seeds: independent trainings per evaluation.
    batch_size: images per step.
    device: a torch device, such as "cpu" or "cuda:0".
    threads: torch's threads, set for the whole process; None: unchanged.
    arrangement: see `seed_parallelism.py`.
    schedule_epochs: length of the learning rate schedule, of which a trial trains the beginning; a longer trial is
    refused. None: each trial's own epochs.
    early_validation: number of validation images used in the epochs before a trial's last; None: all. The last epoch,
    and so the objective, always uses all.
    flops_weight: of FLOPs / FLOPs of the largest cell in the objective.
    flops: how both are counted, see `network.py`.
    Raises TrainerError for a value that is not allowed.
    """

    seeds: int = 4
    batch_size: int = 32
    device: str = "cpu"
    threads: int | None = 1
    arrangement: Arrangement = "auto"
    schedule_epochs: int | None = None
    early_validation: int | None = None
    flops_weight: float = FLOPS_WEIGHT
    flops: FlopsConvention = "torch"

    def __post_init__(self) -> None:
        for name in ("seeds", "batch_size", "threads", "schedule_epochs", "early_validation"):
            value, unset = getattr(self, name), name not in ("seeds", "batch_size")
            if not (value is None and unset) and not (type(value) is int and value >= 1):
                raise TrainerError(f"{name} = {value!r}; it must be an integer of at least 1{' or None' * unset}")
        for name, allowed in (("arrangement", get_args(Arrangement)), ("flops", get_args(FlopsConvention))):
            if getattr(self, name) not in allowed:
                raise TrainerError(f"{name} = {getattr(self, name)!r}; it must be one of {', '.join(allowed)}")
        if not isinstance(self.flops_weight, int | float) or not 0 <= self.flops_weight < math.inf:
            raise TrainerError(f"flops_weight = {self.flops_weight!r}; it must be a finite number of at least 0")
