"""FashionMNIST. The first of these places that has it is used, and logged:

1. the folder in `data.root` or FMNAS_DATA,
2. the cache, where steps 4 and 5 put it,
3. the folder of Debian's and Ubuntu's package dataset-fashion-mnist,
4. a download from the data set's own server into the cache,
5. that package, downloaded with apt-get and unpacked into the cache, without root.

A folder with some of the four files must have all of them, with the right checksums; otherwise it is an error.
"""

import http.client
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.image_files import IDX_FILES, idx_folder, read_images
from fmnas.trainers.split import ImageSet

logger = logging.getLogger(__name__)

DIGEST = "39d44e897100230761cea20c35aeaacec7c4ec42e7719f66b4f73b1505c8f92e"
"""The SHA-256 of the four arrays, see `image_files.py`."""
PACKAGE = "dataset-fashion-mnist"
PACKAGE_FOLDER = Path("usr/share/datasets/fashion-mnist")
SYSTEM_FOLDER = Path("/") / PACKAGE_FOLDER
URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
RESPONSE_SECONDS = 5.0  # a server that sends nothing for this long is unreachable
APT_SECONDS = 600.0  # for each apt-get command; the package has 31 MB


def default_cache() -> Path:
    """The folder for downloads: FMNAS_CACHE, or fmnas in XDG_CACHE_HOME, ~/.cache or, without a home folder, /tmp."""
    if path := os.environ.get("FMNAS_CACHE"):
        return Path(os.path.expanduser(path))
    base = os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return Path(tempfile.gettempdir() if base.startswith("~") else base) / "fmnas"


def find_fashion_mnist(root: Path | None, cache: Path) -> ImageSet:
    """FashionMNIST from the first place that has it; the arrays are read-only.

    root: a folder with the four files, plain or .gz, or with FashionMNIST/raw, as torchvision has it; None: search.
    cache: the folder for FashionMNIST/raw, see `default_cache`.
    Raises DataError: files are missing or damaged, or no place has them.
    """
    images = _search(cache) if root is None else read_folder("given folder", Path(os.path.expanduser(root)))
    if images is None:
        raise DataError(
            f"data.root (or FMNAS_DATA) = {root}: no FashionMNIST there, or no permission to read it. The folder must "
            f"have {', '.join(IDX_FILES)}, plain or .gz, or FashionMNIST/raw with them; omit it to search the usual "
            "places"
        )
    logger.info("FashionMNIST from the %s", images.place)
    return images


def read_folder(place: str, root: Path) -> ImageSet | None:
    """The data set in a folder, verified; None without training images. Raises DataError if files are damaged."""
    if (folder := idx_folder(root, "fashion_mnist")) is None:
        return None
    images = read_images("fashion_mnist", folder)
    if images.digest != DIGEST:
        raise DataError(
            f"{folder} is incomplete or damaged: the SHA-256 of its arrays is {images.digest}, not {DIGEST}. Delete it "
            "and download the data again"
        )
    return replace(images, place=f"{place}: {folder}", digest="")


def _search(cache: Path) -> ImageSet:
    tried = []
    for place, root in (("cache", cache), ("system copy", SYSTEM_FOLDER)):
        if images := read_folder(place, root):
            return images
        tried.append(f"{place}: not in {root}")
    for place, download in DOWNLOADS:
        try:
            return _download_into(cache / "FashionMNIST" / "raw", place, download)
        except (OSError, http.client.HTTPException, subprocess.SubprocessError, DataError) as error:
            reason = getattr(error, "stderr", None) or str(error)
            reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason  # after a timeout
            tried.append(f"{place}: {' '.join(reason.split())}")
            logger.info("FashionMNIST, %s", tried[-1])
    hints = (
        "FashionMNIST not found. Tried:",
        *tried,
        "Do one of these:",
        f"sudo apt-get update && sudo apt-get install {PACKAGE}",
        f"allow the download of {URL} into {cache}, or into FMNAS_CACHE=/a/folder",
        "set FMNAS_DATA=/a/folder (or data.root in the config) to a folder with the four IDX files, plain or .gz",
    )
    raise DataError("\n  ".join(hints))


def _download_into(raw: Path, place: str, download: Callable[[Path], Path]) -> ImageSet:
    """Download to a folder beside `raw`, verify, then rename: an interrupted download never looks complete."""
    raw.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".download-", dir=raw.parent, ignore_cleanup_errors=True) as temporary:
        folder = download(Path(temporary))
        images = read_folder(place, folder)
        if images is None:
            raise DataError("it has no training images")
        try:
            folder.rename(raw)
        except OSError:
            if not idx_folder(raw, ""):  # it has images if another process was faster
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
