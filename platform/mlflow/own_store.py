"""The SQLite store in a run directory: made by MLflow, and made again where it is unreadable or of another place."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from fmnas.platform.config.uri import sqlite_path
from fmnas.platform.mlflow.client import TrackingSettings, load_mlflow

_LOCK_SECONDS = 20.0
"""How long to wait for a file that another process has locked."""


def prepare_own_store(settings: TrackingSettings) -> str:
    """Make the file if it does not exist; return a line for the user if one that could not be used was replaced.

    MLflow makes its tables in many steps: in a temporary file, so that a kill leaves none half made. MLflow stores
    absolute paths of artifacts, so the store of a directory that was moved or copied is replaced, too.
    """
    path, artifacts = sqlite_path(settings.uri), settings.artifacts
    assert path is not None
    assert artifacts is not None
    fault = _fault(path, settings.experiment, artifacts.resolve().as_uri()) if path.exists() else ""
    if path.exists() and not fault:
        return ""
    number, broken = 1, path.with_name(f"{path.name}.broken")
    while broken.exists():
        number, broken = number + 1, path.with_name(f"{path.name}.broken-{number}")
    for suffix in ("-journal", "-wal", "-shm", ""):
        if (part := path.with_name(path.name + suffix)).exists():
            part.rename(broken.with_name(broken.name + suffix))
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)  # of a driver that was killed: we hold its lock
    _create(new, artifacts.resolve().as_uri())
    os.replace(new, path)
    return f"{path}: {fault}; it is now {broken.name}, and all trials are logged to a new one" if fault else ""


def _create(path: Path, artifacts: str) -> None:
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"sqlite:///{path}", artifacts).engine.dispose()


def _fault(path: Path, experiment: str, artifacts: str) -> str:
    """Why the file cannot be used any more; empty if it can."""
    query = "select artifact_location from experiments where name = ?"
    try:
        with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as database:
            locations = [location for (location,) in database.execute(query, [experiment])]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY):
            raise
        return f"it cannot be read as an MLflow store ({error})"
    if any(not location.startswith(artifacts) for location in locations):
        return "the run directory was moved or copied since"
    return ""
