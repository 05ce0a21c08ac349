"""A password in tracking.uri: where it may be written, where it may not, and how one goes on without the file.

And credentials in the environment: which servers they are sent to.
"""

import base64
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.schema import Config
from fmnas.platform.config.uri import TrackingError, check_uri, hide_passwords, login_place, masked_uri, shown_uri
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.mlflow.password import URI_VARIABLE, keep_password, tracking_uri
from fmnas.platform.mlflow.tracker import BackgroundTracker, TrackingReport

Forge = Callable[[Path, Callable[[str], str]], None]
SECRET = "S3cr/et"
URI = f"http://alice:{quote(SECRET, safe='')}@127.0.0.1:9/"
MASKED = "http://alice:***@127.0.0.1:9/"
QUICK = ["-o", "workers.kind=in-process", "-o", "optimizers=[random]", "-o", "budget.evaluations=11"]


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that is down is given up at once, and pages have no figures."""
    monkeypatch.setattr("fmnas.platform.mlflow.tracker.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("fmnas.comparison.report.draw_figures", lambda *_: [])
    monkeypatch.delenv(URI_VARIABLE, raising=False)


def holders(folder: Path) -> list[str]:
    """The files that hold the password in any form."""
    forms = {SECRET.encode(), quote(SECRET, safe="").encode(), quote(SECRET, safe="").lower().encode()}
    found = [path for path in folder.rglob("*") if path.is_file() and any(f in path.read_bytes() for f in forms)]
    return [str(path.relative_to(folder)) for path in found]


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a finished run whose server never answered."""
    out = tmp_path_factory.mktemp("passwords") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fmnas.comparison.report.draw_figures", lambda *_: [])
        assert main(["run", "smoke", *QUICK, "-o", f"tracking.uri={URI}", "--out", str(out)]) == 0
    return out


@pytest.fixture
def out(run_directory: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(run_directory, tmp_path / "run"))


@pytest.mark.parametrize("progress", ["lines", "json"])
def test_a_run_tells_nobody_the_password(progress: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    arguments = ["run", "smoke", *QUICK, "-o", f"tracking.uri={URI}", "--out", str(out), "--progress", progress]
    assert main(arguments) == 0
    printed = "".join(capfd.readouterr())
    assert MASKED in printed
    assert "S3cr" not in printed
    assert holders(tmp_path) == ["run/mlflow.secret"]
    assert (out / "mlflow.secret").read_text() == f"{URI}\n"
    assert stat.S_IMODE((out / "mlflow.secret").stat().st_mode) == 0o600
    head = read_journal(out / "journal.jsonl")[0]["config"]
    assert head["tracking"]["uri"] == yaml.safe_load((out / "config.yaml").read_text())["tracking"]["uri"] == MASKED
    assert MASKED in (out / "report/index.html").read_text()


def test_what_comes_after_a_run_tells_nobody_either(
    out: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], forge: Forge
) -> None:
    other = tmp_path / "other"
    shutil.copytree(out, other)
    forge(other / "journal.jsonl", lambda text: text.replace('"seed":0', '"seed":1'))
    (other / "config.yaml").write_text((other / "config.yaml").read_text().replace("seed: 0", "seed: 1"))
    assert main(["resume", str(out)]) == 0
    assert main(["sync", str(out)]) == 1
    assert main(["report", str(out), str(other), "--out", str(tmp_path / "both")]) == 0
    assert main(["ui", str(out)]) == 2
    printed = "".join(capfd.readouterr())
    assert "no MLflow server answers" in printed
    assert "S3cr" not in printed
    assert sorted(holders(tmp_path)) == ["other/mlflow.secret", "run/mlflow.secret"]


