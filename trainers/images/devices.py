"""The devices that networks train on, and deterministic float32 on a GPU."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from fmnas.trainers.contract import DeviceFailedError, TrainerError
from fmnas.trainers.memory import error_text, release_gpu_cache

Flag = tuple[Any, str, Any]
"""A part of torch's backends, an attribute of it, and its value."""


def usable_device(name: str) -> torch.device:
    """The torch device with this name. Raises TrainerError if it cannot be used here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} is not available: {reason}. "cpu" always is') from None
    return device


def evaluation_batch(device: torch.device) -> int:
    """Images per validation batch: few enough for a CPU's cache, enough to keep a GPU busy."""
    return 100 if device.type == "cpu" else 1000


@contextmanager
def deterministic_float32(device: torch.device) -> Iterator[None]:
    """In this context a GPU computes in full float32 (not TF32) and deterministically.

    The GPU becomes torch's current one. Unused memory is released at the end, as other processes may share it; if that
    fails, the result is still valid, and the next evaluation will raise.
    Raises DeviceFailedError at the beginning if this process cannot use the GPU any more.
    """
    if device.type != "cuda":
        yield
        return
    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()  # refused indefinitely after a graph capture that did not end
    except RuntimeError as error:
        raise DeviceFailedError(f"{device} cannot be used by this process any more: {error_text(error)}") from error
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    exact: list[Flag] = [(cudnn, "enabled", True), (cudnn, "benchmark", False), (cudnn, "deterministic", True)]
    # torch 2.9 and later set the precision per operation; mixing that with the older flags is an error.
    if hasattr(cudnn, "conv"):
        exact += [(part, "fp32_precision", "ieee") for part in (cudnn.conv, matmul)]
    else:
        exact += [(part, "allow_tf32", False) for part in (cudnn, matmul)]
    with torch.cuda.device(device), temporary_attributes(exact):
        try:
            yield
        finally:
            release_gpu_cache()


@contextmanager
def temporary_attributes(wanted: Sequence[Flag]) -> Iterator[None]:
    """Set attributes of torch's backends; restore them afterwards, in reverse order, as one may affect another."""
    with ExitStack() as restore:
        for part, name, value in wanted:
            restore.callback(setattr, part, name, getattr(part, name))
            setattr(part, name, value)
        yield
