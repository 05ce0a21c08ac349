"""FashionMNIST, found in the first place that has it: the place is logged and returned, never guessed at.

1. the folder given (`data.root` of a config, or FMNAS_DATA),
2. the cache, as an earlier step 4 or 5 left it,
3. the system's copy: Debian's and Ubuntu's package dataset-fashion-mnist,
4. torchvision's download into the cache,
5. that package, fetched with apt and unpacked into the cache without root.

A place that has some of the files must have all of them whole: files that are cut off, altered or missing are an error,
not a reason to look elsewhere. A folder given that has none of them is an error, too.

The files are IDX, MNIST's and its successors' format, plain or gzipped:

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
import hashlib
import logging
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.download import FETCHERS, Fetcher, staging_folder
from fmnas.trainers.split import Bytes, ImageSet

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


logger = logging.getLogger(__name__)

SYSTEM_FOLDER = Path("/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True)
class DataFile:
    """One of the data set's files: its name (a .gz may follow), shape, and the MD5 of the unpacked file."""

    name: str
    shape: tuple[int, ...]
    md5: str


DATA_FILES = (
    DataFile("train-images-idx3-ubyte", (60_000, 28, 28), "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
    DataFile("train-labels-idx1-ubyte", (60_000,), "9018921c3c673c538a1fc5bad174d6f9"),
    DataFile("t10k-images-idx3-ubyte", (10_000, 28, 28), "8181f5470baa50b63fa0f6fddb340f0a"),
    DataFile("t10k-labels-idx1-ubyte", (10_000,), "15d484375f8d13e6eb1aabb0c3f46965"),
)


def default_cache(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Where fetched data are kept: FMNAS_CACHE, or fmnas below XDG_CACHE_HOME, which is ~/.cache unless set.

    None where neither is set and the user has no home. Raises DataError for a home that is not known.
    """
    if own := environment.get("FMNAS_CACHE"):
        return at_home(Path(own), "FMNAS_CACHE")
    if base := environment.get("XDG_CACHE_HOME"):
        return at_home(Path(base), "XDG_CACHE_HOME") / "fmnas"
    try:
        return Path("~/.cache").expanduser() / "fmnas"
    except RuntimeError:  # no HOME, and no entry in the list of users: so it is in many containers
        return None


def path_from_environment(variable: str, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file or folder that a variable names, such as FMNAS_DATA; None when it is unset or empty."""
    given = environment.get(variable)
    return Path(given) if given else None


def find_fashion_mnist(root: Path | None, cache: Path | None) -> ImageSet:
    """FashionMNIST from the first place that has it; the arrays are read-only.

    root: the folder given, holding the four IDX files (plain or .gz) or torchvision's FashionMNIST/raw with them.
    cache: the folder below which FashionMNIST/raw is kept; see `default_cache`. None: nothing is kept or fetched.
    Raises DataError: a root without data, a file that is not what it should be, or every place tried in vain.
    """
    if root is not None:
        return _logged(_read_root(at_home(root, "data.root (or FMNAS_DATA)")))
    tried = []
    if cache is None:
        tried.append("cache: none, as your home folder is not known here; FMNAS_CACHE=/a/folder names one")
    kept = cache / "FashionMNIST" / "raw" if cache else None
    for place, folder in (("cache", kept), ("system copy", SYSTEM_FOLDER)):
        if folder is None:
            continue
        try:
            there = holds_data(folder)
        except DataError as error:
            tried.append(f"{place}: {error}")
            continue
        if there:
            return _logged(read_folder(place, folder))
        tried.append(f"{place}: nothing in {folder}")
    for place, fetch in FETCHERS:
        if kept is None:
            break
        try:
            return _logged(_fetch_into(kept, place, fetch))
        except DataError as error:
            logger.info("FashionMNIST, %s: %s", place, error)
            tried.append(f"{place}: {error}")
    raise DataError(_nowhere(tried, cache))


def holds_data(folder: Path) -> bool:
    """Whether any of the files is there. Raises DataError for a folder that cannot be looked at."""
    try:
        return any(path_of(file, folder) is not None for file in DATA_FILES)
    except OSError as error:  # a name that is too long, or a folder of someone else
        raise DataError(
            f"{str(folder)[:200]} cannot be looked at ({error.strerror}): give one that you may read, in data.root, "
            "FMNAS_DATA or FMNAS_CACHE"
        ) from None


def at_home(path: Path, what: str) -> Path:
    """A path whose ~ is someone's home folder. Raises DataError where that is not known."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise DataError(f"{what} = {path}: that home folder is not known here: write the whole path") from None


def read_folder(place: str, folder: Path) -> ImageSet:
    """The set in a folder's files, each checked. Raises DataError that names the file that is missing or wrong."""
    images, labels, test_images, test_labels = (_read_file(file, folder) for file in DATA_FILES)
    return ImageSet("fashion_mnist", f"{place}: {folder}", images, labels, test_images, test_labels)


def _read_root(root: Path) -> ImageSet:
    for folder in (root, root / "FashionMNIST" / "raw"):
        if holds_data(folder):
            return read_folder("folder given", folder)
    names = ", ".join(file.name for file in DATA_FILES)
    raise DataError(
        f"data.root (or FMNAS_DATA) = {root}: no FashionMNIST there. It must hold {names}, "
        "plain or .gz, or FashionMNIST/raw with them; without it the usual places are searched"
    )


def path_of(file: DataFile, folder: Path) -> Path | None:
    """The file in a folder, plain or .gz; None where it is not."""
    candidates = (folder / file.name, folder / f"{file.name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def _require(file: DataFile, folder: Path) -> Path:
    path = path_of(file, folder)
    if path is None:
        raise DataError(f"{folder / file.name} is missing, and so is its .gz: delete {folder} and fetch the data again")
    return path


def _read_file(file: DataFile, folder: Path) -> Bytes:
    path = _require(file, folder)
    content = read_unpacked(path)
    array = parse_idx(content, path)
    if array.shape != file.shape:
        raise DataError(f"{path} holds an array of shape {array.shape}; FashionMNIST's is {file.shape}. Fetch it again")
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        raise DataError(f"{path} was altered: unpacked its MD5 is {md5}, it must be {file.md5}. Fetch it again")
    return array


def _fetch_into(kept: Path, place: str, fetch: Fetcher) -> ImageSet:
    """Fetch into a folder aside, check, then rename it to `kept`: what is cut off on the way never looks whole."""
    with staging_folder(kept.parent) as aside:
        fetched = fetch(Path(aside))
        found = read_folder(place, fetched)
        whole = Path(aside, "whole")
        whole.mkdir()
        for file in DATA_FILES:
            path = _require(file, fetched)
            path.rename(whole / path.name)
        try:
            whole.rename(kept)
        except OSError as error:
            if not holds_data(kept):  # it does when another process was faster
                raise DataError(f"{kept} cannot be written: {error.strerror}") from None
    return replace(found, place=f"{place}: {kept}")


def _logged(found: ImageSet) -> ImageSet:
    logger.info("FashionMNIST from the %s", found.place)
    return found


def _nowhere(tried: list[str], cache: Path | None) -> str:
    return "\n  ".join(
        [
            "FashionMNIST was found nowhere. Tried, in this order:",
            *tried,
            "Any one of these helps:",
            "sudo apt-get update && sudo apt-get install dataset-fashion-mnist",
            f"pip install torchvision, and a network for its download into {cache or 'FMNAS_CACHE=/a/folder'}",
            "FMNAS_DATA=/a/folder (or data.root in the config) with the four IDX files, plain or .gz",
        ]
    )
