"""What this machine and cluster can do, what is missing, and how to get it."""

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

OPTIONAL = {
    "xgboost": "xgb_* problems need",
    "optuna": "the optimizer tpe needs",
    "smac": "the optimizer smac needs",
    "botorch": "the optimizer botorch needs",
}
"""Of a package, who alone needs it: "only ... it"."""
FREE_GIGABYTES = 2.0
LONGEST_REASON = 300
"""Of a foreign error, as much as is shown."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: whether it is well, and what was found or how to get it."""

    what: str
    good: bool
    detail: str


def examine(address: str | None) -> Iterator[Finding]:
    """Look at packages, data, devices, cluster and disk, each finding as it comes.

    Nothing is changed, but data may be fetched into the cache.
    """
    checks: dict[str, Callable[[], Iterator[Finding]]] = {
        "packages": _packages,
        "GPUs": _devices,
        "FashionMNIST": _data,
        "Ray": lambda: _cluster(address),
        "disk": _disk,
    }
    for what, check in checks.items():
        yield from _looked(what, check)


def _looked(what: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """A check's findings, the last of which is why it broke down: what is missing must not hide the rest."""
    try:
        yield from check()
    except FmnasError as error:
        yield Finding(what, False, str(error))
    except ImportError as error:
        yield Finding(what, False, f"{error}: install it as README.md says, and look again")
    except Exception as error:
        why = legible(str(error))[:LONGEST_REASON] or "no reason given"
        yield Finding(what, False, f"this could not be looked at ({type(error).__name__}: {why}): mend that first")


def required_packages() -> list[str]:
    """What fmnas cannot do without, as its own metadata has it. Raises PackageNotFoundError where it has none."""
    return [re.split(r"[^\w.-]", line)[0] for line in requires("fmnas") or () if "extra ==" not in line]


def _packages() -> Iterator[Finding]:
    for name in required_packages():
        found = package_version(name)
        yield Finding(name, found is not None, found or f"not installed: pip install {name}")
    for name, who_needs in OPTIONAL.items():
        package = PACKAGES.get(name, name)
        found = package_version(name) or package_version(package)
        yield Finding(name, True, found or f"not installed, and only {who_needs} it: pip install {package}")
    try:
        importlib.import_module("hpbandster.core.dispatcher")
    except Exception as error:  # it is unmaintained, and may break on whatever is newer than it
        why = f"hpbandster does not import ({error}): its netifaces needs gcc and Python headers"
        yield Finding("bohb", False, why)


def _devices() -> Iterator[Finding]:
    """Each GPU is trained on: that it has a name says little."""
    import torch

    from fmnas.trainers.images.problem import train_a_little

    count = torch.cuda.device_count()
    if not count:
        yield Finding("GPUs", True, "none: workers train on CPUs (workers.gpus: 0)")
    for device in (f"cuda:{i}" for i in range(count)):
        name = torch.cuda.get_device_name(device)
        try:
            how = train_a_little(device)
        except FmnasError as error:
            advice = (
                "Is its driver new enough for this torch, and is its memory free (nvidia-smi)? Where steps cannot be "
                "captured, workers.arrangement: plain trains without, and takes longer"
            )
            told = f"{name} cannot train: {one_line(error)[:LONGEST_REASON]}. {advice}"
            yield Finding(device, False, told)
        else:
            told = f"{how.way}, torch {how.torch}, cuDNN {how.cudnn or 'none'}" if how else "it does not say how"
            yield Finding(device, True, f"{name} trains: {told}")


def _data() -> Iterator[Finding]:
    from fmnas.trainers.images.data import fashion_mnist_set

    yield Finding("FashionMNIST", True, fashion_mnist_set().place)


def _cluster(address: str | None) -> Iterator[Finding]:
    from fmnas.platform.workers.cluster import connect

    ray = connect(address)
    try:
        resources, nodes = ray.cluster_resources(), len(ray.nodes())
        amounts = f"{resources.get('CPU', 0):g} CPUs, {resources.get('GPU', 0):g} GPUs"
        yield Finding("Ray cluster", True, f"{address or 'own'}: {nodes} node(s), {amounts}")
    finally:
        ray.shutdown()


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(".").free / 1e9
    good = free > FREE_GIGABYTES
    lacking = "" if good else f", and it takes {FREE_GIGABYTES:g}: make room, or go where there is some"
    yield Finding("disk", good, f"{free:.0f} GB free here{lacking}")
