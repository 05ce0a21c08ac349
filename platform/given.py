"""Run directories as they are named on a command line: looked at before anything else is done with them."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fmnas.platform.config_errors import cut
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.paths import RunDirectory

LONGEST_NAME = 255
"""Bytes of a file's name, on Linux."""


def run_directory(path: Path, write: bool = False) -> RunDirectory:
    """A directory that holds an experiment and can be read; and written, if that is to be done.

    Raises RunDirectoryError for any other; nothing is touched.
    """
    directory = RunDirectory(path)
    with looked_at(path):
        directory.check_present()
        for file in (directory.journal, directory.config, directory.lock):
            if file.exists():
                file.open("rb").close()
    if write and not os.access(path, os.W_OK, effective_ids=True):
        raise RunDirectoryError(
            f"{cut(str(path))} cannot be written by you: copy it to a place that can, or ask its owner; a report "
            "alone can be written elsewhere with --out DIR"
        )
    return directory


def new_run_directory(path: Path) -> RunDirectory:
    """A directory to run an experiment in. Raises RunDirectoryError where something is there, or nobody may look."""
    directory = RunDirectory(path)
    with looked_at(path, "with --out DIR"):
        directory.check_absent()
    return directory


@contextmanager
def looked_at(path: Path, how: str = "") -> Iterator[None]:
    """Raise RunDirectoryError where the block cannot look at the path: its name is too long, or it is another's.

    how: to give another, where that is not plain.
    """
    try:
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in path.parts):  # also below a folder that is yet to be
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        yield
    except OSError as error:
        step = "give a shorter name" if error.errno == errno.ENAMETOOLONG else "give one that you may read"
        raise RunDirectoryError(
            f"directory {cut(str(path))} cannot be looked at ({error.strerror}): {step} {how}".rstrip()
        ) from None
