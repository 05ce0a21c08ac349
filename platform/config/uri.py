"""Tracking URIs: which can be used, and how one is shown: a password in it never is.

Where a password stands is told by those who use the URI: SQLAlchemy's parser for a database, the standard library's for
a server. What they could read in two ways is refused, and the refusal repeats nothing of it.
"""

import importlib.util
import re
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from fmnas.search_spaces import FmnasError

HIDDEN = "***"
"""What stands in a URI for a password that is elsewhere."""

_DATABASES = ("postgresql", "mysql", "mssql")
_DRIVERS = {"psycopg2": ("psycopg2", "psycopg2-binary"), "mysqldb": ("MySQLdb", "mysqlclient")}
"""SQLAlchemy's name of a driver -> (module, package to install), where these are not called as it is."""

_DEFAULT_DRIVER = {"mysql": "mysqldb", "mssql": "pymssql"}

_SECRET_WORDS = r"pass(?!file)|pwd|token|secret|credential|api_?key|odbc_connect"
_SECRET_KEY = re.compile(_SECRET_WORDS, re.IGNORECASE)
"""Keys of a query whose value is a password; an ODBC connection string is a value that holds one."""

_FILE_SCHEMES = ("sqlite:", "file:")
"""Beginnings of URIs that name a file: nobody logs in to one."""

_PAIR = re.compile(r"(?P<key>[^=&;]*)=(?P<value>[^&;]*)")


class TrackingError(FmnasError, ValueError):
    """A tracking setting that cannot work."""


def check_uri(uri: str) -> None:
    """Raise TrackingError unless MLflow can use the URI. Touches neither network nor disk."""
    masked_uri(uri)
    advice = _advice(uri)
    if advice:
        raise _uri_error(uri, advice)


def is_plain_path(uri: str) -> bool:
    """Whether SQLAlchemy and MLflow take the same path from a SQLite URI: the one decodes %, the other does not."""
    return not set("%?") & set(uri)


def sqlite_path(uri: str) -> Path | None:
    """The file of a SQLite URI, as SQLAlchemy reads it; None for any other store."""
    if not uri.startswith("sqlite:///"):
        return None
    from sqlalchemy.engine import make_url

    return Path(make_url(uri).database or "")


def masked_uri(uri: str) -> str:
    """The URI with *** for every password in it; itself where it has none.

    Raises TrackingError where it could be read in two ways.
    """
    masked = _masked(uri)
    if masked is None:
        raise _uri_error(
            uri,
            "this one cannot be read; correct it: in a password write what is no letter or digit as its code: / as "
            "%2F, @ as %40, : as %3A, a blank as %20",
        )
    return masked


def shown_uri(uri: str) -> str:
    """The same for a message, whatever the URI is: of one that cannot be read, little is left."""
    masked = _masked(uri)
    if masked is not None:
        return masked
    scheme, mark, _ = uri.partition("://")
    return f"{scheme}://{HIDDEN}" if mark and re.fullmatch(r"[\w+.-]+", scheme) else HIDDEN


def has_password(uri: str) -> bool:
    """Whether there is a password in it that would be hidden. Raises TrackingError as `masked_uri`."""
    return masked_uri(uri) != uri


def lacks_password(uri: str) -> bool:
    """Whether *** stands where a password was. Raises TrackingError as `masked_uri`."""
    return HIDDEN in _secrets(uri)


def hide_passwords(text: str, uri: str = "") -> str:
    """A text, such as an error of someone else's, as it may be shown.

    uri: one whose password must not appear in it, however it is written.
    """
    for secret in sorted({form for each in _secrets(uri) for form in (each, unquote(each))}, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    text = re.sub(r"://([^\s/@:]*):\S*@", rf"://\1:{HIDDEN}@", text)
    return re.sub(rf"(?i)([?&;][^=&;\s]*(?:{_SECRET_WORDS})[^=&;\s]*=)[^&;\s'\"]*", rf"\1{HIDDEN}", text)


def _secrets(uri: str) -> list[str]:
    """The passwords in a URI that can be read, as they are written there."""
    if "://" not in uri or uri.startswith(_FILE_SCHEMES) or _masked(uri) is None:
        return []
    rest, _, query = uri.partition("://")[2].partition("?")
    login, at, _ = rest.rpartition("@")
    if not at and "@" in query:  # a question mark in a database's password
        login, query = uri.partition("://")[2].rpartition("@")[0], ""
    found = [login.partition(":")[2], *(m["value"] for m in _PAIR.finditer(query) if _is_secret(m["key"]))]
    return [secret for secret in found if secret]


def is_server(uri: str) -> bool:
    """Whether it is of an MLflow server; else it is a database."""
    return uri.lower().startswith(("http://", "https://"))


def login_place(uri: str) -> str:
    """Where a login for this URI is sent: scheme, host and port of a server; of a database, the URI without password.

    Empty for a file, and for a URI that cannot be read.
    """
    if uri.startswith(_FILE_SCHEMES) or _masked(uri) is None:
        return ""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}" if is_server(uri) else shown_uri(uri)


