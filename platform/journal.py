"""The journal: an append-only file of JSON lines, the experiment's only truth.

    {"event": "experiment", "id": ..., "config": {...}, "at": ...}
    {"event": "asked",    "run": ..., "trial": {...}, "suggest_seconds": ..., "at": ...}
    {"event": "started",  "run": ..., "trial": 3, "attempt": 1, "worker": ..., "at": ...}
    {"event": "finished", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "evaluation": {...}, "at": ...}
    {"event": "failed",   "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "timed_out", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "cancelled", "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "at": ...}
    {"event": "lost",     "run": ..., "trial": 3, "attempt": 1, "worker": ..., "reason": ..., "final": false, "at": ...}

Contract: a record is on disk before anyone acts on it; one writer; the order of lines is the order of asks and tells;
`at` is seconds since the epoch. A last line that was cut off is dropped, on reading and before appending.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fmnas.platform.errors import RunDirectoryError

Record = dict[str, Any]


class Journal:
    """The writer. Opening it cuts off a torn last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        whole = _whole_bytes(path) if path.exists() else 0
        self._file = path.open("ab")
        self._file.truncate(whole)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record and wait until it is on disk."""
        line = json.dumps(record, allow_nan=False, separators=(",", ":")) + "\n"
        self._file.write(line.encode())
        self._file.flush()
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
    """Every whole record. Raises RunDirectoryError where a line before the last is damaged."""
    records = []
    lines = path.read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        last = number >= len(lines) - 1
        if not line:
            continue
        try:
            record = json.loads(line)
            if not isinstance(record, dict) or "event" not in record:
                raise ValueError("not a record")
        except ValueError:
            if last:
                break
            raise RunDirectoryError(
                f"{path}, line {number} is damaged: {line[:60]!r}. Lines before it are whole: to go on from there, "
                f"keep a copy and cut the file to its first {number - 1} lines"
            ) from None
        if number == len(lines):  # no newline after it: the write was cut off
            break
        records.append(record)
    return records


def _whole_bytes(path: Path) -> int:
    """Bytes up to and including the last line that ends with a newline and parses."""
    data = path.read_bytes()
    end = data.rfind(b"\n") + 1
    start = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    try:
        if end:
            json.loads(data[start:end])
    except ValueError:
        return start
    return end
