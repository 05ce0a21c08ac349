"""Tracking URIs: which are taken, what is said of the others, and that no password is shown."""

import pytest

from fmnas.platform.config.uri import TrackingError, check_uri
from fmnas.platform.mlflow.client import TrackingSettings


@pytest.mark.parametrize(
    "uri",
    [
        "sqlite:///mlflow.db",
        "sqlite:////data/mlflow.db",
        "http://127.0.0.1:5000",
        "https://mlflow.example.org/path",
        "http://me:secret@host:5000",
    ],
)
def test_usable_uris(uri: str) -> None:
    check_uri(uri)


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        ("file:///data/mlruns", "sqlite:////data/mlruns/mlflow.db"),
        ("./mlruns", "sqlite:///./mlruns/mlflow.db"),
        ("", "SQLite"),
        ("sqlite://", "name a file"),
        ("sqlite:///:memory:", "name a file"),
        ("http://", "give the server's host"),
        ("postgresql://host/db", "postgresql+psycopg2://host/db"),
        ("postgres://host/db", "postgresql+psycopg2://host/db"),
        ("mysql+nodriver://host/db", "pip install nodriver"),
        ("databricks", "sqlite"),
        ("postgresql+a.b://h/d", "correct it"),
        ("postgresql+.b://h/d", "correct it"),
        ("sqlite:////data/a%20b/mlflow.db", "without one"),
        ("ftp://host/x", "leave tracking.uri empty"),
        ("http://[broken", "correct it"),
        ("mysql://[broken/", "correct it"),
        ("sqlite://[broken/", "correct it"),
    ],
)
def test_unusable_uris_say_what_to_write(uri: str, hint: str) -> None:
    with pytest.raises(TrackingError) as error:
        check_uri(uri)
    assert hint in str(error.value)
    assert "tracking.uri" in str(error.value)
    assert "sqlite:///PATH.db" in str(error.value)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(TrackingError) as error:
        check_uri("postgresql://me:secret@host/db")
    assert "secret" not in str(error.value)


def test_an_experiment_id_that_could_break_a_filter_is_refused() -> None:
    with pytest.raises(TrackingError, match="experiment id"):
        TrackingSettings("sqlite:///mlflow.db", "toy", "it's")
