"""MLflow's UI on a store: a server on the loopback, the links to our pages, and a clean end on Ctrl-C."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from fmnas.platform.config.uri import (
    TrackingError,
    check_uri,
    has_password,
    hide_passwords,
    is_server,
    shown_uri,
    sqlite_path,
)
from fmnas.platform.mlflow.client import NO_TELEMETRY
from fmnas.platform.mlflow.password import withhold_credentials
from fmnas.platform.mlflow.views import experiment_link, links_from_tags

LOOPBACK, PORT = "127.0.0.1", 5000
START_SECONDS = 90.0
"""How long a server may take to answer; a first start on a slow disk takes half a minute."""
_NO_ANSWER = (OSError, ValueError, HTTPException, LookupError, AttributeError, TypeError)
"""What comes of asking something that is no MLflow server: it may answer anything."""


def ui_command(uri: str, port: int = PORT) -> list[str]:
    """The command that serves the store. A URI with a password goes by `ui_environment` instead, away from `ps`."""
    store = [] if has_password(uri) else ["--backend-store-uri", uri]
    return [sys.executable, "-m", "mlflow", "server", *store, "--host", LOOPBACK, "--port", str(port), "--workers", "1"]


def ui_environment(uri: str) -> dict[str, str]:
    """What the command runs with: no telemetry, no job runners (half the start, two processes instead of nine)."""
    return {
        **os.environ,
        **NO_TELEMETRY,
        "MLFLOW_BACKEND_STORE_URI": uri,
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }


def open_ui(uri: str, port: int = PORT, experiment: str = "", say: Callable[[str], None] = print) -> None:
    """Serve the store until Ctrl-C, saying where to look; for a server that runs already, only say so.

    experiment: the name of the only experiment to show; empty for all. A server that the environment does not name is
    sent no credentials but those in the URI.
    """
    check_uri(uri)
    if line := withhold_credentials(uri):
        say(line)
    if is_server(uri):
        _say_pages(uri, experiment, say)
        return
    path = sqlite_path(uri)
    if path is not None and not path.is_file():
        raise TrackingError(f"{path}: there is no MLflow store yet; run an experiment first, or name its run directory")
    _check_port(port)
    url = f"http://{LOOPBACK}:{port}"
    try:
        with _terminable(), _server(uri, port) as (process, log):
            _wait_for_answer(url, process, log)
            _say_pages(url, experiment, say)
            say("Ctrl-C stops it.")
            process.wait()
            raise _ended(process, log)
    except KeyboardInterrupt:
        say("MLflow UI stopped.")
    except TrackingError as error:  # it may repeat what the server said
        raise TrackingError(hide_passwords(str(error), uri)) from None


def pages(base_url: str, experiment: str = "") -> dict[str, str]:
    """Title -> address of our pages on a running server; of the experiments themselves where it has none.

    base_url: with user and password if the server asks for them; no address that is returned has them.
    """
    base_url, login = _without_login(base_url)
    body: dict[str, Any] = {"max_results": 200, "order_by": ["last_update_time DESC"]}
    if experiment:
        quoted = experiment.replace("'", "''")
        body["filter"] = f"name = '{quoted}'"
    search = f"{base_url.rstrip('/')}/api/2.0/mlflow/experiments/search"
    with _open(search, 10, json.dumps(body).encode(), login) as answer:
        experiments = json.load(answer).get("experiments", [])
    found: dict[str, str] = {}
    for entry in experiments:
        name, number = entry["name"], entry["experiment_id"]
        links = links_from_tags(base_url, number, [tag["key"] for tag in entry.get("tags", [])])
        found |= {f"{name}: {key}": link for key, link in links.items()}
        if not links and name != "Default":
            found[name] = experiment_link(base_url, number)
    return found


def _say_pages(base_url: str, experiment: str, say: Callable[[str], None]) -> None:
    shown = shown_uri(base_url)
    try:
        links = pages(base_url, experiment)
    except _NO_ANSWER as error:
        reason = hide_passwords(str(error), base_url)
        raise TrackingError(f"tracking.uri = {shown!r}: no MLflow server answers ({reason}); {_next(error)}") from None
    say(f"MLflow UI on {shown}")
    width = max(map(len, links), default=0)
    for title, link in links.items():
        say(f"  {title:{width}}  {link}")


def _next(error: Exception) -> str:
    if isinstance(error, HTTPError):
        error.close()  # it is an answer, with a connection of its own
        if error.code in (401, 403):
            return "give a user and a password that it knows: http://USER:PASSWORD@HOST"
    return "start it"


def _without_login(url: str) -> tuple[str, str]:
    """The address as urllib takes it, which looks for a host named USER:PASSWORD@HOST, and the Authorization header."""
    parts = urlsplit(url)
    login, _, host = parts.netloc.rpartition("@")
    user, _, password = map(unquote, login.partition(":"))
    if not login:  # MLflow's own client heeds these, too
        user, password = (os.environ.get(f"MLFLOW_TRACKING_{name}", "") for name in ("USERNAME", "PASSWORD"))
    if not user and not password:
        return url, ""
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode()
    return parts._replace(netloc=host).geturl(), f"Basic {encoded}"


def _open(url: str, timeout: float, body: bytes | None = None, login: str = "") -> Any:
    request = Request(url, body, {"Content-Type": "application/json"})
    if login:
        request.add_unredirected_header("Authorization", login)  # for this host and no other
    local = urlsplit(url).hostname in (LOOPBACK, "localhost", "::1")
    # A proxy set for the outside world does not know our loopback.
    return build_opener(*([ProxyHandler({})] if local else [])).open(request, timeout=timeout)


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        # As the server does: a port that merely has not cooled down is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError) as error:
            raise TrackingError(
                f"--port {port}: cannot listen on {LOOPBACK} ({error}); stop what uses it, or choose another port, "
                f"e.g. --port {port + 1 if 0 < port < 65000 else PORT}"
            ) from None


@contextmanager
def _server(uri: str, port: int) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    with tempfile.TemporaryFile() as log:
        # In our process group: Ctrl-C and a closed terminal reach the server without us.
        process = subprocess.Popen(
            ui_command(uri, port), env=ui_environment(uri), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            yield process, log
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def _terminable() -> Iterator[None]:
    """Take SIGTERM for Ctrl-C, so that the server never outlives us."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may take signals
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _wait_for_answer(url: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise _ended(process, log)
        try:
            with _open(f"{url}/health", timeout=2):
                return
        except (OSError, HTTPException):
            time.sleep(0.2)
    raise TrackingError(f"{url}: MLflow's server did not answer within {START_SECONDS:g} s; {_tail(log)}")


def _ended(process: subprocess.Popen[bytes], log: IO[bytes]) -> TrackingError:
    return TrackingError(f"MLflow's server ended by itself with code {process.returncode}; {_tail(log)}")


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()[-8:]
    return "\n".join(["its last words:", *lines]) if lines else "it said nothing"
