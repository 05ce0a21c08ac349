"""How the trainings of an evaluation are arranged on a machine. It is a matter of speed: results agree up to rounding.

| arrangement | what it is | where |
|---|---|---|
| plain | the reference: one seed after another, torch's threads share each operation | everywhere |
| fast | the network rearranged for CPUs; seeds side by side, each with its share of the threads | CPUs |
| stacked | all seeds in one program; on a GPU, its step is captured as a CUDA graph | everywhere; slow on CPUs |
| auto | the fastest of them that the device has: fast on CPUs, stacked on GPUs | everywhere |

Seeds side by side are threads, not processes: on two cores a step of a seed took 44 ms of the largest cell either way,
and 15 to 19 against 15 to 18 of two others. The convolutions of the largest cell are four fifths of its step; they run
at 95 to 135 GFLOP/s on a core where a large matrix product had 79. torch.compile took a minute and then 30% more time
per step.

A step that cannot be captured is a device that fails: the evaluation is not trained in another, much slower way.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from fmnas.trainers.errors import TrainerError

Way = Literal["plain", "fast", "stacked"]
Arrangement = Literal["auto", "plain", "fast", "stacked"]
ARRANGEMENTS: tuple[str, ...] = get_args(Arrangement)


@dataclass(frozen=True)
class Arranged:
    """An arrangement, worked out for a device.

    way: how a training is done. side_by_side: how many train at a time; of a stack, which is one program, 1.
    threads: torch's threads for each of them; None leaves them alone. captured: whether steps become CUDA graphs.
    """

    way: Way
    side_by_side: int
    threads: int | None
    captured: bool = False


def arrange(arrangement: Arrangement, device: torch.device, threads: int | None, seeds: int) -> Arranged:
    """What an arrangement means for `seeds` trainings on a device with this many CPU threads (None: torch's own).

    One thread per training is worth more than several on each, so threads are shared out only beyond one per seed.
    Raises TrainerError for an arrangement that is unknown, or not for this device.
    """
    if arrangement not in ARRANGEMENTS:
        raise TrainerError(f"arrangement = {arrangement!r}: it must be one of {', '.join(ARRANGEMENTS)}")
    on_cpu, on_gpu = device.type == "cpu", device.type == "cuda"
    if arrangement == "fast" and not on_cpu:
        raise TrainerError(f"arrangement = 'fast' is for CPUs, and device = '{device}': choose auto, plain or stacked")
    if arrangement == "stacked" or (arrangement == "auto" and on_gpu):
        return Arranged("stacked", 1, threads, captured=on_gpu)
    if arrangement == "plain" or not on_cpu:
        return Arranged("plain", 1, threads)
    own = threads if threads is not None else torch.get_num_threads()
    side_by_side = min(own, seeds)
    return Arranged("fast", side_by_side, own // side_by_side)
