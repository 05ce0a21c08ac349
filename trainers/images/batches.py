"""The batches of a training: data on a device, random order, augmentation and normalisation.

All random numbers come from three generators (initialisation, order of the data, augmentation), which depend on the
trial's seed and the number of the training only. They draw on the CPU, for an epoch at a time, so that the numbers are
the same for every device.

An image is padded by 4 black pixels on each side, cropped to 28x28 at a random place, and mirrored half the time.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.model import normalise
from fmnas.trainers.split import IMAGE_SIZE, Numbers, Split

PADDING = 4


@dataclass(frozen=True)
class Streams:
    """The random generators of one training, on the CPU."""

    initialisation: torch.Generator
    order: torch.Generator
    augmentation: torch.Generator


def streams(trial_seed: int, number: int) -> Streams:
    """Generators for training `number` (from 0) of a trial with this seed (0 or more); independent below 2**32.

    A larger seed is several numbers, and `number` is the next one: (5 + 3 * 2**32, 0) has the generators of (5, 3).
    """
    children = np.random.SeedSequence([trial_seed, number]).spawn(3)
    seeds = [int(child.generate_state(1)[0]) for child in children]
    return Streams(*(torch.Generator().manual_seed(seed) for seed in seeds))


@dataclass(frozen=True)
class DeviceData:
    """A split on a device: images [n, 28, 28] uint8, labels [n] int64. On the CPU images share the split's memory."""

    train_images: Tensor
    train_labels: Tensor
    held_out_images: Tensor
    held_out_labels: Tensor


def to_device(split: Split, device: torch.device) -> DeviceData:
    """Copy the split to the device. Raises DataError if its inputs are not images."""
    for inputs in (split.train_inputs, split.held_out_inputs):
        if inputs.dtype != np.uint8 or inputs.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE):
            raise DataError(f"{split.name}: inputs {inputs.dtype} {inputs.shape}; images must be uint8 [n, 28, 28]")
    return DeviceData(
        train_images=_shared_tensor(split.train_inputs).to(device),
        train_labels=_shared_tensor(split.train_labels).to(device, torch.int64),
        held_out_images=_shared_tensor(split.held_out_inputs).to(device),
        held_out_labels=_shared_tensor(split.held_out_labels).to(device, torch.int64),
    )


def draw_crops(count: int, generator: torch.Generator) -> Tensor:
    """Uniform draws [3, count] int64: the crop's first row and column in the padded image, 0..8; mirrored, 0 or 1."""
    places = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    mirrored = torch.randint(0, 2, (count,), generator=generator)
    return torch.cat([places, mirrored[None]])


def crop(images: Tensor, crops: Tensor) -> Tensor:
    """Pad, crop and mirror images [B, 28, 28] uint8 by the draws [3, B]; returns the same shape and type."""
    top, left, mirrored = crops
    padded = functional.pad(images, (PADDING,) * 4)
    windows = padded.unfold(1, IMAGE_SIZE, 1).unfold(2, IMAGE_SIZE, 1)  # [B, 9, 9, 28, 28], a view
    cropped = windows[torch.arange(len(images), device=images.device), top, left]
    return torch.where(mirrored[:, None, None] == 1, cropped.flip(-1), cropped)


def training_batches(
    data: DeviceData, draws: Streams, batch_size: int, steps_at_once: int = 1
) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of one epoch, images [B, 1, 28, 28] and labels [B]: every image once, in random order, augmented.

    The last may be smaller. steps_at_once: batches that are augmented together; this does not change the numbers.
    """
    count, device = len(data.train_images), data.train_images.device
    order = torch.randperm(count, generator=draws.order).to(device)
    crops = draw_crops(count, draws.augmentation).to(device)
    at_once = steps_at_once * batch_size
    for start in range(0, count, at_once):
        part = slice(start, start + at_once)
        chosen = order[part]
        images = normalise(crop(data.train_images[chosen], crops[:, part]))
        yield from zip(images.split(batch_size), data.train_labels[chosen].split(batch_size), strict=True)


def _shared_tensor(array: Numbers) -> Tensor:
    with warnings.catch_warnings():
        # Arrays shared by workers are read-only. torch warns that writing to them is undefined; nothing writes here.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable", category=UserWarning)
        return torch.from_numpy(array)
