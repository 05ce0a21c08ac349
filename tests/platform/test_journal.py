"""The journal: append-only, whole lines, torn ends dropped."""

import errno
import json
import os
from pathlib import Path

import pytest

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.journal import Journal, read_journal

RECORDS = [{"event": "asked", "run": "a/repeat-0", "trial": {"id": i}, "at": 0.1 + i} for i in range(4)]


def write(path: Path) -> bytes:
    with Journal(path) as journal:
        for record in RECORDS:
            journal.append(record)
    return path.read_bytes()


def test_records_come_back_as_written(tmp_path: Path) -> None:
    write(tmp_path / "j")
    assert read_journal(tmp_path / "j") == RECORDS


def test_cut_at_every_byte_of_the_last_record_loses_that_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write(path)
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_journal(path) == RECORDS[:3]
        with Journal(path) as journal:
            journal.append({"event": "more"})
        assert read_journal(path) == [*RECORDS[:3], {"event": "more"}]


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00", b"\xff\r", b'{"event": ', b"nonsense\n", b"[1]\n", b"\n", b" "])
def test_garbage_at_the_end_is_dropped_and_what_comes_next_is_kept(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(write(path) + garbage)
    assert read_journal(path) == RECORDS
    with Journal(path) as journal:
        journal.append({"event": "more"})
    assert read_journal(path) == [*RECORDS, {"event": "more"}]


@pytest.mark.parametrize("missing", range(3))
def test_a_missing_line_is_named(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "j"
    lines = write(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:missing] + lines[missing + 1 :]))
    message = f"line {missing + 1} is not record {missing + 1}: .*its first {missing} lines"
    with pytest.raises(RunDirectoryError, match=message):
        read_journal(path)
    before = path.read_bytes()
    with pytest.raises(RunDirectoryError, match=message):
        Journal(path)
    assert path.read_bytes() == before


def test_a_journal_without_numbers_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    assert read_journal(path) == RECORDS
    with Journal(path) as journal:
        journal.append({"event": "more"})
    assert json.loads(path.read_text().splitlines()[-1]) == {"n": 5, "event": "more"}


def test_a_full_disk_ends_the_experiment_in_words_and_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "j"
    write(path)
    with Journal(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(ExperimentFailed, match=r"No space left on device.*resume"):
                journal.append({"event": "more"})
        with pytest.raises(ExperimentFailed, match=r"No space left on device"):
            journal.append({"event": "more"})  # whatever happens to the disk meanwhile: a resume finds out
    assert read_journal(path) == RECORDS


def test_damage_inside_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = write(path).split(b"\n")
    lines[1] = lines[1][:5]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RunDirectoryError, match="line 2 is damaged"):
        read_journal(path)


def test_values_that_json_does_not_know_are_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal, pytest.raises(ValueError, match="not JSON compliant"):
        journal.append({"event": "finished", "objective": float("nan")})
    assert (tmp_path / "j").read_bytes() == b""


def test_a_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(RECORDS[0])
        assert json.loads((tmp_path / "j").read_text()) == {"n": 1, **RECORDS[0]}


def test_a_result_waits_for_the_disk_and_takes_what_came_before_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append(RECORDS[0], wait=False)
        assert json.loads(path.read_text()) == {"n": 1, **RECORDS[0]}  # whoever reads the file, or is killed, has it
        assert sizes == []
        journal.append(RECORDS[1])
        assert sizes == [path.stat().st_size]