def _is_secret(key: str) -> bool:
    return _SECRET_KEY.search(unquote(key)) is not None


def _masked(uri: str) -> str | None:
    """None where it could not be read, or in two ways."""
    try:
        parts = urlsplit(uri)
        if is_server(uri):
            return _masked_server(uri, parts)
        if "://" in uri and not uri.startswith(_FILE_SCHEMES):
            return _masked_database(uri)
    except ValueError:
        return None
    return uri if uri.startswith(_FILE_SCHEMES) or "@" not in uri else None


def _masked_server(uri: str, parts: SplitResult) -> str | None:
    parts.port  # noqa: B018  # it raises ValueError where there is none but something that stands in its place
    login, at, host = parts.netloc.rpartition("@")
    if "@" in f"{login}{parts.path}{parts.query}{parts.fragment}" or re.search(r"[\s\\\x00-\x1f]", uri):
        return None
    user, _, password = login.partition(":")
    shown = parts._replace(
        netloc=f"{user}:{HIDDEN}{at}{host}" if password else parts.netloc,
        query=_PAIR.sub(lambda m: f"{m['key']}={HIDDEN}" if _is_secret(m["key"]) else m[0], parts.query),
    )
    return uri if shown == parts else shown.geturl()


def _masked_database(uri: str) -> str | None:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    if uri.count("@") > 1 or re.search(r"[\s\x00-\x1f]", uri):
        return None
    try:
        url = make_url(uri)
    except ArgumentError:
        return None
    secret = [key for key in url.query if _is_secret(key)]
    if not url.password and not any(url.query[key] for key in secret):
        return uri
    shown = url.update_query_dict(dict.fromkeys(secret, HIDDEN)).render_as_string(hide_password=True)
    return shown.replace("=%2A%2A%2A", f"={HIDDEN}")


def _advice(uri: str) -> str:
    """What to do about a URI that MLflow cannot use; empty where it can."""
    parts = urlsplit(uri)
    database, _, driver = parts.scheme.partition("+")
    if is_server(uri):
        return "" if parts.hostname else "give the server's host, e.g. http://127.0.0.1:5000"
    if database == "sqlite":
        return _sqlite_advice(uri)
    if database in _DATABASES:
        return _driver_advice(uri, database, driver)
    if parts.scheme in ("", "file"):
        path = parts.path.rstrip("/") or "/data/mlruns"
        return f"MLflow no longer writes to folders; use a SQLite file: sqlite:///{path}/mlflow.db"
    if parts.scheme == "postgres":
        return "write " + shown_uri(uri).replace("postgres", "postgresql+psycopg2", 1)
    return "leave tracking.uri empty for a SQLite file in the run directory"


def _sqlite_advice(uri: str) -> str:
    path = sqlite_path(uri)
    if path is None or path == Path() or ":memory:" in uri:
        return "name a file, e.g. sqlite:///mlflow.db (relative) or sqlite:////data/mlflow.db"
    if not is_plain_path(uri.partition("?")[0]):
        return "MLflow and SQLAlchemy read a % in a path differently; name a path without one"
    return ""


def _driver_advice(uri: str, database: str, driver: str) -> str:
    if database == "postgresql" and not driver:
        # SQLAlchemy 2.1 takes the bare scheme for psycopg 3, older ones for psycopg2.
        return "name the driver: " + shown_uri(uri).replace("postgresql", "postgresql+psycopg2", 1)
    driver = driver or _DEFAULT_DRIVER[database]
    module, package = _DRIVERS.get(driver, (driver, driver))
    if not module.isidentifier() or importlib.util.find_spec(module) is None:
        return f"its driver is not installed: pip install {package}"
    return ""


def _uri_error(uri: str, next_step: str) -> TrackingError:
    return TrackingError(
        f"tracking.uri = {shown_uri(uri)!r}: it must be sqlite:///PATH.db, http://HOST:PORT or https://HOST of an "
        "MLflow server, postgresql+psycopg2://..., mysql+pymysql://... or mssql+pyodbc://...; " + next_step
    )
