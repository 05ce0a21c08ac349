"""The journal: an append-only file of JSON lines, the experiment's only truth.

    {"event": "experiment", "id": ..., "config": {...}, "at": ...}
    {"event": "asked",    "run": ..., "trial": {...}, "suggest_seconds": ..., "at": ...}
    {"event": "started",  "run": ..., "trial": 3, "attempt": 1, "worker": ..., "at": ...}
    {"event": "finished", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "evaluation": {...}, "at": ...}
    {"event": "failed",   "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "timed_out", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "cancelled", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "lost",     "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "final": false, "at": ...}
    {"event": "ended",    "status": ..., "at": ...}

Contract: a result, and every other end of a trial, is on disk before anyone hears of it. A suggestion or a start is in
the file at once, and on disk with the next result at the latest: after a power failure the file ends at some record,
and what came later is asked again, the same, and trained again. One writer; the order of lines is the order of asks and
tells; `at` is seconds since the epoch. In the file each record also has its number `n`, from 1, so that a missing one
shows.
A last line that was cut off is dropped, on reading and before appending.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.paths import RunDirectory

Record = dict[str, Any]


class Journal:
    """The writer. Opening it cuts off a torn last line.

    Raises RunDirectoryError where a line before the last is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        records, self._whole = _parse(path) if path.exists() else ([], 0)
        self._count = len(records)
        self._trouble = ""
        self._file = path.open("ab", buffering=0)
        self._file.truncate(self._whole)

    def append(self, record: Mapping[str, Any], wait: bool = True) -> None:
        """Write one record and, with all before it, wait until it is on disk; if not `wait`, that may come later.

        Raises ExperimentFailed when the disk will not take it.
        """
        line = json.dumps({"n": self._count + 1, **record}, allow_nan=False, separators=(",", ":")) + "\n"
        try:
            if not self._trouble:
                self._write(line.encode(), wait)
        except OSError as error:
            self._trouble = f"{self.path} cannot be written ({error.strerror}): mend that and resume"
            with suppress(OSError):  # then it is the next driver that cuts off what is torn
                self._file.truncate(self._whole)
        if self._trouble:  # once a record is missing, none may follow
            raise ExperimentFailed(self._trouble)
        self._count += 1
        self._whole += len(line.encode())

    def _write(self, line: bytes, wait: bool) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[self._file.write(rest) :]
        if wait:
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more records."""
        self._file.close()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_journal(path: Path) -> list[Record]:
    """Every whole record, without its number.

    Raises RunDirectoryError where a line before the last is damaged, or a number shows that a line is missing.
    """
    return _parse(path)[0]


def experiment_records(directory: RunDirectory) -> list[Record]:
    """The journal's records, the first of which is the experiment's.

    Raises RunDirectoryError when there is no such journal, or it is damaged.
    """
    directory.check_present()
    records = read_journal(directory.journal)
    if not records or records[0]["event"] != "experiment" or not {"id", "config"} <= set(records[0]):
        raise RunDirectoryError(
            f"{directory.journal} does not begin with an experiment: it was cut off before anything ran; "
            f"remove {directory.root} and run the configuration again"
        )
    return records


def _parse(path: Path) -> tuple[list[Record], int]:
    """The whole records, and how many bytes of the file they are."""
    records: list[Record] = []
    whole = 0
    with path.open("rb") as file:
        lines = list(file)
    for number, line in enumerate(lines, start=1):
        if line.strip():
            record = _record(line)
            if record is None and number == len(lines):
                break
            if record is None:
                raise _damage(path, number, line, "is damaged")
            due = len(records) + 1
            if record.pop("n", due) != due:
                raise _damage(path, number, line, f"is not record {due}: a line is missing before it or was moved")
            records.append(record)
        whole += len(line)
    return records, whole


def _record(line: bytes) -> Record | None:
    """What a line says; None if it is not a whole record."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and "event" in record and line.endswith(b"\n") else None


def _damage(path: Path, number: int, line: bytes, what: str) -> RunDirectoryError:
    return RunDirectoryError(
        f"{path}, line {number} {what}: {line[:60]!r}. Lines before it are whole: to go on from there, keep a copy and "
        f"cut the file to its first {number - 1} lines"
    )
