"""Atomic writes of files. The module is here because every package may import this one."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def write_aside(path: Path, content: bytes, durable: bool = True) -> None:
    """Write a temporary file and rename it: a reader sees the old or the new content, never a part of it.

    Several processes, also on different hosts, may write concurrently: the last one wins. Missing folders are created.
    durable: sync to disk before returning, so that the file survives a power failure. Raises OSError if the write
    fails; the old file is kept.
    """
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
        if durable:
            sync_folder(path.parent)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk, if the file system can: a new name survives a power failure only then."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
