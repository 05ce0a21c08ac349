"""The journal: append-only, whole lines, torn ends dropped."""

import json
from pathlib import Path

import pytest

from fmnas.platform.errors import RunDirectoryError
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


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00", b'{"event": ', b"nonsense\n", b"[1]\n", b"\n"])
def test_garbage_at_the_end_is_dropped(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(write(path) + garbage)
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
        assert json.loads((tmp_path / "j").read_text()) == RECORDS[0]
