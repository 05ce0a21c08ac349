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
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.contract import DAMAGED, DataError
from fmnas.trainers.problem import OWN
from fmnas.trainers.split import CLASSES, IMAGE_SIZE, Bytes, ImageSet

IDX_FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""Images and labels to train on, then test images and labels. A name may be followed by .gz."""
ARRAYS = ("images", "labels", "test_images", "test_labels")


def find_idx(folder: Path, name: str) -> Path | None:
    """The file `name` or `name`.gz in a folder; None if there is no such file, or it is not accessible."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if os.path.isfile(path)), None)


def idx_folder(root: Path, name: str) -> Path | None:
    """`root`, or the folder of the set `name` that torchvision makes below it, if it has training images."""
    below = "FashionMNIST" if name == "fashion_mnist" else name.upper()
    return next((folder for folder in (root, root / below / "raw") if find_idx(folder, IDX_FILES[0])), None)


def read_idx(path: Path) -> Bytes:
    """The array in an IDX file, plain or .gz, read-only. Raises DataError that names the file."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"not an IDX file of unsigned bytes: it starts with {content[:4].hex() or 'nothing'}")
        shape = struct.unpack_from(f">{content[3]}I", content, 4)
        return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * content[3]).reshape(shape)
    except (OSError, EOFError, zlib.error, struct.error, ValueError, IndexError) as error:
        raise DataError(f"{path} cannot be read ({error}); if it is damaged, download it again") from None


def dataset_name(name: str, root: str | Path | None) -> str:
    """The name in reports: `name`, or that of the file or folder for a custom set."""
    return name if name != OWN or root is None else Path(os.path.realpath(os.path.expanduser(root))).name or name


def load_user_images(name: str, root: str | Path) -> ImageSet:
    """The images in a folder or an .npz file. name: one of USER_SETS. Raises DataError as `read_images`."""
    images = read_images(name, Path(os.path.expanduser(root)))
    return replace(images, place=f"given: {images.place}, SHA-256 {images.digest}")


def read_images(name: str, path: Path) -> ImageSet:
    """The images in a folder or an .npz file, with their digest.

    Raises DataError that names the path and what is wrong: missing or damaged files or arrays, or a wrong shape, type
    or size.
    """
    try:
        arrays = _read_npz(path) if os.path.isfile(path) else _read_folder(path, name)
        arrays = {key: _check_array(key, array) for key, array in arrays.items()}
        _check_sizes(arrays)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    digest = sha256()
    for array in arrays.values():
        digest.update(np.array(array.shape, dtype="<i8").tobytes())
        digest.update(np.ascontiguousarray(array).tobytes())
    tests = arrays.get("test_images"), arrays.get("test_labels")
    title = dataset_name(name, path)
    return ImageSet(title, str(path), arrays["images"], arrays["labels"], *tests, digest.hexdigest())


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("not a zip archive, or truncated")
        with np.load(path, allow_pickle=False) as content:
            return {key: np.asarray(content[key]) for key in ARRAYS if key in content.files}
    except DAMAGED as error:
        raise DataError(f"not a readable .npz file of arrays ({error}); save them with numpy.savez") from None


def _read_folder(root: Path, name: str) -> dict[str, NDArray[Any]]:
    """The arrays of the IDX files in a folder."""
    if (folder := idx_folder(root, name)) is None:
        raise DataError(
            f"not an .npz file, and not a folder with {IDX_FILES[0]} and {IDX_FILES[1]}, plain or .gz (and "
            f"{IDX_FILES[2]} and {IDX_FILES[3]} for test images), or no permission to read it"
        )
    paths = {key: find_idx(folder, file) for key, file in zip(ARRAYS, IDX_FILES, strict=True)}
    return {key: read_idx(path) for key, path in paths.items() if path}


def _check_array(key: str, array: NDArray[Any]) -> Bytes:
    """The array as uint8. Raises DataError unless it has the type and shape of the table above."""
    what = f"{key} is {array.dtype} {list(array.shape)}"
    if key.endswith("images"):
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE) or not len(array):
            raise DataError(f"{what}; it must be uint8 [n, {IMAGE_SIZE}, {IMAGE_SIZE}] with n >= 1, grey levels 0..255")
    elif array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(f"{what}; it must be integers [n]")
    elif len(array) and not 0 <= array.min() <= array.max() < CLASSES:
        raise DataError(f"{key} is from {array.min()} to {array.max()}; it must be from 0 to {CLASSES - 1}")
    return array.astype(np.uint8, copy=False)


def _check_sizes(arrays: Mapping[str, Bytes]) -> None:
    """Raises DataError unless there are images, and each has a label."""
    sizes = {key: len(arrays[key]) if key in arrays else None for key in ARRAYS}
    for images, labels in (ARRAYS[:2], ARRAYS[2:]):
        if sizes[images] != sizes[labels] or sizes["images"] is None:
            raise DataError(f"it has {sizes[images]} {images} and {sizes[labels]} {labels}; each image needs one label")
