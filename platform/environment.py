"""The environment of an experiment: versions, commit, host, devices, and what decides how numbers are rounded."""

import os
import platform
import re
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

OPTIONAL_PACKAGES = ("hpbandster", "scikit-learn", "xgboost", "xgboost-cpu", "box2d", "optuna", "smac", "botorch")
"""What some problems and optimizers need, beside the required packages."""
GPU_DEVICE_FILES = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))
"""Of NVIDIA, AMD, and the Windows Subsystem for Linux: without one of them torch finds no GPU."""
ROUNDING_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "OPENBLAS_CORETYPE",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
)
"""Environment variables by which torch, oneDNN, MKL and OpenBLAS choose their code, and so how they round."""
_TORCH_LIBRARIES = {"mkl": r"Math Kernel Library Version ([\d.]+)", "onednn": r"MKL-DNN v([\d.]+)"}
_VECTOR_FLAG = r"(?:mmx|s?sse|avx|fma|f16c|amx|asimd|neon|sve)\w*"
_CPUINFO = Path("/proc/cpuinfo")  # on Linux alone


def describe_environment() -> dict[str, Any]:
    """Return everything as plain JSON data; the version of a package that is not installed is None."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "gpus": _gpus(),
        "packages": {name: package_version(name) for name in ("fmnas", *required_packages(), *OPTIONAL_PACKAGES)},
        "libraries": _libraries(),
        "variables": {name: os.environ[name] for name in ROUNDING_VARIABLES if name in os.environ},
        "commit": commit(),
        "repository": repository(),
    }


def _cpu() -> dict[str, Any]:
    """Return the model of the processor and its vector instruction sets as Linux names them; empty on other systems."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    vectors = [flag for flag in flags[1].split() if re.fullmatch(_VECTOR_FLAG, flag)] if flags else []
    return {"model": model[1].strip() if model else "", "vectors": " ".join(vectors)}


def _libraries() -> dict[str, str]:
    """Return the versions of numpy's BLAS and, if torch is loaded, of its MKL and oneDNN, and its CPU capability."""
    import numpy

    blas = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    versions = {"numpy_blas": f"{blas.get('name')} {blas.get('version')}"}
    if torch := sys.modules.get("torch"):  # loading it takes seconds
        built = torch.__config__.show()
        versions |= {name: match[1] for name, words in _TORCH_LIBRARIES.items() if (match := re.search(words, built))}
        versions["torch_capability"] = torch.backends.cpu.get_cpu_capability()
    return versions


def _gpus() -> list[str]:
    """Return the names of this machine's GPUs. torch takes a second to import, which is done only if there are any."""
    if not any(device.exists() for device in GPU_DEVICE_FILES):
        return []
    import torch

    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


@dataclass(frozen=True)
class Software:
    """Versions and host of a driver. commit: None for an installed package. cpu: the model, "" if unknown."""

    fmnas: str | None
    commit: str | None
    python: str
    torch: str | None
    host: str
    cpu: str = ""


@cache
def current_software() -> Software:
    """Return the versions and the host of this process."""
    version, torch = package_version("fmnas"), package_version("torch")
    return Software(version, commit(), platform.python_version(), torch, socket.gethostname(), _cpu()["model"])


def is_same_version(one: Software, other: Software) -> bool:
    """Whether two drivers have the same version and commit of fmnas."""
    return (one.fmnas, one.commit) == (other.fmnas, other.commit)


def format_software(driver: Software) -> str:
    """Return e.g. "fmnas 0.1.0 (commit 1a2b3c4d, torch 2.13.0, Python 3.11.9)"."""
    commit = driver.commit or ""
    changed = "-dirty" if commit.endswith("-dirty") else ""
    source = f"commit {commit[:12]}{changed}" if commit else "installed"
    return f"fmnas {driver.fmnas} ({source}, torch {driver.torch}, Python {driver.python})"


def required_packages() -> list[str]:
    """Return the names of all required packages. Raises PackageNotFoundError if fmnas has no metadata."""
    return [re.split(r"[^\w.-]", line)[0] for line in metadata.requires("fmnas") or () if "extra ==" not in line]


def package_version(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def commit() -> str | None:
    """Return the commit of this checkout, with "-dirty" if files were changed; None for an installed package."""
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*") or None


@cache
def repository() -> dict[str, str]:
    """Return the branch and the URL of this checkout, as far as it has them; the URL without user and password."""
    branch, url = _git("branch", "--show-current"), _git("config", "--get", "remote.origin.url")
    bare = re.sub(r"(?<=://)[^/]*@", "", url).partition("?")[0]
    return {name: value for name, value in {"branch": branch, "url": bare}.items() if value}


def _git(*arguments: str) -> str:
    """Return what git says of this checkout; empty without a checkout, an answer, or git."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return ""
    try:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
