"""The devices that networks train on: how exactly they compute there, and whether a failure is theirs."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from fmnas.trainers.allocator import error_text, release_gpu_cache
from fmnas.trainers.contract import DeviceFailedError, TrainerError

Flag = tuple[Any, str, Any]
"""A part of torch's backends, an attribute of it, and its value."""

CONTEXT_BYTES = 2**30
"""What a process may hold of a GPU beside its tensors: its context, its libraries, its graphs. They take half of it."""


def usable_device(name: str) -> torch.device:
    """The torch device of that name. Raises TrainerError when it cannot be used here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} cannot be used here: {reason}. "cpu" always can') from None
    return device


def device_name(device: torch.device) -> str:
    """The model of a GPU, e.g. "NVIDIA H200"; of another device its type, e.g. "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def evaluation_batch(device: torch.device) -> int:
    """Images per validation batch: few enough for a CPU's cache, enough for a GPU to have work."""
    return 100 if device.type == "cpu" else 1000


@contextmanager
def exactly(device: torch.device) -> Iterator[None]:
    """While in the block, a GPU computes in float32, not the shorter TF32, and the same each time it runs.

    The GPU is torch's current one, whatever its index. What it kept for the block's work is given back at the end:
    other processes may share it. That this fails takes no result away; the next block finds out.
    Raises DeviceFailedError, before anything is done, when this process cannot use the GPU any more.
    """
    if device.type != "cuda":
        yield
        return
    try:
        torch.cuda.synchronize(device)
        torch.cuda.empty_cache()  # refused for ever after a recording that was not ended
    except RuntimeError as error:
        raise DeviceFailedError(f"{device} cannot be used by this process any more: {error_text(error)}") from error
    with torch.cuda.device(device), _float32():
        try:
            yield
        finally:
            release_gpu_cache()


def device_failure(error: BaseException, device: torch.device) -> str:
    """Why what broke a training is the device's failure; empty if it is the training's own, or nobody can tell.

    A GPU that fails goes on failing until its process ends, so one that does not answer after the error has failed.
    Memory that ran out is the training's own, unless other processes hold some of the device: more is taken than this
    one's tensors and CONTEXT_BYTES. Whether it would have been enough without them is not known; nor is it blamed on
    them when they have left by then.
    """
    if device.type != "cuda":
        return ""
    try:
        torch.cuda.synchronize(device)
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_reserved(device) + CONTEXT_BYTES
    except RuntimeError as found:
        return f"{device} does not answer any more: {error_text(found)}"
    said = str(error)  # libraries beside torch say in words of their own that memory ran out
    told = isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in said or "ALLOC_FAILED" in said
    if told and (others := total - free - own) > 0:
        return (
            f"{device} has no memory left, and other processes hold {others / 2**30:.1f} of its {total / 2**30:.1f} GiB"
            ": let fewer workers share it (a larger workers.gpus)"
        )
    return ""


@contextmanager
def _float32() -> Iterator[None]:
    """cuDNN's and cuBLAS's flags, put back in the end."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    wanted: list[Flag] = [(cudnn, "enabled", True), (cudnn, "benchmark", False), (cudnn, "deterministic", True)]
    # Since torch 2.9 precision is said operation by operation; to mix that with the older flags is an error.
    if hasattr(cudnn, "conv"):
        wanted += [(part, "fp32_precision", "ieee") for part in (cudnn.conv, matmul)]
    else:
        wanted += [(part, "allow_tf32", False) for part in (cudnn, matmul)]
    with flags(wanted):
        yield


@contextmanager
def flags(wanted: Sequence[Flag]) -> Iterator[None]:
    """Attributes of torch's backends as they are wanted in the block, and as they were after it.

    They are put back in the reverse order, so that what one of them moved is as it was, too.
    """
    with ExitStack() as as_before:
        for part, name, value in wanted:
            as_before.callback(setattr, part, name, getattr(part, name))
            setattr(part, name, value)
        yield
