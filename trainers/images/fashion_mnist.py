"""FashionMNIST. The first of these places that has it is used, and logged:

1. the folder in `data.root` or FMNAS_DATA,
2. the cache, where steps 4 and 5 put it,
3. the folder of Debian's and Ubuntu's package dataset-fashion-mnist,
4. a download from the data set's own server into the cache,
5. that package, downloaded with apt-get and unpacked into the cache, without root.

A folder with some of the four files must have all of them, with the right checksums; otherwise it is an error.
"""

import hashlib
import http.client
import logging
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.image_files import IDX_FILES, expand_user, find_idx, parse_idx, read_bytes
from fmnas.trainers.split import Bytes, ImageSet

logger = logging.getLogger(__name__)

MD5S = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a",
    "15d484375f8d13e6eb1aabb0c3f46965",
)
"""Of the decompressed `IDX_FILES`."""
PACKAGE = "dataset-fashion-mnist"
PACKAGE_FOLDER = Path("usr/share/datasets/fashion-mnist")
SYSTEM_FOLDER = Path("/") / PACKAGE_FOLDER
URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
RESPONSE_SECONDS = 5.0  # a server that sends nothing for this long is unreachable
APT_SECONDS = 600.0  # for each apt-get command; the package has 31 MB


def default_cache() -> Path | None:
    """The folder for downloads: FMNAS_CACHE, or fmnas in XDG_CACHE_HOME or ~/.cache. None without a home folder."""
    if path := os.environ.get("FMNAS_CACHE"):
        return expand_user(Path(path), "FMNAS_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    try:
        return base.expanduser() / "fmnas"
    except RuntimeError:  # no HOME and no entry in the user database, as in many containers
        return None


def find_fashion_mnist(root: Path | None, cache: Path | None) -> ImageSet:
    """FashionMNIST from the first place that has it; the arrays are read-only.

    root: a folder with the four files, plain or .gz, or with FashionMNIST/raw, as torchvision has it; None: search.
    cache: the folder for FashionMNIST/raw, see `default_cache`; None: nothing is downloaded.
    Raises DataError: files are missing or damaged, or no place has them.
    """
    images = _search(cache) if root is None else _read_root(expand_user(root, "data.root (or FMNAS_DATA)"))
    logger.info("FashionMNIST from the %s", images.place)
    return images


def _read_root(root: Path) -> ImageSet:
    for folder in (root, root / "FashionMNIST" / "raw"):
        if has_files(folder):
            return read_folder("given folder", folder)
    raise DataError(
        f"data.root (or FMNAS_DATA) = {root}: no FashionMNIST there, or no permission to read it. The folder must have "
        f"{', '.join(IDX_FILES)}, plain or .gz, or FashionMNIST/raw with them; omit it to search the usual places"
    )


def _search(cache: Path | None) -> ImageSet:
    tried = [] if cache else ["cache: no home folder; set FMNAS_CACHE=/a/folder"]
    raw = [cache / "FashionMNIST" / "raw"] if cache else []
    for place, folder in (*(("cache", folder) for folder in raw), ("system copy", SYSTEM_FOLDER)):
        if has_files(folder):
            return read_folder(place, folder)
        tried.append(f"{place}: not in {folder}")
    for folder, (place, download) in product(raw, DOWNLOADS):
        try:
            return _download_into(folder, place, download)
        except (OSError, http.client.HTTPException, subprocess.SubprocessError, DataError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            tried.append(f"{place}: {' '.join(reason.split())}")
            logger.info("FashionMNIST, %s", tried[-1])
    hints = (
        "FashionMNIST not found. Tried:",
        *tried,
        "Do one of these:",
        f"sudo apt-get update && sudo apt-get install {PACKAGE}",
        f"allow the download of {URL} into {cache or 'FMNAS_CACHE=/a/folder'}",
        "set FMNAS_DATA=/a/folder (or data.root in the config) to a folder with the four IDX files, plain or .gz",
    )
    raise DataError("\n  ".join(hints))


def has_files(folder: Path) -> bool:
    """Whether any of the four files is there."""
    return any(find_idx(folder, name) for name in IDX_FILES)


def read_folder(place: str, folder: Path) -> ImageSet:
    """The data set in a folder, verified. Raises DataError that names the file that is missing or damaged."""
    images, labels, test_images, test_labels = (_read_file(folder, *file) for file in zip(IDX_FILES, MD5S, strict=True))
    return ImageSet("fashion_mnist", f"{place}: {folder}", images, labels, test_images, test_labels)


def _read_file(folder: Path, name: str, md5: str) -> Bytes:
    path = find_idx(folder, name)
    if path is None:
        raise DataError(f"{folder / name} is missing, and so is its .gz: delete {folder} and download the data again")
    content = read_bytes(path)
    actual = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if actual != md5:
        raise DataError(f"{path} is damaged: its MD5 (decompressed) is {actual}, not {md5}. Download it again")
    return parse_idx(content, path)


def _download_into(raw: Path, place: str, download: Callable[[Path], Path]) -> ImageSet:
    """Download to a folder beside `raw`, verify, then rename: an interrupted download never looks complete."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".download-", dir=raw.parent, ignore_cleanup_errors=True) as temporary:
        folder = download(Path(temporary))
        images = read_folder(place, folder)
        try:
            folder.rename(raw)
        except OSError:
            if not has_files(raw):  # it has if another process was faster
                raise
    return replace(images, place=f"{place}: {raw}")


def _download_files(folder: Path) -> Path:
    logger.info("downloading FashionMNIST from %s (30 MB)", URL)
    target = folder / "raw"
    target.mkdir()
    for name in IDX_FILES:
        with (
            urlopen(f"{URL}/{name}.gz", timeout=RESPONSE_SECONDS) as response,
            (target / f"{name}.gz").open("wb") as file,
        ):
            shutil.copyfileobj(response, file)
    return target


def _download_package(folder: Path) -> Path:
    """Download the package with its own package lists: only root may update those of the machine."""
    logger.info("downloading the package %s with apt-get (31 MB)", PACKAGE)
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = ["-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}", "--quiet=2"]
    apt = ["apt-get", *options, "-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"]
    _run([*apt, "update"], folder, check=False)  # a broken repository among others does not matter
    _run([*apt, "download", PACKAGE], folder)
    _run(["dpkg-deb", "-x", *(path.name for path in folder.glob("*.deb")), "."], folder)
    return folder / PACKAGE_FOLDER


def _run(command: list[str], folder: Path, check: bool = True) -> None:
    subprocess.run(command, cwd=folder, check=check, capture_output=True, text=True, timeout=APT_SECONDS)


DOWNLOADS = (("download", _download_files), ("apt package", _download_package))
