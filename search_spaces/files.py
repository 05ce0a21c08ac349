"""How a file is written: whole, or not at all. It stands here because every room may import this one."""

import os
import socket
from contextlib import suppress
from pathlib import Path


def write_aside(path: Path, content: bytes, durable: bool = True, new: bool = False) -> None:
    """Write a file beside its place, then rename it: a reader sees the old or the new one, never half of it.

    Two processes, also on two hosts, may write it at once; one of theirs stays. The folder is made if it is missing.
    durable: whether it is on disk when this returns, so that it is whole after a power failure, too. new: whether it
    must not be there yet; who comes second, also from another host, then gets FileExistsError.
    Raises OSError when the disk will not take it; the old file is then as it was.
    """
    aside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if new:
            _link(aside, path)
        else:
            aside.replace(path)
    except OSError:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise


def _link(aside: Path, path: Path) -> None:
    """Give the file its place unless that is taken. A file system without links cannot tell: there it is replaced."""
    try:
        os.link(aside, path)
    except FileExistsError:
        raise
    except OSError:
        aside.replace(path)
    else:
        aside.unlink()
