"""Checks of the installation: packages, GPUs, data, the Ray cluster and the disk."""

import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from fmnas.platform.environment import package_version, required_packages
from fmnas.platform.errors import CheckResult, one_line
from fmnas.search_spaces import FmnasError
from fmnas.search_spaces.errors import install_command

OPTIONAL = {
    "hpbandster": "bohb and hyperband",
    "sklearn": "nusvr_*, svm_*, dt_*, mlp_* and xgb_digits",
    "xgboost": "xgb_digits and xgb_fashion_mnist",
    "optuna": "tpe, nsga2 and optuna:SAMPLER",
    "smac": "smac",
    "botorch": "botorch",
    "Box2D": "robot_pushing",
    "psutil": "workers.system_metrics",
}
"""Optional module -> the problems, the optimizers or the key that need it."""
MIN_FREE_GIGABYTES = 2.0


def run_checks(address: str | None) -> Iterator[CheckResult]:
    """Run all checks, yielding each result at once. Nothing is changed, but data may be downloaded to the cache.

    address: of a Ray cluster; None starts a local one. An exception in a check is a failed result.
    """
    checks: dict[str, Callable[[], Iterator[CheckResult]]] = {
        "packages": _check_packages,
        "GPUs": _check_gpus,
        "FashionMNIST": _check_data,
        "Ray": lambda: _check_cluster(address),
        "disk": _check_disk,
    }
    for name, check in checks.items():
        try:
            yield from check()
        except Exception as error:
            yield CheckResult(name, False, str(error) if isinstance(error, FmnasError) else one_line(error))


def _check_packages() -> Iterator[CheckResult]:
    missing = [name for name in required_packages() if package_version(name) is None]
    result = f"not installed: pip install {' '.join(missing)}" if missing else "all required ones are installed"
    yield CheckResult("packages", not missing, result)
    missing = [f"for {use}: {install_command(name)}" for name, use in OPTIONAL.items() if find_spec(name) is None]
    result = f"not installed; {'; '.join(missing)}" if missing else "all installed"
    yield CheckResult("optional packages", True, result)


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
            hint = "check driver and free memory (nvidia-smi), or set workers.arrangement: plain"
            yield CheckResult(device, False, f"{name} cannot train: {one_line(error)}; {hint}")
        else:
            versions = f" ({used.label}, torch {used.torch}, cuDNN {used.cudnn or 'none'})" if used else ""
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
