"""Tracking URIs: which ones MLflow can use, and how text that may hold a password is shown."""

import re
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from fmnas.search_spaces import FmnasError

_LOGIN = re.compile(r"(://[^\s/@:'\"]*):(?:(?!://)[^'\"])*@|([^\s/@:'\"]*):(?!//)\S*@")
"""A user and a password, up to the last @: a password that is not percent-encoded may hold any character."""

_SECRET_PARAMETER = re.compile(
    r"([?&;][^=&;\s]*(?:pass(?!file)|pwd|token|secret|credential|api_?key|odbc_connect)[^=&;\s]*=)[^&;\s'\"]+",
    re.IGNORECASE,
)
_ALLOWED = (
    "use sqlite:///PATH.db, http://HOST:PORT or https://HOST of an MLflow server, postgresql+psycopg2://..., "
    "mysql+pymysql://... or mssql+pyodbc://..., or leave it empty for a SQLite file in the run directory"
)


class TrackingError(FmnasError, ValueError):
    """A tracking setting that cannot work."""


def redact(text: str) -> str:
    """Replace every password in a URI or in a text by ***."""
    return _SECRET_PARAMETER.sub(r"\1***", _LOGIN.sub(r"\1\2:***@", text))


def check_no_password(uri: str) -> str:
    """Return the URI of a configuration unchanged. Raise ValueError if it holds a password: it would be written down.

    The error does not repeat the URI.
    """
    if not uri.startswith("sqlite:") and (_LOGIN.search(uri) or _SECRET_PARAMETER.search(uri)):
        raise ValueError(
            "it must not hold a password; set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD for a server, "
            "PGPASSFILE for PostgreSQL, or the URI with its password as FMNAS_TRACKING_URI in the environment"
        )
    return uri


def check_uri(uri: str) -> None:
    """Raise TrackingError unless MLflow can use the URI. Reads neither network nor disk.

    The error does not repeat a URI that cannot be parsed: any part of it may be a password.
    """
    try:
        parts = urlsplit(uri)
        parts.port  # noqa: B018  # it raises ValueError for a port that is not a number
    except ValueError:
        scheme = uri.partition("://")[0]
        raise TrackingError(f"tracking.uri = '{scheme}://...': it cannot be parsed; {_ALLOWED}") from None
    if problem := _problem(uri, parts):
        raise TrackingError(f"tracking.uri = {redact(uri)!r}: {problem}; {_ALLOWED}")


def is_server(uri: str) -> bool:
    """Return whether the URI is of an MLflow server; else it is of a database."""
    return uri.lower().startswith(("http://", "https://"))


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI; None for any other store."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0]) if uri.startswith("sqlite:///") else None


def make_absolute(uri: str) -> str:
    """Return the URI with the absolute path of a SQLite file, so that it is the same for a resume."""
    path = sqlite_path(uri)
    if path is None or path.is_absolute() or path == Path():
        return uri
    return uri.replace(":///", f":///{Path.cwd()}/", 1)


def origin(uri: str) -> tuple[str, str, int | None] | None:
    """Return scheme, host and port, where credentials are sent to; None for a file or a URI that cannot be parsed."""
    try:
        parts = urlsplit(uri)
        return (parts.scheme, parts.hostname or "", parts.port) if parts.scheme not in ("", "sqlite", "file") else None
    except ValueError:
        return None


def _problem(uri: str, parts: SplitResult) -> str:
    """Why MLflow cannot use the URI; empty if it can."""
    if is_server(uri):
        return "" if parts.hostname else "the host is missing"
    if parts.scheme == "sqlite":
        path = sqlite_path(uri)
        if path is None or path == Path() or ":memory:" in uri:
            return "it does not name a file"
        return "MLflow and SQLAlchemy read a % in a path differently" if "%" in str(path) else ""
    if parts.scheme.partition("+")[0] not in ("postgresql", "mysql", "mssql"):
        return f"MLflow has no store for the scheme {parts.scheme!r}"
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        make_url(uri).get_dialect().import_dbapi()
    except (ImportError, ArgumentError) as error:
        return f"its database driver cannot be loaded ({redact(str(error))})"
    return ""
