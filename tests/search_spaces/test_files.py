"""Files are written whole, or not at all."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces.files import write_aside


@given(contents=st.lists(st.binary(max_size=40), min_size=1, max_size=4), durable=st.booleans())
def test_only_the_last_content_stays(
    contents: list[bytes], durable: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("files") / "made"
    for content in contents:
        write_aside(folder / "name.txt", content, durable)
    assert (folder / "name.txt").read_bytes() == contents[-1]
    assert [path.name for path in folder.iterdir()] == ["name.txt"]


def test_a_durable_file_has_its_content_and_then_its_name_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append(("folder" if is_folder else "file", (tmp_path / "name.txt").exists()))

    monkeypatch.setattr("os.fsync", fsync)
    write_aside(tmp_path / "name.txt", b"content")
    assert synced == [("file", False), ("folder", True)]
    write_aside(tmp_path / "name.txt", b"content", durable=False)
    assert len(synced) == 2


def test_where_it_cannot_be_renamed_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "name.txt"
    write_aside(path, b"old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        write_aside(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
