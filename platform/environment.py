"""What an experiment ran on: versions, commit, host, devices, and what decides the last digits of its numbers."""

import os
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

RECORDED_PACKAGES = (
    "fmnas",
    "torch",
    "torchvision",
    "gpytorch",
    "numpy",
    "ray",
    "mlflow",
    "hpbandster",
    "ConfigSpace",
    "pandas",
    "scikit-learn",
    "xgboost",
    "xgboost-cpu",
    "optuna",
    "smac",
    "botorch",
)
GPU_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/kfd"), Path("/dev/dxg"))
"""Of NVIDIA, of AMD, and of Windows' subsystem for Linux: without one of them torch finds no GPU."""
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
"""Variables of the environment by which torch, oneDNN, MKL and OpenBLAS choose their code, and so how they round."""
_TORCH_LIBRARIES = {"mkl": r"Math Kernel Library Version ([\d.]+)", "onednn": r"MKL-DNN v([\d.]+)"}
_VECTOR_FLAG = r"(?:mmx|s?sse|avx|fma|f16c|amx|asimd|neon|sve)\w*"
_CPUINFO = Path("/proc/cpuinfo")


def describe_environment() -> dict[str, Any]:
    """Plain JSON data; a package that is not installed has the version None."""
    return {
        "python": platform.python_version(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "cpu": _cpu(),
        "gpus": _gpus(),
        "packages": {name: package_version(name) for name in RECORDED_PACKAGES},
        "libraries": _libraries(),
        "variables": {name: os.environ[name] for name in ROUNDING_VARIABLES if name in os.environ},
        "commit": commit(),
    }


def _cpu() -> dict[str, Any]:
    """The processor's model, and its vector instruction sets by Linux's names; empty where Linux does not tell."""
    try:
        text = _CPUINFO.read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    vectors = [flag for flag in flags[1].split() if re.fullmatch(_VECTOR_FLAG, flag)] if flags else []
    return {"model": model[1].strip() if model else "", "vectors": " ".join(vectors)}


def _libraries() -> dict[str, str]:
    """Who computes: numpy's BLAS; of torch, where it is loaded, its MKL and oneDNN, and the code that it chose here."""
    import numpy

    blas = numpy.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    found = {"numpy_blas": f"{blas.get('name')} {blas.get('version')}"}
    if torch := sys.modules.get("torch"):  # loading it takes seconds
        built = torch.__config__.show()
        found |= {name: match[1] for name, words in _TORCH_LIBRARIES.items() if (match := re.search(words, built))}
        found["torch_capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def _gpus() -> list[str]:
    """The names of this machine's GPUs; torch, which takes a second to load, is asked only where a driver is."""
    if not any(device.exists() for device in GPU_DRIVERS):
        return []
    import torch

    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


@cache
def provenance() -> Mapping[str, Any]:
    """What decides whether two drivers give the same numbers, and where this one runs; plain JSON data."""
    return {
        "fmnas": package_version("fmnas"),
        "commit": commit(),
        "python": platform.python_version(),
        "torch": package_version("torch"),
        "host": socket.gethostname(),
    }


def same_fmnas(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two drivers are of the same version and commit."""
    return all(one.get(name) == other.get(name) for name in ("fmnas", "commit"))


def driver_in_words(driver: Mapping[str, Any]) -> str:
    """e.g. "fmnas 0.1.0 (commit 1a2b3c4d, torch 2.13.0)"."""
    commit = str(driver.get("commit") or "")
    changed = "-dirty" if commit.endswith("-dirty") else ""
    source = f"commit {commit[:12]}{changed}" if commit else "installed"
    return f"fmnas {driver.get('fmnas')} ({source}, torch {driver.get('torch')}, Python {driver.get('python')})"


def package_version(name: str) -> str | None:
    """The installed version, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def commit() -> str | None:
    """The commit of the checkout this code lies in, "-dirty" if it was changed; None for an installed package."""
    root = Path(__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        arguments = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        return subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
