"""Tracking URIs: which are allowed, that none holds a password, and which servers are sent credentials."""

import base64
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.schema import TrackingConfig
from fmnas.platform.config.uri import TrackingError, check_no_password, check_uri, origin, redact
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.mlflow.credentials import URI_VARIABLE, tracking_uri, withhold_credentials

pytestmark = pytest.mark.slow

QUICK = ["-o", "workers.kind=in-process", "-o", "optimizers=[random]", "-o", "budget.evaluations=11"]
SECRET = "S3cr/et"


@pytest.mark.parametrize(
    "uri",
    [
        *("sqlite:///mlflow.db", "sqlite:///a@b:c/m.db", "https://me@host:5000/path"),
        "postgresql+psycopg2://me@db/m?passfile=/home/me/.pgpass",
    ],
)
def test_usable_uris(uri: str) -> None:
    if "psycopg2" in uri:
        pytest.importorskip("psycopg2")
    check_uri(uri)
    assert check_no_password(uri) == redact(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        *("./mlruns", "", "ftp://host/x", "postgres://host/db", "mysql+nodriver://host/db", "postgresql+.b://h/d"),
        *("sqlite://", "sqlite:///:memory:", "sqlite:////data/a%20b/mlflow.db", "http://", "http://[broken"),
    ],
)
def test_unusable_uris_are_refused_with_those_that_are_allowed(uri: str) -> None:
    with pytest.raises(TrackingError) as error:
        check_uri(uri)
    assert "tracking.uri" in str(error.value)
    assert "sqlite:///PATH.db" in str(error.value)


@pytest.mark.parametrize(
    ("uri", "redacted"),
    [
        ("http://alice:S3cr%2Fet@127.0.0.1:9/", "http://alice:***@127.0.0.1:9/"),
        ("https://h/p?access_token=S3&x=1", "https://h/p?access_token=***&x=1"),
        ("postgresql+psycopg2://me:S3?ss@db:5432/m", "postgresql+psycopg2://me:***@db:5432/m"),
        ("postgresql+psycopg2:///m?user=me&password=S3", "postgresql+psycopg2:///m?user=me&password=***"),
        ("mssql+pyodbc:///?odbc_connect=Driver%3DX%3BPWD%3DS3", "mssql+pyodbc:///?odbc_connect=***"),
        ("postgresql+psycopg2://me:S3cr@t@db/m", "postgresql+psycopg2://me:***@db/m"),
        ("http://[alice:12/S3cr#x@h", "http://[alice:***@h"),
        ("http://alice:S3cr\n@h", "http://alice:***@h"),
        ("alice:S3cr@host:5000", "alice:***@host:5000"),
    ],
)
def test_a_password_is_refused_and_hidden(uri: str, redacted: str) -> None:
    with pytest.raises(ValueError, match="MLFLOW_TRACKING_PASSWORD") as error:
        check_no_password(uri)
    assert "S3" not in str(error.value)
    assert redact(uri) == redacted
    assert redact(f"cannot open {uri!r} now") == f"cannot open {redacted!r} now"


def test_a_uri_that_cannot_be_parsed_is_not_repeated() -> None:
    with pytest.raises(TrackingError) as error:
        check_uri("postgresql+psycopg2://me:S3cr")
    assert "S3cr" not in str(error.value)


@pytest.mark.parametrize("override", ["tracking.uri={}", "tracking={}"])
def test_a_password_on_the_command_line_is_wrong_input_and_not_repeated(
    override: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    uri = "http://alice:S3cr%2Fet@127.0.0.1:9/"
    assert main(["run", "smoke", *QUICK, "-o", override.format(uri), "--out", str(tmp_path / "run")]) == 2
    printed = "".join(capfd.readouterr())
    assert "S3cr" not in printed
    if override.startswith("tracking.uri="):
        assert all(name in printed for name in ("MLFLOW_TRACKING_USERNAME", "PGPASSFILE", URI_VARIABLE))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("http://me:pw@Host:5000/path", ("http", "host", 5000)),
        ("https://host", ("https", "host", None)),
        ("postgresql+psycopg2://me:pw@db/m", ("postgresql+psycopg2", "db", None)),
        *((uri, None) for uri in ("sqlite:///mlflow.db", "http://[broken", "http://host:port", "")),
    ],
)
def test_where_credentials_are_sent(uri: str, place: object) -> None:
    assert origin(uri) == place


@pytest.mark.parametrize(
    ("complete", "is_used"),
    [
        ("http://alice:pw@host:5000/", True),
        ("http://alice:pw@another:5000/", False),
        ("http://alice:pw@host:5000/other", False),
        ("http://[broken", False),
        ("", False),
    ],
)
def test_the_environment_may_have_the_complete_uri(
    complete: str, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URI_VARIABLE, complete)
    uri = "http://host:5000"
    assert tracking_uri(TrackingConfig(uri=uri), RunDirectory(tmp_path)) == (complete if is_used else uri)


