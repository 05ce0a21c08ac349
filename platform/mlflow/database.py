"""The SQLite file of an MLflow store: it appears whole, is known when it is not, and goes where its run directory goes.

MLflow makes its tables in dozens of steps that take seconds and are no transaction: a file that a kill left half made
opens never again. So the tables are made in a file aside, which is then renamed. A broken file of the run directory's
own is put aside and made anew, since the journal has all that was in it; one that the user named is never touched.
"""

import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from fmnas.platform.config.uri import TrackingError, sqlite_path
from fmnas.platform.mlflow.client import TrackingSettings, load_mlflow

_LOCK_SECONDS = 20.0  # how long to wait for a file that another process has locked
_TABLES_QUERY = "select name from sqlite_master where type = 'table'"
_REVISIONS_QUERY = "select version_num from alembic_version"  # which versions of MLflow's tables it says it has
_FIRST_TABLES = {"experiments", "runs", "metrics", "params", "tags"}
_MOVES = (
    "update experiments set artifact_location = :new || substr(artifact_location, :rest) "
    "where experiment_id = :experiment",
    "update runs set artifact_uri = :new || substr(artifact_uri, :rest) "
    "where experiment_id = :experiment and substr(artifact_uri, 1, :rest) = :below",
)
_DAMAGED = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def prepare_file(settings: TrackingSettings) -> str:
    """Have a whole file, if the store is one; what a person should be told of it, or nothing.

    Takes seconds for a new one. Raises TrackingError for a file that the user named and that cannot be used.
    """
    path = sqlite_path(settings.uri)
    if path is None:
        return ""
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if settings.own:
        for part in path.parent.glob(f".{path.name}.*.part*"):  # of a driver that was killed: we hold its lock
            part.unlink(missing_ok=True)
    fault = fault_of(path) if path.is_file() else ""
    if fault and not settings.own:
        raise TrackingError(
            f"{path}: {fault}; it is yours, so it stays as it is: move it away, or give another store by tracking.uri"
        )
    told = ""
    if fault or not path.is_file() or (settings.own and not _column(path, _TABLES_QUERY)):
        with _made(path, settings) as whole:
            if fault:
                told = f"MLflow's store {path} could not be used ({fault}): it is now {_put_aside(path).name}, and a "
                told += "new one has every trial that the journal has"
            _place(whole, path, settings.own)
    if settings.own and settings.artifacts is not None:
        follow(path, settings.artifacts)
    return told


def fault_of(path: Path) -> str:
    """Why MLflow will never open this file, if it can be known; else nothing. One without tables is none."""
    try:
        tables = _column(path, _TABLES_QUERY)
        revisions = _column(path, _REVISIONS_QUERY) if "alembic_version" in tables else set()
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode in _DAMAGED:
            return f"it is damaged, or no SQLite file: {error}"
        raise
    if left := sorted(name for name in tables if name.startswith("_alembic_tmp_")):
        return f"it is half made: its table {left[0]} was being changed when its maker was stopped"
    if tables & _FIRST_TABLES and not revisions:
        return "it is half made: it has tables, and no version of them"
    if revisions and _is_behind(revisions):
        return f"its tables are of version {', '.join(sorted(revisions))}: half made, or of an older MLflow"
    return ""


def follow(path: Path, artifacts: Path) -> None:
    """Where the run directory was moved or copied, point the store's files to the folder that has come along.

    path: a file of the run directory's own. artifacts: the folder of its files; its name tells where the old root ends.
    Nothing is written where all is right. Raises sqlite3.Error.
    """
    new = artifacts.resolve().as_uri()
    with _opened(path) as database:
        if not {"experiments", "runs"} <= _column(path, _TABLES_QUERY):
            return
        rows = database.execute("select experiment_id, artifact_location from experiments").fetchall()
        for experiment, location in rows:
            head, mark, _ = f"{location or ''}/".rpartition(f"/{artifacts.name}/")
            old = f"{head}{mark}".rstrip("/")
            if mark and old.startswith("file:") and old != new:
                moved = {"new": new, "rest": len(old) + 1, "below": f"{old}/", "experiment": experiment}
                for statement in _MOVES:
                    database.execute(statement, moved)


def find_files_again(uri: str, artifacts: Path) -> None:
    """`follow` for someone who only looks: a file that cannot be written, or is no store, stays as it is."""
    path = sqlite_path(uri)
    if path is not None and path.is_file():
        with suppress(sqlite3.Error):
            follow(path, artifacts)


def file_identity(uri: str) -> tuple[int, int] | None:
    """What tells a store's file from another that has taken its place; None if there is none."""
    path = sqlite_path(uri)
    if path is not None:
        with suppress(OSError):
            found = path.stat()
            return found.st_dev, found.st_ino
    return None


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction; what a killed writer left in the middle is taken back first, as SQLite does."""
    with closing(sqlite3.connect(path, timeout=_LOCK_SECONDS)) as database, database:
        yield database


def _column(path: Path, query: str) -> set[str]:
    with _opened(path) as database:
        return {str(value) for (value,) in database.execute(query)}


def _is_behind(revisions: set[str]) -> bool:
    """Whether this MLflow knows the versions as earlier ones; one of a later MLflow it does not know at all."""
    from alembic.script import ScriptDirectory

    folder = Path(load_mlflow().__path__[0]) / "store" / "db_migrations"
    script = ScriptDirectory(str(folder))
    known = {each.revision for each in script.walk_revisions()}
    return revisions <= known and revisions != set(script.get_heads())


def _put_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.broken-{number}")).exists():
        number += 1
    for ending in ("-journal", "-wal", "-shm", ""):  # the file itself last: until then it is tried again
        part = path.with_name(path.name + ending)
        if part.is_file():
            part.rename(aside.with_name(aside.name + ending))
    return aside


@contextmanager
def _made(path: Path, settings: TrackingSettings) -> Iterator[Path]:
    """A whole file beside the path, to be taken from there."""
    load_mlflow()
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        root = settings.artifacts.resolve().as_uri() if settings.artifacts else "./mlruns"  # MLflow's own default
        SqlAlchemyStore(f"sqlite:///{part}", root).engine.dispose()
        yield part
    finally:
        for left in path.parent.glob(f"{part.name}*"):
            left.unlink(missing_ok=True)


def _place(part: Path, path: Path, own: bool) -> None:
    """Rename it; of a file that drivers may share, the first to be there stays."""
    if own:
        os.replace(part, path)
        return
    try:
        os.link(part, path)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            os.replace(part, path)
