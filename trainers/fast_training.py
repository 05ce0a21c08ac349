"""One training of one network on CPUs, faster: the same draws, the same steps, up to float rounding.

What differs from the plain way: the network is a `FastNetwork`, one kernel updates all parameters, and images are
cropped for many steps at once.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from fmnas.search_spaces import Schedule
from fmnas.trainers.augmentation import crop, draw_crops, normalise
from fmnas.trainers.fast_network import FastNetwork
from fmnas.trainers.network import Network
from fmnas.trainers.training import DeviceData, Learner, Streams, Surroundings, build_optimizer

STEPS_AT_ONCE = 16


def fast_learner(network: Network, schedule: Schedule, draws: Streams, around: Surroundings) -> Learner:
    """A learner that equals `plain_learner` up to rounding; it takes the network over."""
    optimizer = build_optimizer(network, schedule, fused=True)
    return Learner(FastNetwork(network), optimizer, draws, around, batches_in_bulk)


def batches_in_bulk(data: DeviceData, draws: Streams, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of `training_batches`, number by number."""
    count = len(data.train_images)
    order = torch.randperm(count, generator=draws.order)
    crops = draw_crops(count, draws.augmentation)
    bulk = STEPS_AT_ONCE * batch_size
    for start in range(0, count, bulk):
        part = slice(start, start + bulk)
        chosen = order[part]
        images = normalise(crop(data.train_images[chosen], crops[part]))
        yield from zip(images.split(batch_size), data.train_labels[chosen].split(batch_size), strict=True)
