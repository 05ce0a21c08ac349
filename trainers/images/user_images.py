"""Sets of images that a user gives: MNIST, KMNIST, or one of their own, as a folder of IDX files or as an .npz file.

    data: {name: mnist, root: /data/MNIST/raw}
    data: {name: own, root: my_set.npz, train: 2000, validation: 500}

| arrays of an .npz file | files of a folder, plain or .gz | type | shape |
|---|---|---|---|
| images | train-images-idx3-ubyte | uint8 | [n, 28, 28] |
| labels | train-labels-idx1-ubyte | whole numbers from 0 to 9 | [n] |
| test_images | t10k-images-idx3-ubyte | uint8 | [m, 28, 28] |
| test_labels | t10k-labels-idx1-ubyte | whole numbers from 0 to 9 | [m] |

The last two may be left out: then there is nothing to test the best on. Nothing is fetched, and no checksum is known:
so the set has a digest, the SHA-256 of its arrays in the order of the table, each as its shape (little-endian 64-bit
numbers) and its bytes. It is the same however the arrays are packed.
"""

import logging
import os
import zipfile
import zlib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.fashion_mnist import DATA_FILES, at_home, path_of, read_idx
from fmnas.trainers.problem import OWN
from fmnas.trainers.split import CLASSES, IMAGE_SIZE, Bytes, ImageSet

logger = logging.getLogger(__name__)

KNOWN_SIZES = {"mnist": (60_000, 10_000), "kmnist": (60_000, 10_000)}
"""Those known by name: how many images to train and to test on they have."""
ARRAYS = ("images", "labels", "test_images", "test_labels")


def _digest(arrays: Mapping[str, Bytes]) -> str:
    """SHA-256 of the arrays."""
    found = sha256()
    for array in (arrays[name] for name in ARRAYS if name in arrays):
        found.update(np.array(array.shape, dtype="<i8").tobytes())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def title(name: str, root: Path | None) -> str:
    """What a set is called: by its name or, if it is a user's own, by that of its file or folder."""
    return name if name != OWN or root is None else Path(os.path.realpath(os.path.expanduser(root))).name or name


def read_given(name: str, root: Path) -> ImageSet:
    """The set of that name, one of USER_SETS, in a folder or an .npz file.

    Raises DataError, naming data.root and what is wrong there: nothing, files or arrays that are missing or damaged, of
    another shape, type or number than they must be.
    """
    where = at_home(root, "data.root")
    what = f"data.root = {root}"
    try:
        is_file, is_folder = where.is_file(), where.is_dir()
    except OSError as error:
        raise DataError(f"data.root = {str(root)[:200]}: it cannot be looked at ({error.strerror})") from None
    if not is_file and not is_folder:
        raise DataError(f"{what}: there is no such file or folder; give a folder with {_files()}, or an .npz file")
    arrays = _read_npz(where, what) if is_file else _read_folder(where, name, what)
    checked = {key: _checked(f"{what}: {key}", key, array) for key, array in arrays.items()}
    _check_pairs(what, checked)
    _check_size(name, what, checked)
    digest = _digest(checked)
    tests = checked.get("test_images"), checked.get("test_labels")
    found = ImageSet(title(name, root), str(where), checked["images"], checked["labels"], *tests, digest)
    logger.info("%s from %s, SHA-256 %s", found.name, where, digest)
    return found


def _read_npz(path: Path, what: str) -> dict[str, NDArray[Any]]:
    """The arrays of the file that we know."""
    try:
        with path.open("rb") as file:
            if not zipfile.is_zipfile(file):
                raise DataError(f"{what}: it is no .npz file, or was cut off: save the arrays images and labels with "
                                "numpy.savez")  # fmt: skip
            file.seek(0)
            with np.load(file, allow_pickle=False) as content:
                for name in ARRAYS[:2]:
                    if name not in content.files:
                        raise DataError(
                            f"{what}: it has no array {name!r}, but {', '.join(content.files) or 'none'}; it must have "
                            "images and labels, and may have test_images and test_labels"
                        )
                return {name: content[name] for name in ARRAYS if name in content.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise DataError(f"{what}: it cannot be read as arrays of numbers ({error})") from None


def _read_folder(root: Path, name: str, what: str) -> dict[str, NDArray[Any]]:
    """The arrays of the IDX files in the folder or, of a set known by name, in torchvision's below it."""
    below, files = root / name.upper() / "raw", dict(zip(ARRAYS, DATA_FILES, strict=True))
    try:
        inside = name in KNOWN_SIZES and path_of(files["images"], root) is None and below.is_dir()
        paths = {key: path_of(file, below if inside else root) for key, file in files.items()}
    except OSError as error:  # one may see the folder, and not enter it
        raise DataError(f"{what}: it cannot be looked into ({error.strerror}); give one that you may read") from None
    for key in ARRAYS[:2]:
        if paths[key] is None:
            raise DataError(f"{what}: there is no {files[key].name} in it, nor its .gz; it must have {_files()}")
    return {key: read_idx(path) for key, path in paths.items() if path is not None}


def _files() -> str:
    names = [file.name for file in DATA_FILES]
    return f"{names[0]} and {names[1]}, plain or .gz (with {names[2]} and {names[3]} where there are test images)"


def _checked(what: str, key: str, array: NDArray[Any]) -> Bytes:
    """The array as uint8. Raises DataError unless it is what its key says."""
    if not isinstance(array, np.ndarray):  # numpy gives the bytes of what is none in an .npz file
        raise DataError(f"{what} are no array of numpy's: save them with numpy.savez")
    if key.endswith("images"):
        if array.dtype != np.uint8 or array.ndim != 3 or array.shape[1:] != (IMAGE_SIZE, IMAGE_SIZE) or not len(array):
            raise DataError(
                f"{what} are {array.dtype} {list(array.shape)}: they must be uint8 [n, {IMAGE_SIZE}, {IMAGE_SIZE}], "
                "grey levels from 0 to 255, and at least one"
            )
        return array
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise DataError(f"{what} are {array.dtype} {list(array.shape)}: they must be whole numbers [n]")
    if len(array) and not 0 <= array.min() <= array.max() < CLASSES:
        raise DataError(f"{what} are from {array.min()} to {array.max()}: they must be from 0 to {CLASSES - 1}")
    return array.astype(np.uint8)


def _check_pairs(what: str, arrays: Mapping[str, Bytes]) -> None:
    """Raise DataError unless each image has a label."""
    for images, labels in (ARRAYS[:2], ARRAYS[2:]):
        there = [name for name in (images, labels) if name in arrays]
        if len(there) == 1:
            missing = labels if there == [images] else images
            raise DataError(f"{what}: it has {there[0]} and no {missing}: give both, or neither")
        if there and len(arrays[images]) != len(arrays[labels]):
            raise DataError(f"{what}: it has {len(arrays[images])} {images} and {len(arrays[labels])} {labels}: each "
                            "image has one label")  # fmt: skip


def _check_size(name: str, what: str, arrays: Mapping[str, Bytes]) -> None:
    """Raise DataError where a set known by name has another number of images than that."""
    if name not in KNOWN_SIZES:
        return
    train, test = KNOWN_SIZES[name]
    images, tests = len(arrays["images"]), len(arrays.get("test_images", ())) or None
    if images != train or tests not in (None, test):
        raise DataError(
            f"{what}: it has {images} images and {tests or 'no'} test images; {name} has {train}, {test}: "
            f"any other set is data.name = {OWN}"
        )
