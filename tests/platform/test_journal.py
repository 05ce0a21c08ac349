"""The journal: append-only, whole lines, torn ends dropped."""

import errno
import json
import os
import re
import tempfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.journal import Journal, read_journal

HEAD: dict[str, Any] = {"event": "experiment", "id": "a", "format": 2}
RECORDS = [HEAD, *({"event": "asked", "run": "a/repeat-0", "trial": {"id": i}, "at": 0.1 + i} for i in range(1, 4))]


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


@pytest.mark.parametrize("garbage", [b"\x00\x00\x00", b"\xff\r", b'{"event": ', b"\n", b" "])
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
    advice = f"its first {missing} lines" if missing else "put it back as it was"
    message = f"line {missing + 1} is not record {missing + 1}: .*{advice}"
    with pytest.raises(RunDirectoryError, match=message):
        read_journal(path)
    before = path.read_bytes()
    with pytest.raises(RunDirectoryError, match=message):
        Journal(path)
    assert path.read_bytes() == before


ILLEGIBLE_LINE = b'{"event":"illegible"}\n'


def follow_advice(path: Path) -> int:
    """Do what the messages say until the journal can be read; how often that took."""
    for steps in range(20):
        try:
            read_journal(path)
        except RunDirectoryError as error:
            told, lines = str(error), path.read_bytes().splitlines(keepends=True)
            if moved := re.search(r"move that line back, to just before line (\d+)", told):
                (source,) = re.findall(r"was moved to line (\d+)", told)
                lines.insert(int(moved[1]) - 1, lines.pop(int(source) - 1))
            elif double := re.search(r"delete line (\d+)", told):
                del lines[int(double[1]) - 1]
            else:
                ((count, place),) = re.findall(r"insert (\d+) lines? .* just before line (\d+)", told)
                lines[int(place) - 1 : int(place) - 1] = [ILLEGIBLE_LINE] * int(count)
            path.write_bytes(b"".join(lines))
        else:
            return steps
    raise AssertionError("the advice does not help")


@given(st.data())
def test_what_is_advised_for_lines_out_of_order_helps(data: st.DataObject) -> None:
    """Lines missing, doubled and moved, one or several: each record that is there is kept, and each once."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        with Journal(path) as journal:
            for i in range(8):
                journal.append({**HEAD, "number": i} if i == 0 else {"event": "more", "number": i})
        lines = path.read_bytes().splitlines(keepends=True)
        places = st.integers(1, len(lines) - 1)
        damaged = list(lines)
        for damage in data.draw(st.lists(st.sampled_from(["miss", "double", "move"]), min_size=1, max_size=2)):
            place, other = (data.draw(places.map(lambda i: min(i, len(damaged) - 1))) for _ in range(2))
            if damage == "miss":
                del damaged[place]
            elif damage == "double":
                damaged.insert(other, damaged[place])
            else:
                damaged.insert(other, damaged.pop(place))
        path.write_bytes(b"".join(damaged))
        follow_advice(path)
        kept = [record["number"] for record in read_journal(path) if record["event"] != "illegible"]
        assert kept == [i for i, line in enumerate(lines) if line in damaged]
        with Journal(path) as journal:
            journal.append({"event": "last"})
        assert read_journal(path)[-1] == {"event": "last"}


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ([0, 1, 1, 2, 3], "line 3 is not record 3: it is record 2.* delete line 3$"),
        ([0, 2, 3], "line 2 is not record 2: it is record 3.* insert 1 line .* just before line 2"),
        ([0, 3], "line 2 is not record 2: it is record 4.* insert 2 lines .* just before line 2"),
        ([0, 2, 1, 3], "line 2 is not record 2: it is record 3.* moved to line 3: move .* just before line 2$"),
        ([1, 0, 2, 3], "line 1 is not record 1: it is record 2.* moved to line 2: move .* just before line 1$"),
    ],
)
def test_each_kind_of_disorder_has_an_advice_of_its_own(order: list[int], told: str, tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = write(path).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[i] for i in order))
    with pytest.raises(RunDirectoryError, match=told):
        read_journal(path)
    assert follow_advice(path) == 1
    assert [r for r in read_journal(path) if r["event"] != "illegible"] == [RECORDS[i] for i in sorted(set(order))]


def test_a_journal_without_numbers_is_read_and_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "j"
    old = [{"event": "experiment", "id": "a"}, *RECORDS[1:]]
    path.write_text("".join(json.dumps(record) + "\n" for record in old))
    assert read_journal(path) == old
    with Journal(path) as journal:
        journal.append({"event": "more"})
    last = json.loads(path.read_text().splitlines()[-1])
    body = b'{"n":5,"event":"more"'
    assert last == {"n": 5, "event": "more", "crc": f"{zlib.crc32(body):08x}"}


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


class FullDisk:
    """A file of which `room` more bytes can be written."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room

    def write(self, data: Any) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = int(self._file.write(data[: self._room]))
        self._room -= written
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@pytest.mark.parametrize("room", [0, 1, 20])
def test_a_full_disk_cuts_off_the_torn_record_and_none_before_it(tmp_path: Path, room: int) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        for record in RECORDS:
            journal.append(record)
        whole = path.read_bytes()
        journal._file = FullDisk(journal._file, room)
        with pytest.raises(ExperimentFailed):
            journal.append(RECORDS[-1])
        assert path.read_bytes() == whole
    with Journal(path) as journal:
        journal.append({"event": "more"})
    assert read_journal(path) == [*RECORDS, {"event": "more"}]


