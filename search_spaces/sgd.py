"""The SGD schedule: six continuous hyperparameters (BO-FM paper, Supp. D.2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fmnas.search_spaces.variables import Real, Variable


def sgd_variables() -> list[Variable]:
    """Learning rate, momentum, weight decay, and a learning rate that is reduced twice."""
    return [
        Real("learning_rate", 1e-3, 1e-1, log=True),
        Real("momentum", 0.8, 1.0),
        Real("weight_decay", 1e-6, 1e-2, log=True),
        Real("lr_reduction", 0.1, 0.9),
        Real("reduction_point_1", 0.0, 1.0),
        Real("reduction_point_2", 0.0, 1.0),
    ]


SGD_NAMES = tuple(variable.name for variable in sgd_variables())


@dataclass(frozen=True)
class Schedule:
    """A decoded SGD schedule; the fields are the variables of `sgd_variables`."""

    learning_rate: float
    momentum: float
    weight_decay: float
    lr_reduction: float
    reduction_point_1: float
    reduction_point_2: float

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "Schedule":
        """The schedule that a configuration describes; other names in it are ignored."""
        return cls(**{name: float(configuration[name]) for name in SGD_NAMES})

    def milestones(self, epochs: int) -> tuple[int, int]:
        """The epochs (from 0) at which the learning rate is reduced: int(E r1) and int(E (r1 + (1 - r1) r2))."""
        first = self.reduction_point_1
        return int(epochs * first), int(epochs * (first + (1 - first) * self.reduction_point_2))

    def learning_rate_at(self, epoch: int, epochs: int) -> float:
        """The learning rate in epoch 0..epochs-1 of a training of `epochs` epochs."""
        reductions = sum(epoch >= milestone for milestone in self.milestones(epochs))
        return self.learning_rate * self.lr_reduction**reductions
