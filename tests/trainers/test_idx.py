"""IDX files: the array that was written is read back; damaged files are refused by name."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.trainers import DataError
from fmnas.trainers.images.image_files import parse_idx, read_idx


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4)
GOOD = idx_bytes(np.arange(200, dtype=np.uint8))


@given(shape=SHAPES, seed=st.integers(0, 99))
def test_a_written_array_is_read_back(shape: list[int], seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    read = parse_idx(idx_bytes(array), Path("x"))
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


@given(shape=SHAPES, data=st.data())
def test_every_truncation_is_noticed(shape: list[int], data: st.DataObject) -> None:
    content = idx_bytes(np.zeros(shape, dtype=np.uint8))
    with pytest.raises(DataError, match="some/file"):
        parse_idx(content[: data.draw(st.integers(0, len(content) - 1))], Path("some/file"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("long", GOOD + b"x"),
        ("png", b"\x89PNG" + GOOD),
        ("floats", b"\0\0\x0d\1" + GOOD[4:]),
        ("empty", b""),
        ("cut.gz", gzip.compress(GOOD)[:-20]),
        ("plain.gz", GOOD),
        ("flipped.gz", gzip.compress(GOOD)[:-8] + b"\0" * 8),
        ("absent", None),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=str(tmp_path / name)):
        read_idx(tmp_path / name)
