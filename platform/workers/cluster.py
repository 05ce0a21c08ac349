"""Connecting to Ray: a lean cluster of our own, or a standing one.

Ray runs whatever code reaches it, as the user that started it. So a cluster of our own listens on the loopback alone,
and answers only who knows its token: random, made for this cluster, and told to nobody but Ray's own processes. Its
sockets and logs lie in a folder that nobody else may enter; in Ray's own, everybody may write.
"""

import importlib
import logging
import os
import secrets
import shutil
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fmnas.platform.config.schema import AUTO
from fmnas.platform.errors import ClusterError

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_LOCAL = {
    "RAY_enable_metrics_collection": "0",
    "RAY_worker_niceness": "0",  # by Ray's default any other process of the machine starves the trainings
    # What a training prints is in Ray's logs: the last megabytes of each worker, whatever somebody's function prints.
    "RAY_ROTATION_MAX_BYTES": str(4 * 1024**2),
    "RAY_ROTATION_BACKUP_COUNT": "1",
}
# The data of every problem fit into such a store; Ray's default takes 30% of the memory.
_LEAN = {"include_dashboard": False, "object_store_memory": 512 * 1024**2}
_COMMON: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "namespace": "fmnas"}


def connect(address: str | None) -> Any:
    """Ray, connected to the cluster at `address` ("auto" finds one), or to one of our own when it is None.

    A cluster of our own ends with this process; whatever the environment says of tokens is for standing ones, which
    keep their own rules. Raises ClusterError when there is none at the address, or ours does not start.
    """
    for name, value in (_QUIET if address else {**_QUIET, **_LOCAL}).items():
        os.environ.setdefault(name, value)
    with _own_signals():
        ray = _own_cluster() if address is None else _standing_cluster(address)
    with suppress(AttributeError):
        # log_to_driver=False leaves out Ray's own messages no more than this private switch is public: of each worker
        # that dies Ray would print 1,100 characters to standard output. The driver tells of it in a line.
        ray._private.worker._worker_logs_enabled = False
    return ray


def own_folder() -> Path:
    """Where our own clusters have their sockets and logs, for this user alone; short, as names of sockets must be.

    Raises ClusterError where somebody else was there before.
    """
    folder = Path(f"/tmp/fmnas-{os.getuid()}")
    try:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError as error:
        raise ClusterError(
            f"{folder}, where Ray's sockets are to lie, cannot be made ({error.strerror}): is /tmp full or read-only? "
            "Mend that, or give a cluster that runs by --address"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ClusterError(
            f"{folder} is not a folder for you alone, and Ray's sockets are to lie there: look who made it, remove it, "
            "and try again"
        )
    return folder / "ray"


def own_logs(ray: Any) -> str:
    """The folder with the logs of the cluster of our own; where it has not begun, that of the last one that did."""
    with suppress(AttributeError):  # Ray's own names
        return str(ray._private.worker._global_node.get_logs_dir_path())
    return f"{own_folder()}/session_latest/logs"


def _remove_old_sessions(folder: Path) -> None:
    """Ray leaves the folder of every cluster: those go whose driver is gone, a week after the last word in them."""
    for session in folder.glob("session_*_*"):
        with suppress(OSError):
            newest = max(path.lstat().st_mtime for path in (session, *session.rglob("*")))
            driver = Path("/proc") / session.name.rpartition("_")[2]
            if newest < time.time() - 7 * 24 * 3600 and not driver.exists():
                shutil.rmtree(session)


def _own_cluster() -> Any:
    closed = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32), "RAY_AUTH_TOKEN_PATH": None}
    # In spite of its name for clusters of several machines: off, everything listens on 127.0.0.1 alone.
    alone = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    folder = own_folder()
    _remove_old_sessions(folder)
    with _environment({**closed, **alone}):  # Ray's processes inherit it; what else we start need not know it
        import ray

        _take_environment()
        constants = ray._private.ray_constants
        constants.ENABLE_RAY_CLUSTER = False  # what Ray read when it was imported: it listens on the loopback
        try:
            # Without an address Ray would join one that `ray start` began here, or the one in RAY_ADDRESS.
            ray.init(address="local", _temp_dir=str(folder), **_LEAN, **_COMMON)
        except Exception as error:  # a node that is late is a plain Exception
            raise _no_start(ray, error) from None
        finally:
            constants.ENABLE_RAY_CLUSTER = True
    return ray


def _standing_cluster(address: str) -> Any:
    import ray

    _take_environment()
    _check_listens(address)
    try:
        ray.init(address=address, **_COMMON)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _no_cluster(address, " ".join(str(error).split())) from None
    return ray


@contextmanager
def _environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """These environment variables in the block; None: not set."""
    before = {name: os.environ.get(name) for name in changes}

    def put(values: Mapping[str, str | None]) -> None:
        for name in values:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in values.items() if value is not None})

    put(changes)
    try:
        yield
    finally:
        put(before)


