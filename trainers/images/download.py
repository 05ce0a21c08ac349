"""The two ways to fetch FashionMNIST: torchvision's download, and Debian's package without root.

A fetcher gets an empty folder and returns the folder, inside it, that has the four files; or raises DataError.
"""

import io
import logging
import shutil
import socket
import subprocess
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

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
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_SECONDS)
    try:
        torchvision = import_torchvision()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # of its progress bar
            torchvision.datasets.FashionMNIST(folder, download=True)
    except Exception as error:  # torchvision, urllib, tarfile ...: whatever stopped it is the reason we report
        raise DataError(f"{type(error).__name__}: {' '.join(str(error).split())}") from None
    finally:
        socket.setdefaulttimeout(before)
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
        for name in ("lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        own = ("-o", f"Dir::State::Lists={folder / 'lists'}", "-o", f"Dir::Cache={folder / 'cache'}")
        _run(["apt-get", *APT_PATIENCE, *own, "--quiet=2", "update"], folder)
        _run(["apt-get", *APT_PATIENCE, *own, "download", PACKAGE], folder)
    package = next(folder.glob("*.deb"), None)
    if package is None:
        raise DataError(f"apt-get download {PACKAGE} ended well but left no package")
    _run(["dpkg-deb", "-x", package.name, "."], folder)
    return folder / "usr" / "share" / "datasets" / "fashion-mnist"


FETCHERS: tuple[tuple[str, Fetcher], ...] = (
    ("torchvision download", download_with_torchvision),
    ("apt package", download_with_apt),
)


def staging_folder(parent: Path) -> TemporaryDirectory[str]:
    """An empty folder below `parent`, on its file system, removed at the end. DataError when it cannot be made."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return TemporaryDirectory(prefix=".fetching-", dir=parent, ignore_cleanup_errors=True)
    except OSError as error:
        raise DataError(f"the cache {parent} cannot be written: {error.strerror}") from None


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
        import torch

        for name in ("torchvision::nms", "torchvision::qnms"):
            torch.library.define(name, "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        import torchvision
    return torchvision


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=APT_SECONDS)
    except subprocess.CalledProcessError as error:
        raise DataError(
            f"{command[0]} failed: {' '.join(error.stderr.split()) or f'code {error.returncode}'}"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"{command[0]} failed: {error}") from None
