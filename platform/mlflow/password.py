"""The tracking URI that an experiment really uses: its configuration and journal hold none of the passwords in it.

A configuration that is given a password keeps it in the run directory's mlflow.secret, which only its owner may read,
and has *** in its place from then on. Whoever would not have it there writes *** from the beginning, and gives the
whole URI by the environment; that also replaces a password that has changed.

Credentials of the environment are for the servers that the user names. A run directory may come from someone else, so
the server that it names is sent them only where the environment names that server, too.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import yaml

from fmnas.platform.config.schema import Config, TrackingConfig
from fmnas.platform.config.uri import (
    HIDDEN,
    TrackingError,
    check_uri,
    has_password,
    is_plain_path,
    lacks_password,
    login_place,
    masked_uri,
    shown_uri,
    sqlite_path,
)
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.run_directory import RunDirectory, write_text

URI_VARIABLE = "FMNAS_TRACKING_URI"
"""The environment's variable that may hold the whole URI, password and all."""

_NAMING = (URI_VARIABLE, "MLFLOW_TRACKING_URI")
"""Variables by which a user names a server."""

_CREDENTIALS = (
    *(f"MLFLOW_TRACKING_{what}" for what in ("USERNAME", "PASSWORD", "TOKEN", "AUTH", "AWS_SIGV4", "CLIENT_CERT_PATH")),
    *("PGPASSWORD", "MYSQL_PWD"),
)
"""Variables whose credentials MLflow, or the driver of a database, sends to whatever server it talks to."""

_CREDENTIALS_FILE = Path("~/.mlflow/credentials")
"""Where MLflow looks for a user and a password that the environment does not have."""


def settled(config: Config, here: Path) -> Config:
    """The configuration of a new run: a SQLite file relative to the folder `here` is that file wherever one resumes."""
    uri = config.tracking.uri
    path = sqlite_path(uri) if uri is not None else None
    if uri is None or path is None or path.is_absolute() or path == Path():
        return config
    absolute = uri.replace(":///", f":///{here}/", 1)
    check_uri(absolute)
    return config.model_copy(update={"tracking": config.tracking.model_copy(update={"uri": absolute})})


def tracking_uri(tracking: TrackingConfig, directory: RunDirectory) -> str:
    """The URI of the experiment's store, with its password. Touches no network, and of the disk one file.

    Raises TrackingError for one that cannot be used, or whose password is nowhere to be found.
    """
    uri = tracking.uri
    if uri is None:
        if not is_plain_path(directory.store):
            raise TrackingError(
                f"run directory {directory.root}: MLflow keeps no store below a path with % or ?; give another run "
                "directory, or a store elsewhere with tracking.uri, or tracking.enabled = false"
            )
        return directory.store
    check_uri(uri)
    if lacks_password(uri):
        return _with_password(uri, directory.secret)
    path = sqlite_path(uri)
    if path is not None and not path.is_absolute() and directory.journal.is_file() and not path.is_file():
        raise TrackingError(
            f"tracking.uri = {uri!r}: there is no such file below {Path.cwd()}; write its whole path in "
            f"{directory.config}"
        )
    return uri


def keep_password(config: Config, directory: RunDirectory) -> None:
    """Move a password from the configuration to a file of its own, before anything else is written."""
    uri = config.tracking.uri
    if uri is None or not has_password(uri) or lacks_password(uri):
        return
    _write_secret(directory.secret, uri)
    if _written_uri(directory.config) == uri:  # by hand, or before passwords had a file
        write_text(directory.config, config.to_yaml())


def withhold_credentials(uri: str) -> str:
    """Keep credentials from a server that a run directory names, and the environment does not; a line that says so.

    They are removed from this process's environment, for good: MLflow reads them with each request. Empty where there
    are none, or where they may be sent.
    """
    place = login_place(uri)
    if not place or place in {login_place(os.environ.get(name, "")) for name in _NAMING}:
        return ""
    withheld = [name for name in _CREDENTIALS if os.environ.pop(name, "")]
    if _CREDENTIALS_FILE.expanduser().is_file():
        from mlflow.utils import credentials

        credentials._get_credentials_path = lambda: os.devnull  # MLflow has no setting for it
        withheld.append(str(_CREDENTIALS_FILE))
    if not withheld:
        return ""
    return (
        f"{', '.join(withheld)}: not sent to {place}, which the run directory names; set MLFLOW_TRACKING_URI to that "
        "server to send them"
    )


def _with_password(uri: str, secret: Path) -> str:
    others = []
    for place, whole in _given(secret):
        if shown_uri(whole) == masked_uri(uri) and not lacks_password(whole):
            check_uri(whole)
            return whole
        others.append(f"{place} has {shown_uri(whole)!r}")
    found = f" ({'; '.join(others)})" if others else ""
    raise TrackingError(
        f"tracking.uri = {masked_uri(uri)!r}: {HIDDEN} stands for a password that is not known here{found}; "
        f"give the whole URI by the environment's {URI_VARIABLE}, or write it into {secret} with mode 600"
    )


def _given(secret: Path) -> Iterator[tuple[str, str]]:
    """Where a whole URI is given, and the URI; what is said last, by the environment, comes first."""
    if whole := os.environ.get(URI_VARIABLE, ""):
        yield f"the environment's {URI_VARIABLE}", whole
    if whole := _read_secret(secret):
        yield str(secret), whole


def _read_secret(path: Path) -> str:
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise TrackingError(
            f"{path} cannot be read, and it holds the password of tracking.uri: mend that, or give the whole URI by "
            f"the environment's {URI_VARIABLE}"
        ) from None


def _write_secret(path: Path, uri: str) -> None:
    """Whole or not at all, and at no time readable by others."""
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.unlink(missing_ok=True)
        with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{uri}\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and resume") from error


def _written_uri(config: Path) -> str | None:
    """What a configuration file says, if it can be read."""
    try:
        data = yaml.safe_load(config.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    tracking = data.get("tracking") if isinstance(data, dict) else None
    return tracking.get("uri") if isinstance(tracking, dict) else None
