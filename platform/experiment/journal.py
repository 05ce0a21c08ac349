"""The journal: an append-only file of JSON lines, one per event, from which everything else can be rebuilt.

    {"event": "asked", "run": "bo-fm/repeat-0", "trial": {...}, "suggest_seconds": 0.1, "at": 1735689600.0, "crc": ...}

`events` describes the events. Write-ahead: a result, and every other end of a trial, is on disk before anyone sees it.
A suggestion and a start are written at once and are on disk with the next result at the latest; after a power failure
the file ends at some line, and what came later is suggested and trained again.
A simulation writes each event at once, too, so a killed process loses none, but waits for the disk at most once a
second: what a power failure takes is computed again in as much time.
Each line ends with a CRC-32 of all lines up to and including itself, so a changed, missing, moved or repeated line is
detected. A last line without its newline is incomplete; it is dropped when reading and before appending.
"""

import json
import math
import os
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from importlib.metadata import version
from pathlib import Path

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, one_line
from fmnas.platform.experiment.events import FORMAT, Begun, Event, Extended, event_from_dict, event_to_dict
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.search_spaces.files import sync_folder

_CHECKSUM_BYTES = len(b',"crc":"00000000"}\n')


class Journal(AbstractContextManager["Journal"]):
    """Writes events. Opening an existing file drops an incomplete last line.

    sync_seconds: `append` waits for the disk at most once in this time; 0: as often as it is asked to. elapsed:
    monotonic seconds.

    Raises RunDirectoryError if another line is damaged, or the file cannot be written.
    """

    def __init__(self, path: Path, sync_seconds: float = 0.0, elapsed: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._sync_seconds, self._elapsed, self._next_sync = sync_seconds, elapsed, -math.inf
        is_new, existing = not path.exists(), JournalReader(path)
        if not is_new:
            deque(existing.lines(), maxlen=0)  # checks them
        self._checksum, self._valid_bytes, self._write_error = existing.checksum, existing.valid_bytes, ""
        try:
            self._file = path.open("ab", buffering=0)
            self._file.truncate(self._valid_bytes)
        except OSError as error:
            raise RunDirectoryError(
                f"{path} cannot be written ({error.strerror}): fix that, or run as the user who owns the file"
            ) from None
        if is_new:
            sync_folder(path.parent)

    def append(self, event: Event, wait: bool = True) -> None:
        """Write an event. wait: whether to return only when it, and all before it, is on disk; see sync_seconds.

        Raises ExperimentFailed if the disk does not take it, or it cannot be written as JSON.
        """
        try:
            has_options = isinstance(event, Begun | Extended)  # one of which may be infinite
            text = json.dumps(event_to_dict(event), allow_nan=has_options, separators=(",", ":"))
            body = text.encode()[:-1]
        except (TypeError, ValueError) as error:
            name = f"{type(event).__name__} of {getattr(event, 'run', 'the driver')}"
            raise ExperimentFailed(
                f"{name}: it cannot be written as JSON ({one_line(error)}): use Python numbers, and no NaN"
            ) from error
        checksum = zlib.crc32(body, self._checksum)
        line = rest = body + _checksum_part(checksum)
        if not self._write_error:
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
                if wait and self._elapsed() >= self._next_sync:
                    os.fsync(self._file.fileno())
                    self._next_sync = self._elapsed() + self._sync_seconds
            except OSError as error:
                self._write_error = f"{self.path} cannot be written ({error.strerror}): fix that and resume"
                with suppress(OSError):  # if this fails, too, the next driver drops the incomplete line
                    self._file.truncate(self._valid_bytes)
        if self._write_error:  # once an event is missing, none may follow
            raise ExperimentFailed(self._write_error)
        self._checksum = checksum
        self._valid_bytes += len(line)

    def __exit__(self, *_: object) -> None:
        if self._sync_seconds:
            with suppress(OSError):  # a full disk: the last `append` has raised
                os.fsync(self._file.fileno())
        self._file.close()


class JournalReader:
    """Reads a journal that may still grow. checksum, valid_bytes: of the lines so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.checksum, self.valid_bytes, self._count = 0, 0, 0

    def read(self) -> list[Event]:
        """Return the complete events that were appended since the last call.

        Raises RunDirectoryError, naming the line, if one is damaged.
        """
        events = []
        for line in self.lines():
            try:
                events.append(event_from_dict(json.loads(line[:-_CHECKSUM_BYTES] + b"}")))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise RunDirectoryError(
                    f"{self._path}, line {self._count}: not an event that fmnas {version('fmnas')} knows "
                    f"({one_line(error)}): use the version that wrote it"
                ) from None
        return events

    def lines(self) -> Iterator[bytes]:
        """Yield the complete lines that were appended, once their checksums are checked."""
        with self._path.open("rb") as file:
            file.seek(self.valid_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                checksum = zlib.crc32(line[:-_CHECKSUM_BYTES], self.checksum)
                if line[-_CHECKSUM_BYTES:] != _checksum_part(checksum):
                    cut = f"keep a copy, cut it to its first {self._count} lines, and resume from there"
                    way_on = cut if self._count else f"remove {self._path.parent} and run the configuration again"
                    raise RunDirectoryError(
                        f"{self._path}, line {self._count + 1}: checksum mismatch, {line[:60]!r}: this line was "
                        f"changed, or a line is missing or misplaced before it. Restore the file; or {way_on}"
                    )
                self.checksum, self._count = checksum, self._count + 1
                self.valid_bytes += len(line)
                yield line


def read_journal(path: Path) -> list[Event]:
    """Return every complete event. Raises RunDirectoryError, naming the line, if one is damaged."""
    return JournalReader(path).read()


def read_events(directory: RunDirectory) -> list[Event]:
    """Return the events of an experiment, the first of which is `Begun`.

    Raises RunDirectoryError if there is no journal, or it is damaged or of a newer format.
    """
    directory.check_present()
    events = read_journal(directory.journal)
    if not events or not isinstance(events[0], Begun):
        raise RunDirectoryError(
            f"{directory.journal} does not begin with an experiment: remove {directory.root} and run the configuration "
            "again"
        )
    if events[0].format > FORMAT:
        raise RunDirectoryError(
            f"{directory.journal} has format {events[0].format}, and fmnas {version('fmnas')} reads formats up to "
            f"{FORMAT}: install a newer version"
        )
    return events


def _checksum_part(checksum: int) -> bytes:
    return b',"crc":"%08x"}\n' % checksum
