"""MLflow's UI on a store, with the address of the comparison of an experiment."""

import os
import re
import socket
import sys
from collections.abc import Callable

from fmnas.platform.config.uri import TrackingError, is_server, redact, sqlite_path
from fmnas.platform.mlflow.client import NO_TELEMETRY, load_mlflow
from fmnas.platform.mlflow.credentials import withhold_credentials
from fmnas.platform.mlflow.view import view_link

LOOPBACK, PORT = "127.0.0.1", 5000


def ui_command(port: int = PORT) -> list[str]:
    """Return the command that serves the store of `ui_environment`."""
    return [sys.executable, "-m", "mlflow", "ui", "--host", LOOPBACK, "--port", str(port), "--workers", "1"]


def ui_environment(uri: str) -> dict[str, str]:
    """Return the environment of that command: without telemetry and job runners. A URI in it is not shown by `ps`."""
    quick = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    return {**os.environ, **NO_TELEMETRY, **quick, "MLFLOW_BACKEND_STORE_URI": uri}


def open_ui(uri: str, port: int, experiment: str, identity: str, say: Callable[[str], None]) -> None:
    """Say where the comparison of an experiment is, and become MLflow's UI, unless the store is a running server.

    Raises TrackingError if there is no store, no server answers, or the port is in use.
    """
    if line := withhold_credentials(uri):
        say(line)
    path = sqlite_path(uri)
    if path is not None and not path.is_file():
        raise TrackingError(f"{path}: there is no MLflow store yet; run an experiment first")
    try:
        existing = load_mlflow().MlflowClient(tracking_uri=uri).get_experiment_by_name(experiment)
    except Exception as error:
        reason = redact(f"{type(error).__name__}: {error}")
        raise TrackingError(f"tracking.uri = {redact(uri)!r}: MLflow's store does not answer: {reason}") from None
    url = re.sub("//[^/]*@", "//", uri) if is_server(uri) else f"http://{LOOPBACK}:{port}"
    say(f"MLflow UI: {view_link(url, existing.experiment_id, identity) if existing else url}")
    if is_server(uri):
        return
    with socket.socket() as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            raise TrackingError(f"--port {port}: it is in use; choose a different one, e.g. --port {port + 1}")
    say("Ctrl-C stops it.")
    sys.stdout.flush()
    os.execve(sys.executable, ui_command(port), ui_environment(uri))
