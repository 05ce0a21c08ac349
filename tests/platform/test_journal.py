"""The journal: events come back as written, incomplete ends are dropped, any other damage is refused."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import write_journal

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.events import FORMAT, Asked, Begun, Ended, Event, Finished
from fmnas.platform.experiment.journal import Journal, read_events, read_journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.search_spaces import Evaluation, Trial

EVENTS: list[Event] = [
    Begun("a", FORMAT, {"seed": 1}, 0.1),
    *(Asked("a/repeat-0", Trial(i, {"x": i / 3}, 1, "random"), 0.5, 0.1 + i) for i in range(3)),
]
MORE = Ended("finished", 9.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal of EVENTS."""
    write_journal(tmp_path / "j", EVENTS)
    return tmp_path / "j"


def append(path: Path, event: Event = MORE) -> None:
    with Journal(path) as journal:
        journal.append(event)


def refuse(path: Path, line: int) -> None:
    """Both the reader and the writer name the line and the way on, and leave the file unchanged."""
    before = path.read_bytes()
    way_on = "run the configuration again" if line == 1 else f"first {line - 1} lines"
    for read in (read_journal, Journal):
        with pytest.raises(RunDirectoryError, match=f"line {line}:.*{way_on}"):
            read(path)
    assert path.read_bytes() == before


def test_a_cut_within_the_last_line_loses_that_event_alone(path: Path) -> None:
    whole = path.read_bytes()
    for cut in range(whole.rstrip(b"\n").rfind(b"\n") + 1, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert read_journal(path) == EVENTS[:3]
        append(path)
        assert read_journal(path) == [*EVENTS[:3], MORE]


@pytest.mark.parametrize("garbage", [b"\x00\xff\r", b'{"event": '])
def test_an_incomplete_last_line_is_dropped(path: Path, garbage: bytes) -> None:
    path.write_bytes(path.read_bytes() + garbage)
    assert read_journal(path) == EVENTS
    append(path)
    assert read_journal(path) == [*EVENTS, MORE]


@pytest.mark.parametrize("garbage", [b"nonsense\n", b"{}\n", b"\n"])
def test_a_complete_last_line_that_is_damaged_is_refused(path: Path, garbage: bytes) -> None:
    path.write_bytes(path.read_bytes() + garbage)
    refuse(path, 5)


@pytest.mark.parametrize(("order", "line"), [([1, 2, 3], 1), ([0, 1, 1, 2, 3], 3), ([0, 2, 1, 3], 2)])
def test_a_missing_repeated_or_moved_line_is_refused(path: Path, order: list[int], line: int) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in order))
    refuse(path, line)


@settings(max_examples=40)
@given(st.integers(0), st.integers(1, 255))
def test_any_changed_byte_is_refused(place: int, change: int) -> None:
    """Except the last newline, without which the last line is incomplete."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        write_journal(path, EVENTS)
        content = bytearray(path.read_bytes())
        place %= len(content)
        content[place] ^= change
        path.write_bytes(content)
        if place == len(content) - 1:
            assert read_journal(path) == EVENTS[:3]
            return
        with pytest.raises(RunDirectoryError, match=r"line [1-4]:"):
            read_journal(path)


def test_a_digit_that_was_changed_is_named_with_its_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"id":1', b'"id":7'))
    refuse(path, 3)


@pytest.mark.parametrize("events", [[], EVENTS[1:], [Begun("a", FORMAT + 1, {}, 0.1)]])
def test_a_journal_without_a_beginning_or_of_a_newer_format_is_refused(tmp_path: Path, events: list[Event]) -> None:
    directory = RunDirectory(tmp_path)
    write_journal(directory.journal, events)
    with pytest.raises(RunDirectoryError, match=r"journal\.jsonl"):
        read_events(directory)


class FullDisk:
    """A file to which `space` more bytes can be written."""

    def __init__(self, file: Any, space: int) -> None:
        self._file, self._space = file, space

    def write(self, data: Any) -> int:
        if not self._space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = int(self._file.write(data[: self._space]))
        self._space -= written
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("space", [0, 1, 20])
def test_a_full_disk_cuts_off_the_torn_record_and_none_before_it(path: Path, space: int) -> None:
    with Journal(path) as journal:
        journal.append(MORE)
        whole, file = path.read_bytes(), journal._file
        journal._file = FullDisk(file, space)  # type: ignore[assignment]
        with pytest.raises(ExperimentFailed, match="No space left"):
            journal.append(MORE)
        assert path.read_bytes() == whole
        journal._file = file
        with pytest.raises(ExperimentFailed, match="No space left"):  # once an event is missing, none may follow
            journal.append(MORE)
    append(path)
    assert read_journal(path) == [*EVENTS, MORE, MORE]


def test_a_disk_that_fails_to_sync_ends_the_experiment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(ExperimentFailed, match="No space left"):
            journal.append(MORE)
    assert read_journal(path) == EVENTS


@pytest.mark.parametrize("value", [float("nan"), np.int64(3)])
def test_values_that_json_does_not_know_are_refused(tmp_path: Path, value: Any) -> None:
    with Journal(tmp_path / "j") as journal:
        with pytest.raises(ExperimentFailed, match="Finished of r/0"):
            journal.append(Finished("r/0", 0, 1, "w", Evaluation(value), 1.0))
        assert (tmp_path / "j").read_bytes() == b""
        journal.append(EVENTS[0])
    assert read_journal(tmp_path / "j") == EVENTS[:1]


def test_a_journal_that_cannot_be_written_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def open_refused(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if "a" in mode:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", open_refused)
    with pytest.raises(RunDirectoryError, match="Permission denied"):
        Journal(path)


def record_syncs(monkeypatch: pytest.MonkeyPatch, what: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: results.append(what(descriptor)))
    return results


def test_a_new_journal_is_in_its_folder_after_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inodes = record_syncs(monkeypatch, lambda descriptor: os.fstat(descriptor).st_ino)
    for _ in range(2):
        with Journal(tmp_path / "j"):
            assert inodes == [tmp_path.stat().st_ino]


def test_a_result_waits_for_the_disk_and_takes_earlier_events_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        sizes = record_syncs(monkeypatch, lambda descriptor: os.fstat(descriptor).st_size)
        journal.append(EVENTS[0], wait=False)
        assert read_journal(path) == EVENTS[:1]
        assert sizes == []
        journal.append(EVENTS[1])
        assert read_journal(path) == EVENTS[:2]
        assert sizes == [path.stat().st_size]
