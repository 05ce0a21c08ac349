"""What the surrogate sees of a training: its cell up to the symmetries of the encoding, its schedule, its FLOPs.

Every number comes from comparisons, sums, products, quotients and square roots alone, in a fixed order, so it is the
same on every processor.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Cell, Configuration, Schedule, canonical_form

BY_CAPACITY = (
    *("identity", "maxpool3x3", "maxpool5x5"),
    *("conv1x1", "sepconv3x3", "sepconv5x5", "conv3x3", "conv5x5"),
)
"""The operations; their places are their ranks: each can represent more than the one before it."""
LEAST_FRICTION = 0.001
"""Added to 1 - momentum, as the space has momentum 1."""


@dataclass(frozen=True)
class Paths:
    """The paths from a cell's inputs to one of its states.

    number: of paths. identities: of them, those without an operation. most, fewest: convolutions on a path; widest: the
    most that see more than one pixel.
    """

    number: int = 1
    identities: int = 1
    most: int = 0
    fewest: int = 0
    widest: int = 0


@lru_cache(maxsize=1024)
def describe_cell(cell: Cell) -> Mapping[str, float]:
    """Return numbers that are equal for cells with the same network."""
    network = canonical_form(cell)
    last, summands = len(network.states), [summand for state in network.states for summand in state]
    operations = [operation for _, operation in summands]
    numbers: dict[str, float] = {"states": last, "states after the first output": last - network.output}
    numbers |= {f"number of {name}": operations.count(name) for name in BY_CAPACITY}
    paths = {-1: Paths(), 0: Paths()}
    for number, state in enumerate(network.states, start=1):
        paths[number] = _join([_extend(paths[source], operation) for source, operation in state])
    for name in ("number", "identities", "most", "fewest", "widest"):
        both = [getattr(paths[output], name) for output in (network.output, last)]
        numbers |= {f"{name} of paths, less": min(both), f"{name} of paths, more": max(both)}
    for label, output in (("first", network.output), ("last", last)):
        state = network.states[output - 1]
        ranks = sorted(BY_CAPACITY.index(operation) for _, operation in state)
        numbers |= {f"{label} output, lower rank": ranks[0], f"{label} output, higher rank": ranks[1]}
        numbers[f"{label} output, inputs"] = sum(source <= 0 for source, _ in state)
    on_inputs = [BY_CAPACITY.index(operation) for source, operation in summands if source <= 0]
    numbers |= {"operations on inputs": len(on_inputs), "least of them": min(on_inputs), "best": max(on_inputs)}
    return numbers


def _extend(paths: Paths, operation: str) -> Paths:
    """Return the paths behind an operation."""
    is_convolution = "conv" in operation
    is_wide = is_convolution and operation != "conv1x1"
    return Paths(
        paths.number,
        paths.identities * (operation == "identity"),
        paths.most + is_convolution,
        paths.fewest + is_convolution,
        paths.widest + is_wide,
    )


def _join(parts: list[Paths]) -> Paths:
    """Return the paths to a state, given those through each of its operations."""
    return Paths(
        sum(part.number for part in parts),
        sum(part.identities for part in parts),
        max(part.most for part in parts),
        min(part.fewest for part in parts),
        max(part.widest for part in parts),
    )


def describe_schedule(schedule: Schedule, length: int, epoch: int, most: int) -> Mapping[str, float]:
    """Return numbers of the first `epoch` of a schedule's `length` epochs, of which no trial has more than `most`.

    Epochs after `epoch` have made no difference yet.
    """
    rates = [schedule.learning_rate_at(e, length) for e in range(epoch)]
    friction = 1.0 + LEAST_FRICTION - schedule.momentum
    return {
        "epochs": epoch,
        **{f"learning rate of epoch {e + 1}": rates[e] if e < epoch else 0.0 for e in range(most)},
        "sum of learning rates": sum(rates),
        "momentum": schedule.momentum,
        "weight decay": schedule.weight_decay,
        "first rate / friction": rates[0] / friction,
        "last rate / friction": rates[-1] / friction,
        "sum of rates / friction": sum(rates) / friction,
    }


@dataclass(frozen=True)
class FlopsCosts:
    """FLOPs of a network: a constant plus a cost for each operation of a live state. largest: of the largest cell."""

    constant: int
    operations: Mapping[str, int]
    largest: int

    def count(self, cell: Cell) -> int:
        """Return the FLOPs of a cell's network."""
        return self.constant + sum(self.operations[name] for state in cell.states.values() for _, name in state)


@dataclass(frozen=True)
class Features:
    """Describes trainings by vectors. flops: of the networks. most: epochs of the longest training."""

    flops: FlopsCosts
    most: int

    def describe(self, configuration: Configuration, length: int, epoch: int) -> Mapping[str, float]:
        """Return the named features of the first `epoch` of `length` epochs of a training."""
        cell = Cell.from_configuration(configuration)
        return {
            **describe_cell(cell),
            "FLOPs": self.flops.count(cell),
            **describe_schedule(Schedule.from_configuration(configuration), length, epoch, self.most),
        }

    def vector(self, configuration: Configuration, length: int, epoch: int) -> NDArray[np.float32]:
        """Return the same as an array [F]."""
        return np.array(list(self.describe(configuration, length, epoch).values()), dtype=np.float32)


@dataclass(frozen=True, eq=False)
class RecordedPoints:
    """The recorded trainings at full fidelity, as points: far from all of them the surrogate extrapolates.

    X: features [F, n]. scale: the standard deviation of each feature, infinite if it never varies [F]. limit: the
    distance to the nearest point above which a training is far from them.
    """

    X: NDArray[np.float32]
    scale: NDArray[np.float64]
    limit: float

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        return np.asarray(self.X / self.scale[:, None])

    def distances(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the distance of features [F] to each point [n]: the root mean square of the scaled differences."""
        squares = self._points - (x / self.scale)[:, None]
        np.square(squares, out=squares)
        return np.asarray(np.sqrt(squares.sum(axis=0) / len(x)))  # feature by feature: in a fixed order

    def are_far_from(self, x: NDArray[np.float32]) -> bool:
        """Whether all points are farther than the limit from features [F]."""
        return bool(self.distances(x).min() > self.limit)
