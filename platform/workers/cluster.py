"""Connection to Ray: a local cluster that only this process uses, or a running one.

Ray runs any code that reaches it. So a local cluster listens on the loopback interface alone, requires a random token,
and has its sockets and logs in a directory that no other user may enter.
"""

import logging
import os
import secrets
import signal
import socket
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
_OPTIONS: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "fmnas"}
# The store holds the data of any problem; Ray's default takes 30% of the memory.
_LOCAL_OPTIONS = {"include_dashboard": False, "object_store_memory": 512 * 1024**2}


def connect(address: str | None) -> Any:
    """Return Ray, connected to the cluster at `address` ("auto": one on this machine), or to a new local one if None.

    A local cluster ends with this process. Environment variables about tokens apply to running clusters only.
    Raises ClusterError if no cluster answers or the local one does not start.
    """
    for name, value in (_ENVIRONMENT if address else {**_ENVIRONMENT, **_LOCAL_ENVIRONMENT}).items():
        os.environ.setdefault(name, value)
    with _keep_signal_handlers():
        return _start_local_cluster() if address is None else _connect_to_cluster(address)


def _start_local_cluster() -> Any:
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_AUTH_TOKEN_PATH": None}
    # Despite its name, "0" makes every process listen on 127.0.0.1 on Linux, too.
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    directory = session_directory()
    with _environment({**access, **loopback}):  # only Ray's processes inherit it
        ray = _import_ray()
        constants = ray._private.ray_constants
        constants.ENABLE_RAY_CLUSTER = False  # what Ray reads of `loopback` when it is imported, perhaps earlier
        try:
            # Without an address, Ray would join a cluster of `ray start` or RAY_ADDRESS.
            ray.init(address="local", _temp_dir=str(directory), **_LOCAL_OPTIONS, **_OPTIONS)
        except Exception as error:  # Ray raises plain Exceptions, too
            message = " ".join(str(error).split())[:300]
            raise ClusterError(
                f"Ray did not start on this machine ({type(error).__name__}: {message}); its logs are in "
                f"{directory}/session_latest/logs. Check that /dev/shm and /tmp have space and try again, or use a "
                "running cluster with --address"
            ) from None
        finally:
            constants.ENABLE_RAY_CLUSTER = True
    return ray


def _connect_to_cluster(address: str) -> Any:
    _check_port(address)
    ray = _import_ray()
    try:
        ray.init(address=address, **_OPTIONS)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _connection_error(address, " ".join(str(error).split())) from None
    return ray


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
    previous = {name: os.environ.get(name) for name in variables}

    def update(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    update(variables)
    try:
        yield
    finally:
        update(previous)


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

    Raises ClusterError if another user owns it or may enter it.
    """
    directory = Path(f"/tmp/fmnas-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        status = directory.lstat()
    except OSError as error:
        raise ClusterError(
            f"cannot create {directory} for Ray's sockets ({error.strerror}); make /tmp writable and free some space, "
            "or use a running cluster with --address"
        ) from None
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise ClusterError(
            f"{directory}, for Ray's sockets, must be a directory that you own with mode 0700; remove it and try again"
        )
    return directory / "ray"


@dataclass(frozen=True)
class LocalCluster:
    """A cluster that this process started. ports: of its head and node. logs: their directory."""

    ports: tuple[int, ...]
    logs: str

    @classmethod
    def of(cls, ray: Any) -> "LocalCluster":
        """Describe the local cluster that is connected."""
        head = int(ray.get_runtime_context().gcs_address.rpartition(":")[2])
        sessions = session_directory().glob(f"session_*_{os.getpid()}")
        session = max(sessions, key=lambda path: path.stat().st_mtime, default=session_directory() / "session_latest")
        return cls((head, *(node["NodeManagerPort"] for node in ray.nodes())), f"{session}/logs")

    def is_alive(self) -> bool:
        """Whether its processes run; without one of them it never recovers."""
        try:
            for port in self.ports:
                socket.create_connection(("127.0.0.1", port), timeout=10.0).close()
        except ConnectionRefusedError:
            return False
        except OSError:  # e.g. too many open files: no sign of death
            return True
        return True


def _check_port(address: str) -> None:
    """Raise ClusterError if nothing listens at HOST:PORT; Ray would try for minutes."""
    place = os.environ.get("RAY_ADDRESS", "") if address == AUTO else address
    host, _, port = place.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or "://" in place:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _connection_error(address, f"nothing listens at {place}: {error}") from None


def _connection_error(address: str, reason: str) -> ClusterError:
    if "ersion mismatch" in reason:
        return ClusterError(f"--address {address}: {reason[:300]}. Install the same Ray and Python on every node")
    return ClusterError(
        f"--address {address}: no Ray cluster answers ({reason[:200]}). Start one with `ray start --head`, omit "
        "--address for a local cluster, or set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH if the cluster requires a token"
    )


def live_nodes(ray: Any) -> dict[str, dict[str, float]]:
    """Return id -> resources of every node that Ray considers alive."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def workers_that_fit(nodes: Iterable[Mapping[str, float]], cpus: float, gpus: float) -> int:
    """Return how many workers fit on nodes with these resources; no worker spans nodes, nor shares of two GPUs."""
    return sum(min(_ratio(node.get("CPU", 0.0), cpus), _fit_on_gpus(node.get("GPU", 0.0), gpus)) for node in nodes)


def _fit_on_gpus(available: float, gpus: float) -> int:
    if gpus <= 0:
        return 10**9
    return int(available) * _ratio(1.0, gpus) if gpus < 1 else _ratio(available, gpus)


def _ratio(available: float, required: float) -> int:
    return int(available / required + 1e-9)


def max_workers(nodes: Iterable[Mapping[str, float]], count: int | str, cpus: float, gpus: float, wanted: int) -> int:
    """Return how many workers there may be. count: a number, or "auto" for `wanted`, the number that the runs can use.

    Raises ClusterError if none or fewer than `count` fit.
    """
    nodes = list(nodes)
    fit = workers_that_fit(nodes, cpus, gpus)
    if fit == 0:
        most_cpus, most_gpus = (max((node.get(kind, 0.0) for node in nodes), default=0.0) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"workers.cpus = {cpus:g} and workers.gpus = {gpus:g} fit on no node (at most {most_cpus:g} CPUs and "
            f"{most_gpus:g} GPUs); lower them (gpus: 0 trains on CPUs), or use a larger cluster with --address"
        )
    if count != AUTO and int(count) > fit:
        raise ClusterError(
            f"workers.count = {count}: only {fit} fit on {len(nodes)} node(s) with workers.cpus = {cpus:g} and "
            f"workers.gpus = {gpus:g} each; lower one of them, or set workers.count to auto"
        )
    return wanted if count == AUTO else int(count)
