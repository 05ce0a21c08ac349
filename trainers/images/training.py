"""The training of one network: the plain reference, to which faster arrangements are compared."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from fmnas.search_spaces import Schedule
from fmnas.trainers.contract import EvaluationStoppedError, Stop, never_stop
from fmnas.trainers.images.batches import DeviceData, Streams, training_batches
from fmnas.trainers.images.model import Network, normalise

Step = TypeVar("Step")
Weights = dict[str, Tensor]
"""The parameters and BatchNorm statistics of a `Network` by name: what its evaluation depends on."""


@dataclass(frozen=True)
class TrainingContext:
    """The data of a training, the images per step and per validation batch, and when to stop."""

    data: DeviceData
    batch_size: int
    evaluation_batch_size: int
    stop: Stop = never_stop

    def validation_batches(self, first: int | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Images [B, 1, 28, 28] and labels [B] of the first `first` validation images; None: of all."""
        images, labels = self.data.held_out_images[:first], self.data.held_out_labels[:first]
        size = self.evaluation_batch_size
        batches = zip(images.split(size), labels.split(size), strict=True)
        return ((normalise(images), labels) for images, labels in stoppable(batches, self.stop))


class Learner:
    """Trains one network, an epoch at a time."""

    def __init__(
        self,
        network: nn.Module,
        optimizer: torch.optim.SGD,
        draws: Streams,
        context: TrainingContext,
        steps_at_once: int = 1,
    ) -> None:
        """draws: the random generators. steps_at_once: steps whose images are cropped together."""
        self._network, self._optimizer, self._draws = network, optimizer, draws
        self._context, self._steps_at_once = context, steps_at_once
        self._diverged = False

    def train(self, learning_rates: Iterable[float], first: int | None = None) -> list[float | None]:
        """Train an epoch per learning rate, then return `validation_errors`."""
        self._diverged = self._diverged or not all(map(self.train_epoch, learning_rates))
        return self.validation_errors(first)

    def validation_errors(self, first: int | None = None) -> list[float | None]:
        """The validation error, on the first `first` validation images or on all; None once it has diverged."""
        error = None if self._diverged else self.validation_error(first)
        self._diverged = error is None
        return [error]

    def diverged(self) -> list[bool]:
        """Whether the training has diverged."""
        return [self._diverged]

    def train_epoch(self, learning_rate: float) -> bool:
        """One pass over the training images. Stops and returns False at the first loss that is not finite."""
        network, optimizer, context = self._network, self._optimizer, self._context
        network.train()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        batches = training_batches(context.data, self._draws, context.batch_size, self._steps_at_once)
        steps = stoppable(batches, context.stop)
        return all(math.isfinite(train_step(network, optimizer, images, labels)) for images, labels in steps)

    @torch.inference_mode()
    def validation_error(self, first: int | None = None) -> float | None:
        """The share of validation images classified wrongly; None if any logit is not finite."""
        network, context = self._network, self._context
        network.eval()
        wrong = torch.zeros((), dtype=torch.int64, device=context.data.held_out_labels.device)
        finite = torch.ones((), dtype=torch.bool, device=wrong.device)
        count = 0
        for images, labels in context.validation_batches(first):
            logits = network(images)
            wrong += (logits.argmax(dim=1) != labels).sum()
            finite &= logits.isfinite().all()
            count += len(labels)
        return wrong.item() / count if finite else None

    def weights(self) -> list[Weights]:
        """The weights of each training: of the only one."""
        state = self._network.state_dict()  # names in a `FastNetwork` have a prefix
        kept = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
        return [{name.removeprefix("network."): value for name, value in kept.items()}]

    def state_dict(self) -> dict[str, Any]:
        """Weights, statistics, momentum and random states: all that the next epochs depend on."""
        return {
            "network": self._network.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "order": self._draws.order.get_state(),
            "augmentation": self._draws.augmentation.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of a learner of the same kind for the same cell."""
        self._network.load_state_dict(state["network"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._draws.order.set_state(state["order"])
        self._draws.augmentation.set_state(state["augmentation"])


def plain_learner(network: Network, schedule: Schedule, draws: Streams, context: TrainingContext) -> Learner:
    """The reference: float32, images [B, C, H, W], the layers as defined in `network.py`."""
    network.to(context.data.train_images.device)
    return Learner(network, build_optimizer(network, schedule), draws, context)


def stoppable(steps: Iterable[Step], stop: Stop) -> Iterator[Step]:
    """Yield the steps. Raises EvaluationStoppedError once `stop` returns true."""
    for step in steps:
        if stop():
            raise EvaluationStoppedError("evaluation cancelled")
        yield step


def build_optimizer(network: nn.Module, schedule: Schedule, fused: bool = False) -> torch.optim.SGD:
    """SGD with the schedule's momentum and weight decay; `train_epoch` sets the learning rate.

    fused: whether one kernel updates all parameters; results are equal up to rounding.
    """
    return torch.optim.SGD(
        network.parameters(),
        lr=schedule.learning_rate,
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
        fused=fused,
    )


def train_step(network: nn.Module, optimizer: torch.optim.SGD, images: Tensor, labels: Tensor) -> float:
    """One step of SGD on images [B, 1, 28, 28] and labels [B]. Returns the loss before it."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(network(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
