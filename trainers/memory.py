"""glibc's allocator, told to keep the memory that a training frees.

A step's large buffers are of the same sizes as the last one's. By default glibc gives each back to the system and asks
for it again, page by page: on CPUs that was 4 to 20% of a step of the largest cell. It is a matter of the whole
process, so a worker process says it for itself when it begins; a library must not. No number changes.
"""

import ctypes
import logging
import os

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
