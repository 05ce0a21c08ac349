"""IDX files: the array that was written is read back; damaged files are refused by name."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images.image_files import read_idx


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


GOOD = idx_bytes(np.arange(200, dtype=np.uint8))


@pytest.mark.parametrize("shape", [(7,), (3, 28, 28), (0, 4), (2, 1, 3, 2)])
@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_a_written_array_is_read_back(tmp_path: Path, shape: tuple[int, ...], name: str) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    content = idx_bytes(array)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    read = read_idx(tmp_path / name)
    assert read.dtype == np.uint8
    np.testing.assert_array_equal(read, array)


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path, content = tmp_path / "cut", idx_bytes(np.zeros((2, 3), dtype=np.uint8))
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=str(path)):
            read_idx(path)


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
