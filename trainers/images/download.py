"""The two ways to fetch FashionMNIST: torchvision's download, and Debian's package without root.

A fetcher gets an empty folder and returns the folder, inside it, that has the four files; or raises DataError.
"""

import contextlib
import io
import logging
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from fmnas.trainers.contract import DataError

logger = logging.getLogger(__name__)

Fetcher = Callable[[Path], Path]

PACKAGE = "dataset-fashion-mnist"
SILENCE_SECONDS = 5.0  # a server that says nothing for so long is taken for absent
APT_SECONDS = 600.0  # 31 MB in all
APT_PATIENCE = ("-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1")


def download_with_torchvision(folder: Path) -> Path:
    """torchvision's own download into `folder`; it checks the checksums. Raises DataError."""
    logger.info("downloading FashionMNIST with torchvision (30 MB)")
    try:
        torchvision = import_torchvision()
        with _socket_timeout(SILENCE_SECONDS), _silence():
            torchvision.datasets.FashionMNIST(folder, download=True)
    except Exception as error:  # torchvision, urllib, tarfile ...: whatever stopped it is the reason we report
        raise DataError(f"{type(error).__name__}: {' '.join(str(error).split())}") from None
    return folder / "FashionMNIST" / "raw"


def download_with_apt(folder: Path) -> Path:
    """Debian's package, downloaded and unpacked below `folder`; nothing is installed. Raises DataError."""
    missing = [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]
    if missing:
        raise DataError(f"no {' and no '.join(missing)} here")
    logger.info("downloading the package %s with apt-get (31 MB)", PACKAGE)
    try:
        _run(["apt-get", *APT_PATIENCE, "download", PACKAGE], folder)
    except DataError as error:  # often: the machine's package lists are missing or old, and only root may renew them
        logger.info("%s; trying again with package lists of our own", error)
        own = _own_package_lists(folder)
        _run(["apt-get", *APT_PATIENCE, *own, "--quiet=2", "update"], folder)
        _run(["apt-get", *APT_PATIENCE, *own, "download", PACKAGE], folder)
    package = next(folder.glob("*.deb"), None)
    if package is None:
        raise DataError(f"apt-get download {PACKAGE} ended well but left no package")
    _run(["dpkg-deb", "-x", package.name, "."], folder)
    return folder / "usr" / "share" / "datasets" / "fashion-mnist"


def _own_package_lists(folder: Path) -> list[str]:
    """Options by which apt-get keeps lists and cache below `folder`, where it needs no root."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    return ["-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}"]


FETCHERS: tuple[tuple[str, Fetcher], ...] = (
    ("torchvision download", download_with_torchvision),
    ("apt package", download_with_apt),
)


@contextlib.contextmanager
def staging_folder(parent: Path) -> Iterator[Path]:
    """An empty folder below `parent`, on its file system, removed at the end. DataError when it cannot be made."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".fetching-", dir=parent))
    except OSError as error:
        raise DataError(f"the cache {parent} cannot be written: {error.strerror}") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@lru_cache(maxsize=1)
def import_torchvision() -> ModuleType:
    """torchvision, also where its compiled operators do not fit the installed torch.

    The wheel on PyPI is built for CUDA; next to a CPU-only torch its import stops with "operator torchvision::nms does
    not exist". Its Python part, all a download needs, imports once these two schemas exist.
    """
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms" not in str(error):
            raise
        for operator in ("nms", "qnms"):
            _schemas().define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


@lru_cache(maxsize=1)
def _schemas() -> Any:
    import torch

    return torch.library.Library("torchvision", "DEF")  # the cache keeps it alive: its operators go with it


@contextlib.contextmanager
def _socket_timeout(seconds: float) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps torchvision's progress bar off the screen."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=APT_SECONDS)
    except subprocess.CalledProcessError as error:
        raise DataError(
            f"{command[0]} failed: {' '.join(error.stderr.split()) or f'code {error.returncode}'}"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{command[0]} failed: {error}") from None
