"""IDX, the file format of MNIST and its successors: a header and raw bytes, plain or gzipped.

| bytes | content |
|---|---|
| 0, 1 | zero |
| 2 | type of the numbers; 8 = unsigned byte, the only one read here |
| 3 | number of dimensions d |
| 4 .. 4 + 4d | the d sizes, big-endian 32-bit |
| the rest | the numbers, last dimension fastest |

Source: http://yann.lecun.com/exdb/mnist, "the IDX file format".
"""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.errors import DataError

Bytes = NDArray[np.uint8]

UNSIGNED_BYTE = 8


def read_idx(path: Path) -> Bytes:
    """The array in an IDX file, plain or .gz, read-only. Raises DataError that names the file."""
    return parse_idx(read_unpacked(path), path)


def read_unpacked(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in .gz. Raises DataError if it is damaged."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except EOFError:
        raise DataError(f"{path} is truncated: the gzip stream ends too early. Delete it and fetch it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged, or no gzip file: {error}. Delete it and fetch it again") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None


def parse_idx(content: bytes, path: Path) -> Bytes:
    """The array in the content of an IDX file; `path` is for the messages. Raises DataError."""
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] != UNSIGNED_BYTE:
        raise DataError(
            f"{path} is no IDX file of unsigned bytes: it starts with {content[:4].hex() or 'nothing'}, "
            "not with 0000 08 and the number of dimensions. Delete it and fetch it again"
        )
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise DataError(f"{path} is truncated: {len(content)} bytes, its header alone has {start}. Fetch it again")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    expected = start + math.prod(shape)
    if len(content) != expected:
        what = "is truncated" if len(content) < expected else "is longer than its header says"
        raise DataError(f"{path} {what}: {len(content)} bytes, not {expected} (shape {shape}). Fetch it again")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)
