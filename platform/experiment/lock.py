"""One driver at a time in a run directory: a lock held by the operating system, and driver.json about its holder.

The lock of a process that dies is free at once. driver.json says who holds it, for messages and `fmnas status`; it is
updated every few seconds and deleted at the end.
"""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory, read_json
from fmnas.search_spaces.files import write_aside

HEARTBEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""A driver whose lock cannot be checked counts as dead if driver.json is older than this."""
ACQUIRE_SECONDS = 1.0


@contextmanager
def driver_lock(directory: RunDirectory, work: str) -> Iterator[None]:
    """Hold the lock of a run directory. work: a `DriverWork`.

    Raises RunDirectoryError if another process holds it, or the file system cannot lock.
    """
    lock = FileLock(directory.lock, timeout=ACQUIRE_SECONDS, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        driver = _read_holder(directory.driver)
        who = f"process {driver['pid']} on {driver['host']}" if driver else "another process"
        if driver and (driver["pid"], driver["host"]) == (os.getpid(), socket.gethostname()):
            who = "another thread of this process"
        raise RunDirectoryError(
            f"{directory.root} is in use by {who}: wait for it, or stop it there, and then repeat this command"
        ) from None
    except OSError as error:
        raise RunDirectoryError(
            f"{directory.lock} cannot be locked ({error}): make it writable, or use a file system with locks"
        ) from None
    try:
        update_driver(directory, work=work, since=time.time())
        yield
    finally:
        with suppress(OSError):  # a disk that became read-only: the file is only informative
            directory.driver.unlink()
        lock.release()


@contextmanager
def heartbeat(directory: RunDirectory, facts: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Within the context, a thread updates driver.json with the facts every HEARTBEAT_SECONDS."""
    is_over = threading.Event()

    def update() -> None:
        while True:
            update_driver(directory, **facts())
            if is_over.wait(HEARTBEAT_SECONDS):
                return

    thread = threading.Thread(target=update, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def update_driver(directory: RunDirectory, **facts: Any) -> None:
    """Write driver.json: host, pid, the time of writing as `heartbeat`, and the facts. The lock must be held."""
    driver = {"host": socket.gethostname(), "pid": os.getpid(), "heartbeat": time.time(), **facts}
    with suppress(OSError):  # a full disk: the file is only informative
        write_aside(directory.driver, json.dumps(driver).encode(), durable=False)


def read_driver(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the content of driver.json if a driver is at work; None otherwise. Nothing is written."""
    driver = _read_holder(directory.driver)
    if driver is None:
        return None
    try:
        with FileLock(directory.lock, timeout=0, fallback_to_soft=False):
            return None
    except Timeout:
        return driver
    except OSError:  # a directory of another user, say
        return driver if time.time() - driver["heartbeat"] < STALE_SECONDS else None


def _read_holder(path: Path) -> dict[str, Any] | None:
    driver = read_json(path)
    return driver if {"host", "pid", "heartbeat"} <= set(driver) else None
