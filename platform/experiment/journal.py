"""The journal: an append-only file of JSON lines, the experiment's only truth.

    {"event": "experiment", "id": ..., "format": 2, "config": {...}, "at": ...}
    {"event": "driver",   "work": ..., "fmnas": ..., "commit": ..., "python": ..., "torch": ..., "host": ...,
                          "sha256": {"problem": ..., "optimizers.LABEL": ...}, "at": ...}
    {"event": "asked",    "run": ..., "trial": {...}, "suggest_seconds": ..., "at": ...}
    {"event": "started",  "run": ..., "trial": 3, "attempt": 1, "worker": ..., "at": ...}
    {"event": "finished", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "evaluation": {...}, "at": ...}
    {"event": "failed",   "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "seconds": ..., "at": ...}
    {"event": "timed_out", ...}, as failed
    {"event": "cancelled", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "lost",     "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "final": false, "at": ...}
    {"event": "extended", "format": 2, "changes": {"repeats": [3, 5]}, "config": {...}, "at": ...}
    {"event": "ended",    "status": ..., "reason": ..., "at": ...}

`asked`: an optimizer suggested a trial. `started`: an attempt at it began on a worker. `finished`: it has a result.
`failed`, `timed_out`: it ended without one. `lost`: its worker was, `final` where the trial will not be tried again.
`cancelled`: a stop left it in the middle; a resume starts it again.
`experiment` and `extended` also hold, under `warm_start`, trials of earlier experiments that optimizers begin with;
such a trial is asked and finished, and never started.
`driver`: a driver begins, to work at the experiment, at an extension of it or at a retraining. `ended`: it leaves, and
may say why. `sha256` has the files of a user's own code that it works with; without any, and in older journals, it is
not there. `extended`: from here on the experiment has that configuration, in which something has grown.

Contract: a result, and every other end of a trial, is on disk before anyone hears of it. A suggestion or a start is in
the file at once, and on disk with the next result at the latest: after a power failure the file ends at some record,
and what came later is asked again, the same, and trained again. One writer; the order of lines is the order of asks and
tells; `at` is seconds since the epoch.
In the file each record also has its number `n`, from 1, so that a missing one shows, and last the CRC-32 of all that
stands before it, so that a changed one does. Only a last line without its newline was cut off; it is dropped, on
reading and before appending. A line that is lost may be replaced by {"event": "illegible"}: the others are then
followed without it.
Format 1 is that of journals without `format`, without checksums and `driver` records.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, one_line
from fmnas.platform.experiment.run_directory import RunDirectory

Record = dict[str, Any]

FORMAT = 2

BEGUN, ASKED, STARTED, DRIVER, ENDED = "experiment", "asked", "started", "driver", "ended"
EXTENDED, ILLEGIBLE = "extended", "illegible"
"""The events of the first record, a suggestion, an attempt, a driver that begins, one that leaves, an extension, a line
that is lost. Those of the end of a trial are its status."""

OWN_FILES = "sha256"
"""The key of a driver's record under which the files of a user's own code stand."""


class DriverWork(StrEnum):
    """What a driver works at."""

    EXPERIMENT = "experiment"
    EXTENSION = "extension"
    RETRAINING = "retraining"
    SYNC = "sync"


_NO_BEGINNING = (
    "The first line holds the configuration that the experiment began with, without which nothing can be followed"
)
_CHECKSUM = re.compile(rb',"crc":"([0-9a-f]{8})"}$')


class Journal:
    """The writer. Opening it cuts off a torn last line.

    Raises RunDirectoryError where any other line is damaged, and where the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        there, read = path.exists(), _Reading(path)
        self._count = sum(1 for _ in read) if there else 0
        self._whole = read.whole
        self._trouble = ""
        try:
            self._file = path.open("ab", buffering=0)
            self._file.truncate(self._whole)
        except OSError as error:
            raise RunDirectoryError(
                f"{path} cannot be written ({error.strerror}): mend that, or go on as the user whose file it is"
            ) from None
        if not there:
            _sync_folder(path.parent)

    def append(self, record: Mapping[str, Any], wait: bool = True) -> None:
        """Write one record and, with all before it, wait until it is on disk; if not `wait`, that may come later.

        Raises ExperimentFailed when the disk will not take it, or it is no plain JSON.
        """
        try:
            line = _line({"n": self._count + 1, **record})
        except (TypeError, ValueError) as error:
            whose = f"{record['event']} of {record.get('run', 'the driver')}"
            raise ExperimentFailed(
                f"{whose}: it holds what no journal can ({one_line(error)}): give Python's own numbers, and no NaN"
            ) from error
        try:
            if not self._trouble:
                self._write(line, wait)
        except OSError as error:
            self._trouble = f"{self.path} cannot be written ({error.strerror}): mend that and resume"
            with suppress(OSError):  # then it is the next driver that cuts off what is torn
                self._file.truncate(self._whole)
        if self._trouble:  # once a record is missing, none may follow
            raise ExperimentFailed(self._trouble)
        self._count += 1
        self._whole += len(line)

    def _write(self, line: bytes, wait: bool) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]
        if wait:
            os.fsync(self._file.fileno())

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_journal(path: Path) -> list[Record]:
    """Every whole record, without its number and checksum.

    Raises RunDirectoryError where a line is damaged or was changed, or a number shows that one is missing.
    """
    return list(_Reading(path))


