"""One training of one network: the plain way, a step at a time.

Every random number comes from three streams that are a pure function of the trial's seed and the number of the training
among the trial's: initialisation, order of the data, augmentation. Draws are made on the CPU, for every device.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fmnas.search_spaces import Schedule
from fmnas.trainers.augmentation import Crops, crop, draw_crops, normalise
from fmnas.trainers.data import Split
from fmnas.trainers.idx import Bytes


@dataclass(frozen=True)
class Streams:
    """The generators of one training, on the CPU."""

    initialisation: torch.Generator
    order: torch.Generator
    augmentation: torch.Generator


def streams(trial_seed: int, number: int) -> Streams:
    """Independent streams of training `number` (from 0) of a trial with this seed (0 or more)."""
    children = np.random.SeedSequence([trial_seed, number]).spawn(3)
    seeds = [int(child.generate_state(1)[0]) for child in children]
    return Streams(*(torch.Generator().manual_seed(seed) for seed in seeds))


@dataclass(frozen=True)
class DeviceData:
    """A split on a device: images [n, 28, 28] uint8, labels [n] int64. On the CPU images share the split's memory."""

    train_images: Tensor
    train_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor


def to_device(split: Split, device: torch.device) -> DeviceData:
    """The split's arrays as tensors on the device."""
    return DeviceData(
        train_images=_shared_tensor(split.train_images).to(device),
        train_labels=_shared_tensor(split.train_labels).to(device, torch.int64),
        validation_images=_shared_tensor(split.validation_images).to(device),
        validation_labels=_shared_tensor(split.validation_labels).to(device, torch.int64),
    )


def build_optimizer(network: nn.Module, schedule: Schedule) -> torch.optim.SGD:
    """SGD with the schedule's momentum and weight decay; `train_epoch` sets the learning rate."""
    return torch.optim.SGD(
        network.parameters(),
        lr=schedule.learning_rate,
        momentum=schedule.momentum,
        weight_decay=schedule.weight_decay,
    )


def train_epoch(
    network: nn.Module,
    optimizer: torch.optim.SGD,
    data: DeviceData,
    draws: Streams,
    batch_size: int,
    learning_rate: float,
) -> bool:
    """One pass over the training images. False as soon as a loss is not finite; the rest is then left out."""
    network.train()
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    return all(
        math.isfinite(train_step(network, optimizer, images, labels))
        for images, labels in training_batches(data, draws, batch_size)
    )


def train_step(network: nn.Module, optimizer: torch.optim.SGD, images: Tensor, labels: Tensor) -> float:
    """One step of SGD on images [B, 1, 28, 28] and labels [B]; the loss before it."""
    optimizer.zero_grad()
    loss = functional.cross_entropy(network(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def training_batches(data: DeviceData, draws: Streams, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of one epoch: every image once, in random order, cropped, normalised; the last may be smaller."""
    count, device = len(data.train_images), data.train_images.device
    order = torch.randperm(count, generator=draws.order).to(device)
    crops: Crops = draw_crops(count, draws.augmentation).to(device)
    for start in range(0, count, batch_size):
        part = slice(start, start + batch_size)
        chosen = order[part]
        yield normalise(crop(data.train_images[chosen], crops[part])), data.train_labels[chosen]


@torch.inference_mode()
def validation_error(network: nn.Module, data: DeviceData, batch_size: int) -> float | None:
    """The share of validation images that the network gets wrong; None if any of its logits is not finite."""
    network.eval()
    wrong = torch.zeros((), dtype=torch.int64, device=data.validation_labels.device)
    finite = torch.ones((), dtype=torch.bool, device=wrong.device)
    for images, labels in zip(
        data.validation_images.split(batch_size), data.validation_labels.split(batch_size), strict=True
    ):
        logits = network(normalise(images))
        wrong += (logits.argmax(dim=1) != labels).sum()
        finite &= logits.isfinite().all()
    return wrong.item() / len(data.validation_labels) if finite else None


def _shared_tensor(array: Bytes) -> Tensor:
    with warnings.catch_warnings():
        # Arrays that workers share are read-only, and torch warns that writing to them is undefined: we never write.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array)
