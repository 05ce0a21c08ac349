"""IDX files: what is read back is what was written; what is damaged is refused by name."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.trainers import DataError
from fmnas.trainers.images.fashion_mnist import parse_idx, read_idx

SHAPES = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def idx_bytes(array: np.ndarray) -> bytes:
    """An array of bytes as an IDX file."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@given(shape=SHAPES, seed=st.integers(0, 99))
def test_a_written_array_is_read_back(shape: list[int], seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    back = parse_idx(idx_bytes(array), Path("x"))
    assert back.dtype == np.uint8
    np.testing.assert_array_equal(back, array)


def test_plain_and_gzipped_files_hold_the_same(tmp_path: Path) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    (tmp_path / "x").write_bytes(idx_bytes(array))
    (tmp_path / "x.gz").write_bytes(gzip.compress(idx_bytes(array)))
    np.testing.assert_array_equal(read_idx(tmp_path / "x"), array)
    np.testing.assert_array_equal(read_idx(tmp_path / "x.gz"), array)


@given(shape=SHAPES, data=st.data())
def test_every_cut_is_noticed(shape: list[int], data: st.DataObject) -> None:
    content = idx_bytes(np.zeros(shape, dtype=np.uint8))
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(DataError, match=r"some/file (is truncated|is no IDX file)"):
        parse_idx(content[:cut], Path("some/file"))


GOOD = idx_bytes(np.arange(200, dtype=np.uint8))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("long", GOOD + b"x", "longer than its header says: 209 bytes, not 208"),
        ("png", b"\x89PNG" + GOOD, "no IDX file of unsigned bytes: it starts with 89504e47"),
        ("floats", b"\0\0\x0d\1" + GOOD[4:], "no IDX file of unsigned bytes"),
        ("empty", b"", "starts with nothing"),
        ("cut.gz", gzip.compress(GOOD)[:-20], "truncated: the gzip stream ends too early"),
        ("plain.gz", GOOD, "damaged, or no gzip file"),
        ("flipped.gz", gzip.compress(GOOD)[:-8] + b"\0" * 8, "damaged, or no gzip file"),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_opened_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent cannot be read: No such file"):
        read_idx(tmp_path / "absent")
