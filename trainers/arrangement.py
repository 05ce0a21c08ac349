"""How the trainings of an evaluation are arranged on a machine. It is a matter of speed: results agree up to rounding.

| arrangement | what it is | where |
|---|---|---|
| plain | the reference: one seed after another, torch's threads share each operation | everywhere |
| fast | the network rearranged for CPUs; seeds side by side, each with its share of the threads | CPUs |
| auto | the fastest of them that the device has | everywhere |
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from fmnas.trainers.errors import TrainerError

Arrangement = Literal["auto", "plain", "fast"]
ARRANGEMENTS: tuple[str, ...] = get_args(Arrangement)


@dataclass(frozen=True)
class Arranged:
    """An arrangement, worked out for a device.

    fast: whether trainings use `fast_learner`. side_by_side: how many train at a time.
    threads: torch's threads for each of them; None leaves them alone.
    """

    fast: bool
    side_by_side: int
    threads: int | None


def arrange(arrangement: Arrangement, device: torch.device, threads: int | None, seeds: int) -> Arranged:
    """What an arrangement means for `seeds` trainings on a device with this many CPU threads (None: torch's own).

    One thread per training is worth more than several on each, so threads are shared out only beyond one per seed.
    Raises TrainerError for an arrangement that is unknown, or not for this device.
    """
    if arrangement not in ARRANGEMENTS:
        raise TrainerError(f"arrangement = {arrangement!r}: it must be one of {', '.join(ARRANGEMENTS)}")
    on_cpu = device.type == "cpu"
    if arrangement == "fast" and not on_cpu:
        raise TrainerError(f"arrangement = 'fast' is for CPUs, and device = '{device}': choose auto or plain")
    if arrangement == "plain" or not on_cpu:
        return Arranged(fast=False, side_by_side=1, threads=threads)
    own = threads if threads is not None else torch.get_num_threads()
    side_by_side = min(own, seeds)
    return Arranged(fast=True, side_by_side=side_by_side, threads=own // side_by_side)