def test_damage_inside_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = write(path).split(b"\n")
    lines[1] = lines[1][:5]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(RunDirectoryError, match="line 2 is damaged"):
        read_journal(path)


@pytest.mark.parametrize("garbage", [b"nonsense\n", b"[1]\n", b"{}\n", b"\x00\n"])
def test_a_whole_last_line_that_is_damaged_is_named_and_stays(tmp_path: Path, garbage: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(write(path) + garbage)
    before = path.read_bytes()
    for read in (read_journal, Journal):
        with pytest.raises(RunDirectoryError, match="line 5 is damaged"):
            read(path)
    assert path.read_bytes() == before


@given(st.integers(0), st.integers(1, 255))
def test_a_record_that_was_changed_is_noticed_wherever_it_was(place: int, change: int) -> None:
    """Any byte that becomes any other one: the record is refused, or, where it was the last newline, torn off."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "j"
        whole = bytearray(write(path))
        place %= len(whole)
        whole[place] ^= change
        path.write_bytes(whole)
        if place == len(whole) - 1:
            assert read_journal(path) == RECORDS[:3]
            return
        with pytest.raises(RunDirectoryError, match=r"line [1-4] "):
            read_journal(path)


def test_a_digit_that_was_changed_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    path.write_bytes(write(path).replace(b'"id":1', b'"id":7'))
    with pytest.raises(RunDirectoryError, match="line 2 was changed"):
        read_journal(path)


def test_a_checksum_that_is_gone_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = write(path).splitlines(keepends=True)
    lines[2] = json.dumps({"n": 3, **RECORDS[2]}).encode() + b"\n"
    path.write_bytes(b"".join(lines))
    with pytest.raises(RunDirectoryError, match="line 3 has lost its checksum"):
        read_journal(path)


def test_a_line_that_is_lost_may_be_replaced_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "j"
    lines = write(path).splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b'{"event":"illegible"}\n', *lines[2:]]))
    assert read_journal(path) == [RECORDS[0], {"event": "illegible"}, *RECORDS[2:]]


@pytest.mark.parametrize(
    ("value", "told"), [(float("nan"), "not JSON compliant"), (np.int64(3), "int64 is not JSON serializable")]
)
def test_values_that_json_does_not_know_are_refused(tmp_path: Path, value: object, told: str) -> None:
    with Journal(tmp_path / "j") as journal:
        with pytest.raises(ExperimentFailed, match=f"finished of r/0: it holds what no journal can .*{told}"):
            journal.append({"event": "finished", "run": "r/0", "objective": value})
        assert (tmp_path / "j").read_bytes() == b""
        journal.append(RECORDS[0])
    assert read_journal(tmp_path / "j") == RECORDS[:1], "what was refused left no gap"


def test_a_journal_of_another_user_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "j"
    with Journal(path) as journal:
        journal.append(RECORDS[0])
    opened = Path.open

    def refused(self: Path, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if "a" in mode:
            raise PermissionError(errno.EACCES, "Permission denied")
        return opened(self, mode, *rest, **more)

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(RunDirectoryError, match=r"cannot be written \(Permission denied\)"):
        Journal(path)


def test_a_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(RECORDS[0])
        assert read_journal(tmp_path / "j") == RECORDS[:1]


def test_a_new_journal_is_in_its_folder_after_a_power_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.readlink(f"/proc/self/fd/{descriptor}")))
    with Journal(tmp_path / "j"):
        assert synced == [str(tmp_path)]
    with Journal(tmp_path / "j"):
        assert synced == [str(tmp_path)]


def test_a_result_waits_for_the_disk_and_takes_what_came_before_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    path = tmp_path / "j"
    with Journal(path) as journal:
        monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
        journal.append(RECORDS[0], wait=False)
        assert read_journal(path) == RECORDS[:1]  # whoever reads the file, or is killed, has it
        assert sizes == []
        journal.append(RECORDS[1])
        assert sizes == [path.stat().st_size]
