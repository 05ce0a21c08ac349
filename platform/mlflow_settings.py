"""Which MLflow store an experiment goes to, and under which labels; and the one place that imports mlflow."""

import importlib.util
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from urllib.parse import SplitResult, urlsplit

from fmnas.search_spaces import FmnasError, Space

_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
_DRIVERS = {
    "psycopg2": ("psycopg2", "psycopg2-binary"),
    "psycopg": ("psycopg", "psycopg"),
    "pymysql": ("pymysql", "pymysql"),
    "mysqldb": ("MySQLdb", "mysqlclient"),
    "pymssql": ("pymssql", "pymssql"),
    "pyodbc": ("pyodbc", "pyodbc"),
}
"""SQLAlchemy's name of a driver -> (module, package to install)."""

_DEFAULT_DRIVER = {"mysql": "mysqldb", "mssql": "pymssql"}

_ALLOWED = (
    "sqlite:///PATH.db, http://HOST:PORT or https://HOST of an MLflow server, "
    "postgresql+psycopg2://..., mysql+pymysql://... or mssql+pyodbc://..."
)


class TrackingError(FmnasError, ValueError):
    """A tracking setting that cannot work."""


@dataclass(frozen=True)
class TrackingSettings:
    """Where the trials go and what every run carries.

    uri: MLflow's tracking URI.
    experiment: the MLflow experiment's name; it is created if absent.
    experiment_id: unique id of the run directory, so that two directories of the same name never mix in one store.
    tags: put on every run, e.g. problem, dataset, commit.
    space: tells which parameters are on a log scale; None if nothing is.
    artifacts: folder for the files of a store that MLflow reaches without a server; a server has its own.
    """

    uri: str
    experiment: str
    experiment_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    space: Space | None = None
    artifacts: Path | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)
        if not re.fullmatch(r"[\w.-]{1,64}", self.experiment_id, re.ASCII):
            raise TrackingError(
                f"experiment id {self.experiment_id!r}: it must be 1 to 64 letters, digits, '_', '-' or '.'"
            )


def check_uri(uri: str) -> None:
    """Raise TrackingError unless MLflow can use the URI. Touches neither network nor disk."""
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise _uri_error(uri, f"{error}; correct it") from None
    if parts.scheme in ("http", "https"):
        if not parts.hostname:
            raise _uri_error(uri, "give the server's host, e.g. http://127.0.0.1:5000")
        return
    database, _, driver = parts.scheme.partition("+")
    if database not in _DATABASES:
        raise _uri_error(uri, _hint(uri, parts))
    if database == "sqlite":
        _check_sqlite(uri)
    else:
        _check_driver(uri, database, driver)


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite URI; None for any other store."""
    return Path(uri.partition(":///")[2].partition("?")[0]) if uri.startswith("sqlite:///") else None


def load_mlflow() -> ModuleType:
    """mlflow, imported on first use (it takes seconds) with telemetry off, quiet, and with short waits.

    Retries are ours (fmnas.platform.tracking), with growing pauses: MLflow's own would hold the thread for minutes, and
    would create a run twice whose first creation was not answered.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["DO_NOT_TRACK"] = "true"  # MLflow takes the word true and not 1
    for name, value in {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }.items():
        os.environ.setdefault(name, value)
    # A server that is down is no news to a person at every attempt; what was missed is said at the end.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    import mlflow

    return mlflow


def without_password(uri: str) -> str:
    """The URI, or a text with URIs, as it may be shown."""
    return re.sub(r"(://[^/@:\s]*):[^/@\s]*@", r"\1:***@", uri)


def _check_sqlite(uri: str) -> None:
    path = sqlite_path(uri)
    if path is None or path == Path() or ":memory:" in uri:
        raise _uri_error(uri, "name a file, e.g. sqlite:///mlflow.db (relative) or sqlite:////data/mlflow.db")


def _check_driver(uri: str, database: str, driver: str) -> None:
    if database == "postgresql" and not driver:
        # SQLAlchemy 2.1 takes the bare scheme for psycopg 3, older ones for psycopg2.
        raise _uri_error(
            uri, "name the driver: " + without_password(uri.replace("postgresql", "postgresql+psycopg2", 1))
        )
    driver = driver or _DEFAULT_DRIVER[database]
    module, package = _DRIVERS.get(driver, (driver, driver))
    if importlib.util.find_spec(module) is None:
        raise _uri_error(uri, f"its driver is not installed: pip install {package}")


def _hint(uri: str, parts: SplitResult) -> str:
    if parts.scheme in ("", "file"):
        path = parts.path.rstrip("/") or "/data/mlruns"
        return f"MLflow no longer writes to folders; use a SQLite file: sqlite:///{path}/mlflow.db"
    if parts.scheme == "postgres":
        return "write " + without_password(uri.replace("postgres", "postgresql+psycopg2", 1))
    return "leave tracking.uri empty for a SQLite file in the run directory"


def _uri_error(uri: str, next_step: str) -> TrackingError:
    return TrackingError(f"tracking.uri = {without_password(uri)!r}: it must be {_ALLOWED}; {next_step}")
