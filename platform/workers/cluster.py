"""Connection to Ray: a local cluster that only this process uses, or a running one.

Ray runs any code that reaches it. So a local cluster listens on the loopback interface alone, requires a random token,
and has its sockets and logs in a directory that no other user may enter.
"""

import errno
import logging
import os
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fmnas.platform.config.schema import AUTO
from fmnas.platform.errors import ClusterError

_ENVIRONMENT = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_LOCAL_ENVIRONMENT = {
    "RAY_enable_metrics_collection": "0",
    "RAY_worker_niceness": "0",  # by default, any other process starves the trainings
    "RAY_ROTATION_MAX_BYTES": str(4 * 1024**2),  # of each worker's log, which holds what a user's code prints
    "RAY_ROTATION_BACKUP_COUNT": "1",
}
_OPTIONS: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
# The store holds the data of any problem; Ray's default takes 30% of the memory.
_LOCAL_OPTIONS = {"include_dashboard": False, "object_store_memory": 512 * 1024**2}


def connect(address: str | None, namespace: str = "fmnas") -> Any:
    """Return Ray, connected to the cluster at `address` ("auto": one on this machine), or to a new local one if None.

    namespace: of its actors. A local cluster ends with this process. Environment variables about tokens apply to
    running clusters only. Raises ClusterError if no cluster answers or the local one does not start.
    """
    for name, value in (_ENVIRONMENT if address else {**_ENVIRONMENT, **_LOCAL_ENVIRONMENT}).items():
        os.environ.setdefault(name, value)
    with _keep_signal_handlers():
        return _start_local_cluster(namespace) if address is None else _connect_to_cluster(address, namespace)


def _start_local_cluster(namespace: str) -> Any:
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_AUTH_TOKEN_PATH": None}
    # Despite its name, "0" makes every process listen on 127.0.0.1 on Linux, too.
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    directory = session_directory()
    with _environment({**access, **loopback}):  # only Ray's processes inherit it
        ray = _import_ray()
        constants, services = ray._private.ray_constants, ray._private.services
        # A signal to the driver's process group would end Ray first. Without the kernel's help Ray must be in it.
        popen, group = services.ConsolePopen, 0 if ray._private.utils.detect_fate_sharing_support() else None
        services.ConsolePopen = partial(popen, process_group=group)
        constants.ENABLE_RAY_CLUSTER = False  # what Ray reads of `loopback` when it is imported, perhaps earlier
        try:
            # Without an address, Ray would join a cluster of `ray start` or RAY_ADDRESS.
            ray.init(address="local", namespace=namespace, _temp_dir=str(directory), **_LOCAL_OPTIONS, **_OPTIONS)
        except Exception as error:  # Ray raises plain Exceptions, too
            message = " ".join(str(error).split())[:300]
            raise ClusterError(
                f"Ray did not start on this machine ({type(error).__name__}: {message}); its logs are in "
                f"{directory}/session_latest/logs. Check that /dev/shm and /tmp have space and try again, or use a "
                "running cluster with --address"
            ) from None
        finally:
            constants.ENABLE_RAY_CLUSTER, services.ConsolePopen = True, popen
    return ray


def _connect_to_cluster(address: str, namespace: str) -> Any:
    ray = _import_ray()
    try:
        _check_port(address)
        ray.init(address=address, namespace=namespace, **_OPTIONS)
    except (OSError, OverflowError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ClusterError(
            f"--address {address}: no Ray cluster can be joined ({' '.join(str(error).split())[:300]}). Start one with "
            "`ray start --head`, with the same Ray and Python on every node, omit --address for a local cluster, or "
            "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH if the cluster requires a token"
        ) from None
    return ray


def _check_port(address: str) -> None:
    """Raise OSError if nothing listens at HOST:PORT; Ray would try for minutes."""
    place = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    host, _, port = place.rpartition(":")
    if host and port.isascii() and port.isdecimal() and "://" not in place:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()


def _import_ray() -> Any:
    """Import Ray and make it read the environment again, which it otherwise reads once per process.

    Ray has no documented way for that. Without it, only the first kind of cluster of a process could be used, and none
    after a user's `import ray`; Ray would refuse them for lack of the right token.
    """
    import ray

    with suppress(AttributeError):
        ray._private.worker._worker_logs_enabled = False  # else it prints long messages about dead workers to stdout
        ray._raylet.Config.initialize("")
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()
    return ray


@contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set environment variables in the block; None removes one."""
    previous = {name: os.environ.pop(name, None) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if value is not None})
    try:
        yield
    finally:
        for name, value in previous.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _keep_signal_handlers() -> Iterator[None]:
    """Restore the handlers of SIGTERM and SIGALRM, which Ray replaces, and cancel the alarm that it sets at SIGTERM.

    A SIGTERM during the block, at which Ray exits, is handled by the restored handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}

    def restore() -> None:
        signal.alarm(0)
        for number, handler in previous.items():
            if handler is not None:  # None: set by C code
                signal.signal(number, handler)

    try:
        yield
    except SystemExit:
        restore()
        signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        restore()


def session_directory() -> Path:
    """Return the directory for sockets and logs of local clusters; short, as socket names must be.

    Raises ClusterError if it cannot be made, or another user owns it or may enter it.
    """
    directory = Path(f"/tmp/fmnas-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise PermissionError(errno.EPERM, "another user may enter it")
    except OSError as error:
        raise ClusterError(
            f"{directory}, for Ray's sockets, must be a directory that you own with mode 0700 ({error.strerror}); "
            "remove it, make /tmp writable and free some space, or use a running cluster with --address"
        ) from None
    return directory / "ray"


def live_nodes(ray: Any) -> dict[str, dict[str, float]]:
    """Return id -> resources of every node that Ray considers alive."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def workers_that_fit(nodes: Iterable[Mapping[str, float]], cpus: float, gpus: float) -> int:
    """Return how many workers fit on nodes with these resources; no worker spans nodes, nor shares of two GPUs."""

    def ratio(available: float, required: float) -> int:
        return int(available / required + 1e-9)

    def fit(cpu: float, gpu: float) -> int:
        if gpus <= 0:
            return ratio(cpu, cpus)
        return min(ratio(cpu, cpus), int(gpu) * ratio(1.0, gpus) if gpus < 1 else ratio(gpu, gpus))

    return sum(fit(node.get("CPU", 0.0), node.get("GPU", 0.0)) for node in nodes)


def max_workers(nodes: Iterable[Mapping[str, float]], count: int | str, cpus: float, gpus: float, wanted: int) -> int:
    """Return how many workers there may be. count: a number, or "auto" for `wanted`, the number that the runs can use.

    Raises ClusterError if none or fewer than `count` fit.
    """
    nodes = list(nodes)
    fit, least = workers_that_fit(nodes, cpus, gpus), 1 if count == AUTO else int(count)
    if fit < least:
        most_cpus, most_gpus = (max((node.get(kind, 0.0) for node in nodes), default=0.0) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"workers.count = {count}: only {fit} fit on {len(nodes)} node(s) of at most {most_cpus:g} CPUs and "
            f"{most_gpus:g} GPUs, with workers.cpus = {cpus:g} and workers.gpus = {gpus:g} each; lower one of them "
            "(gpus: 0 trains on CPUs), or use a larger cluster with --address"
        )
    return wanted if count == AUTO else least