def test_a_variable_that_cannot_be_parsed_is_not_the_uri_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URI_VARIABLE, "http://[broken")
    uri = f"sqlite:///{tmp_path}/store.db"
    assert tracking_uri(TrackingConfig(uri=uri), RunDirectory(tmp_path)) == uri


def test_passwords_of_databases_are_withheld_from_databases_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    withhold_credentials("http://host:5000")
    assert os.environ["PGPASSWORD"] == "hunter2"
    assert "PGPASSWORD" in withhold_credentials("postgresql+psycopg2://host/store")
    assert "PGPASSWORD" not in os.environ


LOGIN = f"Basic {base64.b64encode(b'me:hunter2').decode()}"
VARIABLES = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hunter2"}


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, set[str]]]:
    """A server that rejects everything: its URL, and every Authorization header that it was sent, or "" for none."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr("fmnas.platform.mlflow.sync.POLL_SECONDS", 0.01)
    monkeypatch.setattr("fmnas.comparison.report.draw_figures", lambda *_: [])
    headers: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.add(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", headers
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that was not logged."""
    out = tmp_path_factory.mktemp("credentials") / "run"
    assert main(["run", "smoke", *QUICK, "-o", "tracking.enabled=false", "--out", str(out)]) == 0
    return out


@pytest.fixture
def foreign(finished: Path, listener: tuple[str, set[str]], tmp_path: Path) -> Path:
    """A run directory whose configuration names that server."""
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    text = (out / "config.yaml").read_text().replace("enabled: false", "enabled: true")
    (out / "config.yaml").write_text(text.replace("uri: null", f"uri: {listener[0]}"))
    return out


Give = Callable[[dict[str, str]], None]


@pytest.fixture
def give(monkeypatch: pytest.MonkeyPatch) -> Give:
    """give(variables): to the environment."""

    def give(variables: dict[str, str]) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return give


@pytest.mark.parametrize(
    ("command", "variables", "header"),
    [
        ("sync", VARIABLES, LOGIN),
        ("resume", {"MLFLOW_TRACKING_TOKEN": "hunter2"}, "Bearer hunter2"),
        ("ui", VARIABLES, LOGIN),
    ],
)
def test_a_server_that_only_a_run_directory_names_is_sent_no_credentials(
    command: str,
    variables: dict[str, str],
    header: str,
    foreign: Path,
    listener: tuple[str, set[str]],
    give: Give,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url, headers = listener
    give({**variables, "MLFLOW_TRACKING_URI": "http://127.0.0.1:9", URI_VARIABLE: "http://[not a URI"})
    main([command, str(foreign)])
    assert headers == {""}
    printed = capfd.readouterr().out
    assert "hunter2" not in printed
    assert [line for line in printed.splitlines() if "MLFLOW_TRACKING_URI" in line and url in line]
    for name in ("MLFLOW_TRACKING_URI", URI_VARIABLE):
        headers.clear()
        give({**variables, "MLFLOW_TRACKING_URI": "", URI_VARIABLE: "", name: f"{url}/"})
        main([command, str(foreign)])
        assert headers == {header}


def test_a_server_that_the_command_names_is_sent_credentials(
    foreign: Path, listener: tuple[str, set[str]], tmp_path: Path, give: Give
) -> None:
    url, headers = listener
    give(VARIABLES)
    assert main(["run", "smoke", *QUICK, "-o", f"tracking.uri={url}", "--out", str(tmp_path / "own")]) == 0
    assert headers == {LOGIN}
    headers.clear()
    assert main(["extend", str(foreign), "-o", "budget.evaluations=12"]) == 0
    assert headers == {""}
    headers.clear()
    give(VARIABLES)  # which were withheld
    assert main(["extend", str(foreign), "-o", "budget.evaluations=13", "-o", f"tracking.uri={url}"]) == 0
    assert headers == {LOGIN}


def test_mlflows_file_of_credentials_is_withheld_as_well(
    foreign: Path, listener: tuple[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.utils import credentials

    url, headers = listener
    monkeypatch.setattr(credentials, "_get_credentials_path", credentials._get_credentials_path)  # put back at the end
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".mlflow").mkdir()
    lines = ["[mlflow]", "mlflow_tracking_username = me", "mlflow_tracking_password = hunter2"]
    (tmp_path / ".mlflow/credentials").write_text("\n".join(lines))
    for uri, header in ((url, LOGIN), ("", "")):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        headers.clear()
        main(["sync", str(foreign)])
        assert headers == {header}
