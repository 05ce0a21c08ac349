"""Files of images: IDX files as of MNIST, and sets of images that a user provides.

    data: {name: mnist, root: /data/MNIST/raw}
    data: {name: own, root: my_set.npz, train: 2000, validation: 500}

| arrays of an .npz file | IDX files of a folder, plain or .gz | type | shape |
|---|---|---|---|
| images | train-images-idx3-ubyte | uint8 | [n, 28, 28] |
| labels | train-labels-idx1-ubyte | integers from 0 to 9 | [n] |
| test_images | t10k-images-idx3-ubyte | uint8 | [m, 28, 28] |
| test_labels | t10k-labels-idx1-ubyte | integers from 0 to 9 | [m] |

The last two are optional: without them, the best configurations cannot be tested. Nothing is downloaded, and no
checksum is known. So the set has a digest: the SHA-256 of its arrays in the order of the table, each as its shape
(little-endian 64-bit integers) and its bytes, however they are stored.

An IDX file has a header of two zero bytes, a type (8: unsigned byte, the only one supported), the number of dimensions
and their sizes (big-endian 32-bit), then the values (http://yann.lecun.com/exdb/mnist).
"""

import gzip
import logging
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.contract import DataError
from fmnas.trainers.problem import OWN
from fmnas.trainers.split import CLASSES, IMAGE_SIZE, Bytes, ImageSet

logger = logging.getLogger(__name__)

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""Images and labels to train on, then test images and labels. A name may be followed by .gz."""
KNOWN_SIZES = {"mnist": (60_000, 10_000), "kmnist": (60_000, 10_000)}
"""Numbers of training and test images of the sets known by name."""
ARRAYS = ("images", "labels", "test_images", "test_labels")


def expand_user(path: Path, key: str) -> Path:
    """A path with its ~ expanded. Raises DataError, naming `key`, if that home folder is unknown."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise DataError(f"{key} = {path}: unknown home folder; give an absolute path") from None


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


def dataset_name(name: str, root: Path | None) -> str:
    """The name in reports: `name`, or that of the file or folder for a custom set."""
    return name if name != OWN or root is None else Path(os.path.realpath(os.path.expanduser(root))).name or name


def load_user_images(name: str, root: Path) -> ImageSet:
    """The images in a folder or an .npz file. name: one of USER_SETS.

    Raises DataError that names data.root and what is wrong: missing or damaged files or arrays, or a wrong shape, type
    or size.
    """
    path = expand_user(root, "data.root")
    try:
        arrays = _read_npz(path) if os.path.isfile(path) else _read_folder(path, name)
        arrays = {key: _check_array(key, array) for key, array in arrays.items()}
        _check_sizes(name, arrays)
    except DataError as error:
        raise DataError(f"data.root = {root}: {error}") from None
    digest = sha256()
    for array in arrays.values():
        digest.update(np.array(array.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(array).tobytes())
    title = dataset_name(name, root)
    logger.info("%s from %s, SHA-256 %s", title, path, digest.hexdigest())
    tests = arrays.get("test_images"), arrays.get("test_labels")
    return ImageSet(title, str(path), arrays["images"], arrays["labels"], *tests, digest.hexdigest())


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise ValueError("not a zip archive, or truncated")
            file.seek(0)
            with np.load(file, allow_pickle=False) as content:
                return {key: content[key] for key in ARRAYS if key in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"not a readable .npz file of arrays ({error}); save them with numpy.savez") from None


def _read_folder(root: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of the IDX files in a folder or, for a set known by name, in torchvision's folder below it."""
    below = root / name.upper() / "raw"
    folder = below if name in KNOWN_SIZES and not find_idx(root, IDX_FILES[0]) and below.is_dir() else root
    if not find_idx(folder, IDX_FILES[0]):
        raise DataError(
            f"not an .npz file, and not a folder with {IDX_FILES[0]} and {IDX_FILES[1]}, plain or .gz (and "
            f"{IDX_FILES[2]} and {IDX_FILES[3]} for test images), or no permission to read it"
        )
    paths = {key: find_idx(folder, file) for key, file in zip(ARRAYS, IDX_FILES, strict=True)}
    return {key: read_idx(path) for key, path in paths.items() if path}


def _check_array(key: str, array: NDArray[Any]) -> Bytes:
    """The array as uint8. Raises DataError unless it has the type and shape of the table above."""
    if not isinstance(array, np.ndarray):  # numpy returns the bytes of a member that is not an array
        raise DataError(f"{key} is not a numpy array; save it with numpy.savez")
    what = f"{key} is {array.dtype} {list(array.shape)}"
    if key.endswith("images"):
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE) or not len(array):
            raise DataError(f"{what}; it must be uint8 [n, {IMAGE_SIZE}, {IMAGE_SIZE}] with n >= 1, grey levels 0..255")
    elif array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(f"{what}; it must be integers [n]")
    elif len(array) and not 0 <= array.min() <= array.max() < CLASSES:
        raise DataError(f"{key} is from {array.min()} to {array.max()}; it must be from 0 to {CLASSES - 1}")
    return array.astype(np.uint8, copy=False)


def _check_sizes(name: str, arrays: Mapping[str, Bytes]) -> None:
    """Raises DataError unless each image has a label, and a set known by name has its number of images."""
    sizes = {key: len(arrays[key]) if key in arrays else None for key in ARRAYS}
    for images, labels in (ARRAYS[:2], ARRAYS[2:]):
        if sizes[images] != sizes[labels] or sizes["images"] is None:
            raise DataError(f"it has {sizes[images]} {images} and {sizes[labels]} {labels}; each image needs one label")
    train, test = KNOWN_SIZES.get(name, (sizes["images"], sizes["test_images"]))
    if sizes["images"] != train or sizes["test_images"] not in (None, test):
        raise DataError(
            f"it has {sizes['images']} images and {sizes['test_images'] or 'no'} test_images; {name} has {train} and "
            f"{test}; for a different set, set data.name = {OWN}"
        )