def test_a_directory_without_the_password_asks_for_it(
    out: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (out / "mlflow.secret").unlink()
    for command in ("resume", "sync", "ui"):
        assert main([command, str(out)]) == 2
        told = capfd.readouterr().err
        assert MASKED in told
        assert URI_VARIABLE in told
        assert str(out / "mlflow.secret") in told
    monkeypatch.setenv(URI_VARIABLE, URI.replace("alice", "bob"))
    assert main(["sync", str(out)]) == 2
    told = capfd.readouterr().err
    assert f"has '{MASKED.replace('alice', 'bob')}'" in told
    assert "S3cr" not in told
    monkeypatch.setenv(URI_VARIABLE, URI)
    assert main(["sync", str(out)]) == 1
    assert "try again" in capfd.readouterr().err
    assert holders(out) == []


def test_a_run_may_be_given_its_password_by_the_environment_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(URI_VARIABLE, URI)
    assert main(["run", "smoke", *QUICK, "-o", f"tracking.uri={MASKED}", "--out", str(tmp_path / "run")]) == 0
    assert holders(tmp_path) == []


def test_a_directory_of_before_goes_on_and_its_configuration_is_cleaned(
    out: Path, capfd: pytest.CaptureFixture[str], forge: Forge
) -> None:
    (out / "mlflow.secret").unlink()
    forge(out / "journal.jsonl", lambda text: text.replace(MASKED, URI))
    (out / "config.yaml").write_text((out / "config.yaml").read_text().replace(MASKED, URI))
    assert main(["report", str(out)]) == 0
    assert sorted(holders(out)) == ["config.yaml", "journal.jsonl"]
    assert main(["resume", str(out)]) == 0
    assert "S3cr" not in "".join(capfd.readouterr())
    assert sorted(holders(out)) == ["journal.jsonl", "mlflow.secret"]
    assert main(["sync", str(out)]) == 1


def test_the_environment_replaces_a_password_that_has_changed(
    tmp_path: Path, configured: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(tmp_path)
    keep_password(configured(tracking={"uri": URI}), directory)
    config = configured(tracking={"uri": MASKED})
    assert tracking_uri(config.tracking, directory) == URI
    monkeypatch.setenv(URI_VARIABLE, "http://alice:new@127.0.0.1:9/")
    assert tracking_uri(config.tracking, directory) == "http://alice:new@127.0.0.1:9/"
    monkeypatch.setenv(URI_VARIABLE, "http://alice:new@another:9/")  # of another experiment
    assert tracking_uri(config.tracking, directory) == URI


def test_a_configuration_does_not_print_its_password(configured: Callable[..., Config]) -> None:
    config = configured(tracking={"uri": URI})
    assert config.tracking.uri == URI
    assert (
        "S3cr" not in f"{config!r} {config} {config.model_dump()} {config.model_dump(mode='json')} {config.to_yaml()}"
    )


@pytest.mark.parametrize(
    ("uri", "masked"),
    [
        (URI, MASKED),
        ("https://h/p?access_token=abc&x=1", "https://h/p?access_token=***&x=1"),
        ("postgresql+psycopg2://me:pa/ss@db/m", "postgresql+psycopg2://me:***@db/m"),
        ("postgresql+psycopg2://me:pa?ss@db:5432/m", "postgresql+psycopg2://me:***@db:5432/m"),
        ("postgresql+psycopg2://me:pa%40ss@db/m?sslmode=require", "postgresql+psycopg2://me:***@db/m?sslmode=require"),
        ("postgresql+psycopg2:///m?user=me&password=abc", "postgresql+psycopg2:///m?password=***&user=me"),
        ("mssql+pyodbc:///?odbc_connect=Driver%3DX%3BPWD%3Dabc", "mssql+pyodbc:///?odbc_connect=***"),
        ("postgresql+psycopg2://me@db/m", "postgresql+psycopg2://me@db/m"),
        (
            "postgresql+psycopg2://me@db/m?passfile=/home/me/.pgpass",
            "postgresql+psycopg2://me@db/m?passfile=/home/me/.pgpass",
        ),
        ("sqlite:///a@b:c/m.db", "sqlite:///a@b:c/m.db"),
    ],
)
def test_a_password_is_hidden_where_the_users_of_the_uri_look_for_it(uri: str, masked: str) -> None:
    assert masked_uri(uri) == masked
    assert masked_uri(masked) == masked
    assert hide_passwords(f"cannot open {uri} now", uri).count("***") == masked.count("***")


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql+psycopg2://me:S3cr@t@db/m",
        "postgresql+psycopg2://me:S3cr",
        "postgresql+psycopg2://me:S3cr t@db/m",
        "http://alice:S3cr/et@h",
        "http://alice:S3@cr@h",
        "http://alice:12/S3cr@h",
        "http://alice:S3cr#x@h",
        "http://[alice:S3cr@h",
        "http://alice:S3cr\n@h",
        "alice:S3cr@host:5000",
    ],
)
def test_what_could_be_read_in_two_ways_is_refused_and_not_repeated(uri: str) -> None:
    with pytest.raises(TrackingError, match="%2F") as error:
        check_uri(uri)
    assert "S3" not in f"{error.value} {shown_uri(uri)}"


