"""The tracking URI that an experiment uses, and which servers are sent the credentials of the environment.

A configuration never holds a password. MLflow and the drivers of databases read passwords from their own
variables and files. FMNAS_TRACKING_URI may hold the complete URI.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

from fmnas.platform.config.schema import TrackingConfig
from fmnas.platform.config.uri import TrackingError, check_uri, is_server, origin, redact
from fmnas.platform.experiment.run_directory import RunDirectory

URI_VARIABLE = "FMNAS_TRACKING_URI"
"""May hold the URI of the configuration with a user and a password."""
_OF_SERVERS = tuple(
    f"MLFLOW_TRACKING_{name}" for name in ("USERNAME", "PASSWORD", "TOKEN", "AUTH", "AWS_SIGV4", "CLIENT_CERT_PATH")
)
_OF_DATABASES = ("PGPASSWORD", "MYSQL_PWD")
"""Variables that MLflow, or the driver of a database, sends to any server that it connects to."""
_CREDENTIALS_FILE = Path("~/.mlflow/credentials")


def tracking_uri(tracking: TrackingConfig, directory: RunDirectory) -> str:
    """Return the URI of the store, with the password of the environment. Raises TrackingError if it cannot be used."""
    if tracking.uri is None:
        if {"%", "?"} & set(directory.store):
            raise TrackingError(
                f"run directory {directory.root}: MLflow has no store below a path with % or ?; choose a different run "
                "directory, or a store elsewhere by tracking.uri, or tracking.enabled = false"
            )
        return directory.store
    complete = os.environ.get(URI_VARIABLE, "")
    place = origin(complete)
    is_same = place is not None and place == origin(tracking.uri) and _path(complete) == _path(tracking.uri)
    uri = complete if is_same else tracking.uri
    check_uri(uri)
    return uri


def withhold_credentials(uri: str) -> str:
    """Remove credentials from the environment unless it names the server, too; return a line for the user, or nothing.

    uri: named by a run directory, which may come from someone else.
    """
    place = origin(uri)
    if place is None or place in {origin(os.environ.get(name, "")) for name in (URI_VARIABLE, "MLFLOW_TRACKING_URI")}:
        return ""
    names = _OF_SERVERS if is_server(uri) else (*_OF_SERVERS, *_OF_DATABASES)
    withheld = [name for name in names if os.environ.pop(name, "")]
    if _CREDENTIALS_FILE.expanduser().is_file():
        from mlflow.utils import credentials

        credentials._get_credentials_path = lambda: os.devnull  # MLflow has no setting for it
        withheld.append(str(_CREDENTIALS_FILE))
    if not withheld:
        return ""
    return (
        f"{', '.join(withheld)}: not sent to {redact(uri)}, which only the run directory names; to send them, set "
        "MLFLOW_TRACKING_URI to that server"
    )


def _path(uri: str) -> str:
    return urlsplit(uri).path.rstrip("/")