def _take_environment() -> None:
    """Ray reads what its environment says of tokens once, and keeps it: a second cluster of this process needs it anew.

    Both are Ray's own, and may be gone in another version: then a process has one kind of cluster only.
    """
    with suppress(ImportError, AttributeError):
        inside = importlib.import_module("ray._raylet")
        inside.Config.initialize("")
        inside.AuthenticationTokenLoader.instance().reset_cache()


def _no_start(ray: Any, error: Exception) -> ClusterError:
    said = " ".join(str(error).split())[:300]
    return ClusterError(
        f"Ray did not start on this machine ({type(error).__name__}: {said}): its logs are in "
        f"{own_logs(ray)}. Is the machine busy, or /dev/shm or /tmp full? Try again, or give a "
        "cluster that runs by --address"
    )


def _check_listens(address: str) -> None:
    """Raise ClusterError when nothing listens at host:port. Ray itself would try for minutes."""
    place = os.environ.get("RAY_ADDRESS", "") if address == "auto" else address
    host, _, port = place.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or "://" in place:
        return  # auto looks for a cluster that runs here; anything else is Ray's to judge
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10.0).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise _no_cluster(address, f"nothing listens at {place}: {error}") from None


def _no_cluster(address: str, reason: str) -> ClusterError:
    if "ersion mismatch" in reason:
        return ClusterError(
            f"--address {address}: {reason[:300]}. Ray and Python must be the same on every node and here: install the "
            "cluster's versions, or start it again with these"
        )
    return ClusterError(
        f"--address {address}: no Ray cluster answers ({reason[:200]}). Start one with `ray start --head`, leave "
        "--address out for a cluster on this machine alone, or, where the cluster asks for a token, set RAY_AUTH_TOKEN "
        "or RAY_AUTH_TOKEN_PATH"
    )


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


def own_cluster_lives(ray: Any) -> bool:
    """Whether the processes that make a cluster of our own still run. Without one of them it never comes back."""
    node = ray._private.worker._global_node
    essential = ("gcs_server", "raylet")
    return all(info.process.poll() is None for kind in essential for info in node.all_processes.get(kind, ()))


def live_nodes(ray: Any) -> dict[str, dict[str, float]]:
    """Id -> resources of every node that the cluster believes to be alive."""
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def fitting(nodes: Iterable[Mapping[str, float]], cpus: float, gpus: float) -> int:
    """How many workers fit on nodes with these resources. None lies on two nodes, nor partly on each of two devices."""
    return sum(min(_times(node.get("CPU", 0.0), cpus), _on_devices(node.get("GPU", 0.0), gpus)) for node in nodes)


def _on_devices(have: float, gpus: float) -> int:
    if gpus <= 0:
        return 10**9
    return int(have) * _times(1.0, gpus) if gpus < 1 else _times(have, gpus)


def _times(have: float, each: float) -> int:
    return int(have / each + 1e-9)


def most_workers(nodes: Iterable[Mapping[str, float]], count: int | str, cpus: float, gpus: float, wanted: int) -> int:
    """How many workers there may be; "auto": as many as the runs can use at once (`wanted`), when they fit.

    Raises ClusterError when not even one fits, or fewer than asked for.
    """
    nodes = list(nodes)
    fit = fitting(nodes, cpus, gpus)
    if fit == 0:
        raise ClusterError(_nothing_fits(nodes, cpus, gpus))
    if count == AUTO:
        return wanted
    if int(count) > fit:
        have_cpus, have_gpus = (sum(node.get(kind, 0.0) for node in nodes) for kind in ("CPU", "GPU"))
        raise ClusterError(
            f"workers.count = {count}: with workers.cpus = {cpus:g} and workers.gpus = {gpus:g} each, {fit} fit into "
            f"the cluster's {have_cpus:g} CPUs and {have_gpus:g} GPUs on {len(nodes)} node(s); lower one of them, or "
            "say auto"
        )
    return int(count)


def _nothing_fits(nodes: list[Mapping[str, float]], cpus: float, gpus: float) -> str:
    most_cpus, most_gpus = (max((node.get(kind, 0.0) for node in nodes), default=0.0) for kind in ("CPU", "GPU"))
    if gpus > most_gpus:
        return (
            f"workers.gpus = {gpus:g}: no node of the cluster has more than {most_gpus:g} GPUs; lower it (0 trains on "
            "CPUs), or give a cluster with GPUs by --address"
        )
    if cpus > most_cpus:
        return f"workers.cpus = {cpus:g}: no node of the cluster has more than {most_cpus:g} CPUs; lower it"
    return f"workers.cpus = {cpus:g} and workers.gpus = {gpus:g}: no node of the cluster has both; lower one of them"