def experiment_records(directory: RunDirectory) -> list[Record]:
    """The journal's records, the first of which is the experiment's.

    Raises RunDirectoryError when there is no such journal, or it is damaged.
    """
    directory.check_present()
    records = read_journal(directory.journal)
    if not records or records[0]["event"] != BEGUN or not {"id", "config"} <= set(records[0]):
        raise RunDirectoryError(
            f"{directory.journal} does not begin with an experiment: it was cut off before anything ran; "
            f"remove {directory.root} and run the configuration again"
        )
    for record in stages(records):
        written = record.get("format", 1)
        if not isinstance(written, int) or written > FORMAT:
            raise RunDirectoryError(
                f"{directory.journal} is of a newer fmnas: its format is {written!r}, and this fmnas "
                f"{version('fmnas')} reads formats up to {FORMAT}; install the newer one"
            )
    return records


def stages(records: Sequence[Record]) -> list[Record]:
    """Those that hold a configuration: with which the experiment began, and to which it has grown, in turn."""
    return [records[0], *(record for record in records if record["event"] == EXTENDED)]


class _Reading:
    """The whole records of a file, one after the other. whole: how many bytes of it they were, so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.whole = 0

    def __iter__(self) -> Iterator[Record]:
        count, sealed = 0, False
        with self._path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    return  # the last one, and torn
                if line.strip():
                    record, has_checksum = self._record(number, line)
                    sealed = sealed or "format" in record
                    if record["event"] != ILLEGIBLE:
                        if sealed and not has_checksum:
                            raise self._damage(number, line, "has lost its checksum: it was changed")
                        sealed = has_checksum
                    count += 1
                    written = record.pop("n", count)
                    if written != count:
                        raise self._out_of_order(number, count, written, _numbered(file, number))
                    yield record
                self.whole += len(line)

    def _record(self, number: int, line: bytes) -> tuple[Record, bool]:
        """What a line says, and whether it has a checksum."""
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or "event" not in record:
            raise self._damage(number, line, "is damaged")
        text = line.rstrip()
        found = _CHECKSUM.search(text)
        if record.pop("crc", None) is None:
            return record, False
        if found is None or int(found[1], 16) != zlib.crc32(text[: found.start()]):
            raise self._damage(number, line, "was changed: its checksum is of something else")
        return record, True

    def _out_of_order(self, number: int, count: int, written: object, later: Mapping[int, int]) -> RunDirectoryError:
        """A line that is doubled or was moved, or before which some are missing.

        number: of the line. count: of the record that belongs there. written: of the one that is there. later: record
        -> line, of what comes after it.
        """
        what = f"{self._path}, line {number} is not record {count}: it is record {written!r}"
        if not isinstance(written, int) or written < count:
            step = f"it stands there a second time, since all before it are there: delete line {number}"
        elif count in later:
            step = f"record {count} was moved to line {later[count]}: move that line back, to just before line {number}"
        elif number == 1:
            step = f"{_NO_BEGINNING}: put it back as it was"
        else:
            missing = next(k for k in range(1, written - count + 1) if count + k == written or count + k in later)
            lines = f"{missing} line{'s' * (missing > 1)}"
            step = (
                f"{lines} before it cannot be found: put what is missing back, or insert {lines} "
                f'{{"event":"{ILLEGIBLE}"}} just before line {number}. What was said there is lost, and what comes '
                f"after it is kept where it can be followed without. If it cannot, cut the file to its first "
                f"{number - 1} lines"
            )
        return RunDirectoryError(f"{what}. Keep a copy; {step}")

    def _damage(self, number: int, line: bytes, what: str) -> RunDirectoryError:
        if number == 1:
            return RunDirectoryError(
                f"{self._path}, line 1 {what}: {line[:60]!r}. {_NO_BEGINNING}: put it back as it was"
            )
        return RunDirectoryError(
            f"{self._path}, line {number} {what}: {line[:60]!r}. Keep a copy; then put the line back as it was, or put "
            f'{{"event":"{ILLEGIBLE}"}} in its place: what it said is lost, and the lines after it are kept where they '
            f"can be followed without it. If they cannot, cut the file to its first {number - 1} lines"
        )


def _numbered(lines: Iterable[bytes], before: int) -> dict[int, int]:
    """Record -> line, of the lines of a journal that come after line `before`; damaged ones are passed over."""
    found: dict[int, int] = {}
    for number, line in enumerate(lines, start=before + 1):
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("n"), int):
                found.setdefault(record["n"], number)
    return found


def _line(record: Mapping[str, Any]) -> bytes:
    body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()[:-1]
    return body + b',"crc":"%08x"}\n' % zlib.crc32(body)


def _sync_folder(folder: Path) -> None:
    """A new file is found again after a power failure only when its folder is on disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
