"""Connecting to Ray: a lean cluster of our own, or a standing one."""

import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fmnas.platform.errors import ClusterError

OBJECT_STORE_BYTES = 512 * 1024**2  # the data of every problem fit; Ray's default takes 30% of the memory

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_LOCAL = {
    "RAY_enable_metrics_collection": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",  # by Ray's default any other process of the machine starves the trainings
}


def connect(address: str | None) -> Any:
    """Ray, connected to the cluster at `address` ("auto" finds one), or to one of our own when it is None.

    A cluster of our own listens on this machine alone and ends with this process, so it needs no token; a standing one
    keeps its own rules. Raises ClusterError when there is none at the address.
    """
    for name, value in (_QUIET if address else {**_QUIET, **_LOCAL}).items():
        os.environ.setdefault(name, value)
    import ray

    with _own_signals():
        return _initialised(ray, address)


def _initialised(ray: Any, address: str | None) -> Any:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "fmnas"}
    if address is None:
        # "local", or Ray would take any cluster that happens to stand on this machine.
        ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **common)
        return ray
    try:
        ray.init(address=address, **common)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ClusterError(
            f"--address {address}: no Ray cluster answers ({' '.join(str(error).split())[:200]}). Start one with "
            "`ray start --head`, leave --address out for a cluster on this machine alone, or, where the cluster asks "
            "for a token, set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
        ) from None
    return ray


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself, and ends the process at it, already while it starts; ours waits for what runs.

    Its Python part would do so at once: it sets no handler meanwhile. Its C++ part also calls the handler that was
    there, but sets an alarm that aborts the process 3 seconds later: handlers and alarm are put back once Ray stands.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers, Ray's too
        return
    set_handler = signal.signal
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}

    def keep_ours(number: int, handler: Any) -> Any:
        return signal.getsignal(number) if number == signal.SIGTERM else set_handler(number, handler)

    signal.signal = keep_ours  # type: ignore[assignment]
    try:
        yield
    finally:
        signal.signal = set_handler
        signal.alarm(0)
        for number, handler in before.items():
            if handler is not None:  # None is one that was not set from Python
                signal.signal(number, handler)


def pool_size(resources: dict[str, float], count: int | str, cpus: float, gpus: float, wanted: int) -> int:
    """How many workers fit; "auto" takes as many as fit and the runs can use at once (`wanted`).

    Raises ClusterError when not even one fits, or fewer than asked for.
    """
    have_cpus, have_gpus = resources.get("CPU", 0.0), resources.get("GPU", 0.0)
    if gpus > have_gpus:
        raise ClusterError(
            f"workers.gpus = {gpus:g}: the cluster has {have_gpus:g} GPUs; lower it (0 trains on CPUs), "
            "or give a cluster with GPUs by --address"
        )
    if cpus > have_cpus:
        raise ClusterError(f"workers.cpus = {cpus:g}: the cluster has {have_cpus:g} CPUs; lower it")
    fit = int(have_cpus / cpus + 1e-9)
    if gpus > 0:
        fit = min(fit, int(have_gpus / gpus + 1e-9))
    if count == "auto":
        return max(1, min(fit, wanted))
    if int(count) > fit:
        raise ClusterError(
            f"workers.count = {count}: with workers.cpus = {cpus:g} and workers.gpus = {gpus:g} each, {fit} fit into "
            f"the cluster's {have_cpus:g} CPUs and {have_gpus:g} GPUs; lower one of them, or say auto"
        )
    return int(count)
