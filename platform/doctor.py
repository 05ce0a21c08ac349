"""Checks of the installation: packages, GPUs, data, the Ray cluster and the disk."""

import importlib
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import requires

from fmnas.platform.environment import package_version
from fmnas.platform.errors import legible, one_line
from fmnas.search_spaces import FmnasError
from fmnas.search_spaces.errors import PACKAGES

OPTIONAL = {"xgboost": "xgb_* problems", "optuna": "tpe", "smac": "smac", "botorch": "botorch"}
"""Optional package -> the problems or the optimizer that need it."""
MIN_FREE_GIGABYTES = 2.0
MAX_REASON_CHARS = 300
"""Characters shown of an error that is not by fmnas."""


@dataclass(frozen=True)
class CheckResult:
    """Result of one check. detail: what was found, or how to fix it."""

    name: str
    passed: bool
    detail: str


def run_checks(address: str | None) -> Iterator[CheckResult]:
    """Run all checks, yielding each result at once. Nothing is changed, but data may be downloaded to the cache.

    address: of a Ray cluster; None starts a local one.
    """
    checks: dict[str, Callable[[], Iterator[CheckResult]]] = {
        "packages": _check_packages,
        "GPUs": _check_gpus,
        "FashionMNIST": _check_data,
        "Ray": lambda: _check_cluster(address),
        "disk": _check_disk,
    }
    for name, check in checks.items():
        yield from guard(name, check)


def guard(name: str, check: Callable[[], Iterator[CheckResult]]) -> Iterator[CheckResult]:
    """Yield the results of a check; an exception in it becomes a failed result, so that the next checks still run."""
    try:
        yield from check()
    except FmnasError as error:
        yield CheckResult(name, False, str(error))
    except ImportError as error:
        yield CheckResult(name, False, f"{error}: install it (see README.md)")
    except Exception as error:
        reason = legible(str(error))[:MAX_REASON_CHARS]
        yield CheckResult(name, False, f"check failed: {type(error).__name__}: {reason}")


def required_packages() -> list[str]:
    """Return the names of all required packages. Raises PackageNotFoundError if fmnas has no metadata."""
    return [re.split(r"[^\w.-]", line)[0] for line in requires("fmnas") or () if "extra ==" not in line]


def _check_packages() -> Iterator[CheckResult]:
    for name in required_packages():
        installed = package_version(name)
        yield CheckResult(name, installed is not None, installed or f"not installed: pip install {name}")
    for name, user in OPTIONAL.items():
        package = PACKAGES.get(name, name)
        installed = package_version(name) or package_version(package)
        yield CheckResult(name, True, installed or f"not installed (optional, for {user}): pip install {package}")
    try:
        importlib.import_module("hpbandster.core.dispatcher")
    except Exception as error:  # it is unmaintained, so any newer package may break it
        detail = f"hpbandster does not import ({error}): its netifaces needs gcc and Python headers"
        yield CheckResult("bohb", False, detail)


def _check_gpus() -> Iterator[CheckResult]:
    """Train for a moment on every GPU."""
    import torch

    from fmnas.trainers.images.problem import smoke_test_device

    count = torch.cuda.device_count()
    if not count:
        yield CheckResult("GPUs", True, "none: workers train on CPUs (workers.gpus: 0)")
    for device in (f"cuda:{i}" for i in range(count)):
        name = torch.cuda.get_device_name(device)
        try:
            used = smoke_test_device(device)
        except FmnasError as error:
            hint = "check the driver version and free memory (nvidia-smi), or set workers.arrangement: plain"
            reason = one_line(error)[:MAX_REASON_CHARS]
            yield CheckResult(device, False, f"{name} cannot train: {reason}; {hint}")
        else:
            versions = f" ({used.way}, torch {used.torch}, cuDNN {used.cudnn or 'none'})" if used else ""
            yield CheckResult(device, True, f"{name} trains{versions}")


def _check_data() -> Iterator[CheckResult]:
    from fmnas.trainers.images.data import fashion_mnist_set

    yield CheckResult("FashionMNIST", True, fashion_mnist_set().place)


def _check_cluster(address: str | None) -> Iterator[CheckResult]:
    from fmnas.platform.workers.cluster import connect

    ray = connect(address)
    try:
        resources, nodes = ray.cluster_resources(), len(ray.nodes())
        amounts = f"{resources.get('CPU', 0):g} CPUs, {resources.get('GPU', 0):g} GPUs"
        yield CheckResult("Ray cluster", True, f"{address or 'local'}: {nodes} node(s), {amounts}")
    finally:
        ray.shutdown()


def _check_disk() -> Iterator[CheckResult]:
    free = shutil.disk_usage(".").free / 1e9
    required = "" if free > MIN_FREE_GIGABYTES else f"; at least {MIN_FREE_GIGABYTES:g} GB required"
    yield CheckResult("disk", not required, f"{free:.0f} GB free in this folder{required}")
