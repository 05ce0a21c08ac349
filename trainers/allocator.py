"""Memory of a worker process: what glibc's allocator keeps for reuse, and what torch gives back.

By default, glibc returns a step's large buffers to the system and requests them again, which costs 4 to 20% of a step
of the largest cell on CPUs. The setting is of the whole process, so worker processes change it and a library must not.
No number changes.

torch keeps GPU memory that it does not use; it is asked to release it only if something else has imported torch.
"""

import ctypes
import logging
import os
import sys

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MMAP_BYTES = 32 * 2**20  # glibc's maximum
TRIM_BYTES = 2**30
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def tune_malloc() -> bool:
    """Make glibc reuse buffers of up to 32 MB and keep up to 1 GB of freed memory. Return whether it will.

    Nothing happens with another allocator, or if an environment variable of VARIABLES configures it.
    """
    configured = [name for name in VARIABLES if name in os.environ]
    if configured:
        logger.info("the allocator is configured by %s", ", ".join(configured))
        return False
    if not _is_glibc():
        logger.info("the allocator is not glibc's and remains unchanged")
        return False
    mallopt = ctypes.CDLL(None).mallopt
    is_tuned = bool(mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, TRIM_BYTES))
    logger.info("the allocator %s", "keeps freed memory" if is_tuned else "refused to keep freed memory")
    return is_tuned


def _is_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # not on this system
        return False


def release_gpu_cache() -> None:
    """Release the GPU memory that torch has cached and does not use, for other processes."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    try:
        torch.cuda.empty_cache()
    except RuntimeError as error:
        logger.warning("the GPU's cached memory could not be released: %s", error_text(error))


def error_text(error: BaseException) -> str:
    """Return an error's message on one line of at most 300 characters."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