def test_an_error_of_someone_else_is_shown_without_the_password() -> None:
    class Talkative:
        experiment = remark = gone = ""

        def open(self, *_: object) -> None:
            raise ConnectionError(f"no answer from {URI} for {SECRET!r}\n")

        write = close = open

        def is_refusal(self, error: Exception) -> bool:
            return False

    tracker = BackgroundTracker(Talkative(), uri=URI)
    tracker.start([])
    report = tracker.finish("finished", [], {})
    assert report == TrackingReport(reason=f"ConnectionError: no answer from {MASKED} for '***'")


def test_a_wrong_command_line_is_not_repeated_with_the_password(capfd: pytest.CaptureFixture[str]) -> None:
    for override in (f"tracking={URI}", f"tracking.uri.x={URI}", f"tracking.uri={URI[:-1]}x/"):
        assert main(["run", "smoke", "-o", override]) == 2
        assert "S3cr" not in "".join(capfd.readouterr())


LOGIN = f"Basic {base64.b64encode(b'me:hunter2').decode()}"
VARIABLES = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": "hunter2"}


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, set[str]]]:
    """A server that takes nothing: its URL, and every Authorization header that it was sent, or "" for none."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    sent: set[str] = set()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent.add(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_POST = do_PUT = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", sent
        server.shutdown()
        thread.join()


@pytest.fixture
def foreign(out: Path, listener: tuple[str, set[str]]) -> Path:
    """A run directory whose configuration names that server."""
    (out / "mlflow.secret").unlink()
    (out / "config.yaml").write_text((out / "config.yaml").read_text().replace(MASKED, listener[0]))
    return out


def give(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("command", "variables", "header"),
    [
        ("sync", VARIABLES, LOGIN),
        ("sync", {"MLFLOW_TRACKING_TOKEN": "hunter2"}, "Bearer hunter2"),
        ("resume", VARIABLES, LOGIN),
        ("ui", VARIABLES, LOGIN),
    ],
)
def test_a_server_that_only_a_run_directory_names_is_sent_no_credentials(
    command: str,
    variables: dict[str, str],
    header: str,
    foreign: Path,
    listener: tuple[str, set[str]],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    url, sent = listener
    give({**variables, "MLFLOW_TRACKING_URI": "http://127.0.0.1:9", URI_VARIABLE: "http://[not a URI"}, monkeypatch)
    main([command, str(foreign)])
    assert sent == {""}
    printed = capfd.readouterr().out
    assert "hunter2" not in printed
    assert [line for line in printed.splitlines() if "MLFLOW_TRACKING_URI" in line and url in line]
    for name in ("MLFLOW_TRACKING_URI", URI_VARIABLE):
        sent.clear()
        give({**variables, "MLFLOW_TRACKING_URI": "", URI_VARIABLE: "", name: f"{url}/"}, monkeypatch)
        main([command, str(foreign)])
        assert sent == {header}
        assert "MLFLOW_TRACKING_" not in capfd.readouterr().out


def test_a_server_that_the_command_names_is_sent_credentials(
    foreign: Path, listener: tuple[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, sent = listener
    give(VARIABLES, monkeypatch)
    assert main(["run", "smoke", *QUICK, "-o", f"tracking.uri={url}", "--out", str(tmp_path / "own")]) == 0
    assert sent == {LOGIN}
    sent.clear()
    assert main(["extend", str(foreign), "-o", f"tracking.uri={url}"]) == 0
    assert sent == {LOGIN}
    sent.clear()
    assert main(["extend", str(foreign), "-o", "budget.evaluations=12"]) == 0
    assert sent == {""}


def test_mlflows_file_of_credentials_is_kept_back_as_well(
    foreign: Path, listener: tuple[str, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.utils import credentials

    url, sent = listener
    monkeypatch.setattr(credentials, "_get_credentials_path", credentials._get_credentials_path)  # put back at the end
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".mlflow").mkdir()
    lines = ["[mlflow]", "mlflow_tracking_username = me", "mlflow_tracking_password = hunter2"]
    (tmp_path / ".mlflow/credentials").write_text("\n".join(lines))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
    main(["sync", str(foreign)])
    assert sent == {LOGIN}
    sent.clear()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    main(["sync", str(foreign)])
    assert sent == {""}


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        ("http://me:pw@Host:5000/path", "http://host:5000"),
        ("https://host", "https://host"),
        ("postgresql+psycopg2://me:pw@db/m?host=other", "postgresql+psycopg2://me:***@db/m?host=other"),
        ("sqlite:///mlflow.db", ""),
        ("http://[broken", ""),
        ("", ""),
    ],
)
def test_where_a_login_is_sent(uri: str, place: str) -> None:
    assert login_place(uri) == place
