"""IDX files, the format of MNIST and its successors, plain or gzipped.

| bytes | content |
|---|---|
| 0, 1 | zero |
| 2 | data type; 8 = unsigned byte, the only type supported here |
| 3 | number of dimensions d |
| 4 .. 4 + 4d | the d sizes, big-endian 32-bit |
| the rest | the values, last dimension fastest |

Source: http://yann.lecun.com/exdb/mnist, "the IDX file format".
"""

import gzip
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from fmnas.trainers.contract import DataError
from fmnas.trainers.split import Bytes

IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
"""Images and labels to train on, then test images and labels. A name may be followed by .gz."""


def find_idx(folder: Path, name: str) -> Path | None:
    """The file `name` or `name`.gz in a folder; None if there is no such file, or it is not accessible."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if os.path.isfile(path)), None)


def read_bytes(path: Path) -> bytes:
    """The content of a file, decompressed if its name ends in .gz. Raises DataError that names the file."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read ({error}); if it is damaged, download it again") from None


def parse_idx(content: bytes, path: Path) -> Bytes:
    """The array in the content of an IDX file, read-only. Raises DataError that names `path`."""
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise DataError(f"{path} is not an IDX file of unsigned bytes: it starts with {content[:4].hex() or 'nothing'}")
    start = 4 + 4 * content[3]
    try:
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
    except (struct.error, ValueError):
        raise DataError(
            f"{path} is truncated or damaged: its {len(content)} bytes do not match its header; download it again"
        ) from None


def read_idx(path: Path) -> Bytes:
    """The array in an IDX file, plain or .gz, read-only. Raises DataError that names the file."""
    return parse_idx(read_bytes(path), path)
