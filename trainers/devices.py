"""The devices that networks train on, and how exactly they compute there."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fmnas.trainers.errors import TrainerError


def usable_device(name: str) -> torch.device:
    """The torch device of that name. Raises TrainerError when it cannot be used here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} cannot be used here: {reason}. "cpu" always can') from None
    return device


def evaluation_batch(device: torch.device) -> int:
    """Images per validation batch: few enough for a CPU's cache, enough for a GPU to have work."""
    return 100 if device.type == "cpu" else 1000


@contextmanager
def exactly(device: torch.device) -> Iterator[None]:
    """While in the block, a GPU's convolutions are float32, not the shorter TF32, and the same each time they run.

    What a GPU kept for the block's work is given back at its end: other processes may share the device.
    """
    if device.type != "cuda":
        yield
        return
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.cuda.empty_cache()
