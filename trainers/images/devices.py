"""The devices that networks train on: deterministic float32, and whether a failure is the device's."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from fmnas.trainers.allocator import error_text, release_gpu_cache
from fmnas.trainers.contract import DeviceFailedError, TrainerError

Flag = tuple[Any, str, Any]
"""A part of torch's backends, an attribute of it, and its value."""

CONTEXT_BYTES = 2**30
"""GPU memory of a process without its tensors, for context, libraries and graphs; about twice the typical."""


def usable_device(name: str) -> torch.device:
    """The torch device with this name. Raises TrainerError if it cannot be used here."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0]
        raise TrainerError(f'device = {name!r} is not available: {reason}. "cpu" always is') from None
    return device


def device_name(device: torch.device) -> str:
    """The model of a GPU, e.g. "NVIDIA H200"; for another device its type, e.g. "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


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
    with torch.cuda.device(device), _float32():
        try:
            yield
        finally:
            release_gpu_cache()


def device_failure(error: BaseException, device: torch.device) -> str:
    """Why the error of a training is a failure of the device; empty if it is the training's own, or unknown.

    A GPU that fails keeps failing until its process ends, so one that does not respond after the error has failed.
    Running out of memory is the training's own failure, unless other processes hold some of the memory: more is in use
    than this process's tensors and CONTEXT_BYTES. Processes that have ended by now are not counted.
    """
    if device.type != "cuda":
        return ""
    try:
        torch.cuda.synchronize(device)
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_reserved(device) + CONTEXT_BYTES
    except RuntimeError as failure:
        return f"{device} does not respond any more: {error_text(failure)}"
    text = str(error)  # libraries other than torch report it in their own words
    full = isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in text or "ALLOC_FAILED" in text
    if full and (foreign := total - free - own) > 0:
        return (
            f"{device} is out of memory, and other processes use {foreign / 2**30:.1f} of its {total / 2**30:.1f} GiB: "
            "let fewer workers share it (increase workers.gpus)"
        )
    return ""


@contextmanager
def _float32() -> Iterator[None]:
    """Temporarily set cuDNN's and cuBLAS's flags."""
    cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
    wanted: list[Flag] = [(cudnn, "enabled", True), (cudnn, "benchmark", False), (cudnn, "deterministic", True)]
    # torch 2.9 and later set the precision per operation; mixing that with the older flags is an error.
    if hasattr(cudnn, "conv"):
        wanted += [(part, "fp32_precision", "ieee") for part in (cudnn.conv, matmul)]
    else:
        wanted += [(part, "allow_tf32", False) for part in (cudnn, matmul)]
    with temporary_attributes(wanted):
        yield


@contextmanager
def temporary_attributes(wanted: Sequence[Flag]) -> Iterator[None]:
    """Set attributes of torch's backends; restore them afterwards, in reverse order, as one may affect another."""
    with ExitStack() as restore:
        for part, name, value in wanted:
            restore.callback(setattr, part, name, getattr(part, name))
            setattr(part, name, value)
        yield
