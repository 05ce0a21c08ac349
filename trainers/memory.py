"""Memory of a process: what glibc's allocator keeps for reuse, what torch gives back, and why a GPU failed.

By default, glibc returns a step's large buffers to the system and requests them again, which costs 4 to 20% of a step
of the largest cell on CPUs. The setting is of the whole process, so workers and commands change it and a library must
not. No number changes.

torch is used only if something else has imported it.
"""

import ctypes
import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MMAP_BYTES = 32 * 2**20  # glibc's maximum
TRIM_BYTES = 2**30
CONTEXT_BYTES = 2**30
"""GPU memory of a process without its tensors, for context, libraries and graphs; about twice the typical."""
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def tune_malloc() -> bool:
    """Make glibc reuse buffers of up to 32 MB and keep up to 1 GB of freed memory. Return whether it will.

    Nothing happens with another allocator, or if an environment variable of VARIABLES configures it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other allocators do not have it
    if mallopt is None or any(name in os.environ for name in VARIABLES):
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, TRIM_BYTES))


def release_gpu_cache() -> None:
    """Release the GPU memory that torch has cached and does not use, for other processes."""
    try:
        if torch := sys.modules.get("torch"):
            torch.cuda.empty_cache()
    except RuntimeError as error:
        logger.warning("the GPU's cached memory could not be released: %s", error_text(error))


def device_failure(error: BaseException, device: "torch.device | None" = None) -> str:
    """Why the error of a training is a failure of the device; empty if it is the training's own, or unknown.

    device: where it ran; None: on the current GPU, if the process uses one by torch.
    A GPU that fails keeps failing until its process ends, so one that does not respond after the error has failed.
    Running out of memory is the training's own failure, unless other processes hold some of the memory: more is in use
    than this process's tensors and CONTEXT_BYTES. Processes that have ended by now are not counted.
    """
    torch = sys.modules.get("torch")
    if torch is None or not (device.type == "cuda" if device else torch.cuda.is_initialized()):
        return ""
    name = device or "the GPU"
    try:
        torch.cuda.synchronize(device)
        free, total = torch.cuda.mem_get_info(device)
        own = torch.cuda.memory_reserved(device) + CONTEXT_BYTES
    except RuntimeError as failure:
        return f"{name} does not respond any more: {error_text(failure)}"
    text = str(error)  # libraries other than torch report it in their own words
    full = isinstance(error, torch.OutOfMemoryError) or "CUDA error: out of memory" in text or "ALLOC_FAILED" in text
    if full and (foreign := total - free - own) > 0:
        return (
            f"{name} is out of memory, and other processes use {foreign / 2**30:.1f} of its {total / 2**30:.1f} GiB: "
            "let fewer workers share it (increase workers.gpus)"
        )
    return ""


def error_text(error: BaseException) -> str:
    """Return an error's message on one line of at most 300 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
