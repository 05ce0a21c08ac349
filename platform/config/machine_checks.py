"""What must be on the machine that runs an experiment: its data, its MLflow store, a GPU for the driver's own process.

Where a run directory is only read, none of it needs to be there: a report is made on any machine.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from fmnas.platform.config.errors import shown
from fmnas.platform.config.sections import IN_PROCESS
from fmnas.platform.config.uri import TrackingError, check_uri
from fmnas.platform.problems import Row

if TYPE_CHECKING:
    from fmnas.platform.config.config import Config

Check = Callable[["Config", Row | None], list[str]]
"""What is wrong in a configuration, a line each, given the row of its problem, if there is one."""

SIZES = {"fashion_mnist": 60_000, "digits": 1_797}
"""Images of each data set that is known before it is loaded; its test images are not among them."""


def _check_size(config: "Config", row: Row | None) -> list[str]:
    if row is None:
        return []
    data = row.complete(config.problem_settings).data
    most = SIZES.get(data.name or "")
    if most is None or data.train is None or data.validation is None or data.train + data.validation <= most:
        return []
    return [
        f"data.train = {data.train}, data.validation = {data.validation}: {data.name} has {most:,} images for both; "
        "give fewer of one or the other"
    ]


def _check_root(config: "Config", row: Row | None) -> list[str]:
    root = config.data.root
    if root is None or row is None or "root" not in row.settable.data or os.path.exists(root):
        return []
    return [f"data.root = {shown(root)}: there is no such file or folder on this machine; give the one with the data"]


def _check_store(config: "Config", _: Row | None) -> list[str]:
    if not config.tracking.enabled or config.tracking.uri is None:
        return []
    try:
        check_uri(config.tracking.uri)
    except TrackingError as error:
        return [str(error)]
    return []


def _check_device(config: "Config", _: Row | None) -> list[str]:
    if config.workers.kind != IN_PROCESS or not config.workers.gpus:
        return []
    import torch

    if torch.cuda.is_available():
        return []
    return [
        f"workers.gpus = {config.workers.gpus:g}: workers.kind = {IN_PROCESS} trains in this process, which has no "
        "GPU; leave workers.gpus out, or take workers.kind = ray"
    ]


CHECKS_HERE: dict[Check, tuple[str, ...]] = {
    _check_size: ("problem", "data"),
    _check_root: ("problem", "data"),
    _check_store: ("tracking",),
    _check_device: ("workers",),
}
"""The same of what must be on the machine that runs it."""
