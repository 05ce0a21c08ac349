"""A worker process's memory: what it had better keep, and what it gives back to others.

glibc's allocator, by default, gives a step's large buffers back to the system and asks for them again, page by page: on
CPUs that was 4 to 20% of a step of the largest cell. It is a matter of the whole process, so a worker process tells it
to keep them when it begins; a library must not. No number changes.

torch keeps what it took of a GPU. It is asked only where something else has loaded it: a worker of a problem that
trains no network starts without, in a third of the time.
"""

import ctypes
import logging
import os
import sys

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
MMAP_BYTES = 32 * 2**20  # the most that glibc takes
TRIM_BYTES = 2**30
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_memory() -> bool:
    """Ask glibc to reuse buffers of up to 32 MB, and to keep up to 1 GB of freed memory. Whether it does.

    Elsewhere than on glibc nothing is done, nor where the environment says how it is to be (`VARIABLES`).
    """
    told = [name for name in VARIABLES if name in os.environ]
    if told:
        logger.info("the allocator is left as %s says", ", ".join(told))
        return False
    if not _on_glibc():
        logger.info("the allocator is not glibc's: it is left as it is")
        return False
    mallopt = ctypes.CDLL(None).mallopt
    kept = bool(mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, TRIM_BYTES))
    logger.info("the allocator %s", "keeps freed memory" if kept else "would not keep freed memory")
    return kept


def _on_glibc() -> bool:
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (AttributeError, ValueError, OSError):  # not of this system
        return False


def give_back_memory() -> None:
    """Let other processes have what torch keeps of a GPU and does not use. Without a GPU in use there is nothing."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    try:
        torch.cuda.empty_cache()
    except RuntimeError as error:
        logger.warning("the GPU's unused memory could not be given back: %s", words(error))


def words(error: BaseException) -> str:
    """What an error says, on one line and not too long."""
    return (" ".join(str(error).split()) or type(error).__name__)[:300]
