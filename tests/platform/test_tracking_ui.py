"""Opening MLflow's UI: what can be wrong beforehand, and a real server from start to end."""

import base64
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest

from fmnas.platform.config.uri import TrackingError
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.tracker import BackgroundTracker
from fmnas.platform.mlflow.ui import open_ui, ui_command, ui_environment

LOADER = "ignore:The ``noload`` loader strategy:DeprecationWarning"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_port_in_use_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TrackingError, match=f"--port {port}: .*--port"):
            open_ui(f"sqlite:///{tmp_path}/mlflow.db", port)


@pytest.mark.parametrize("port", [-1, 70000])
def test_an_impossible_port_is_refused(tmp_path: Path, port: int) -> None:
    (tmp_path / "mlflow.db").touch()
    with pytest.raises(TrackingError, match="--port"):
        open_ui(f"sqlite:///{tmp_path}/mlflow.db", port)


def test_a_store_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="run an experiment first"):
        open_ui(f"sqlite:///{tmp_path}/mlflow.db")
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(TrackingError, match="no MLflow server answers"):
        open_ui("http://127.0.0.1:9")


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server that wants a login: its host and port, and what it was sent for one."""
    sent: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent.append(self.headers.get("Authorization", ""))
            self.rfile.read(int(self.headers["Content-Length"]))
            body = json.dumps({"experiments": [{"name": "toy", "experiment_id": "7"}]}).encode()
            known = sent[-1] == f"Basic {base64.b64encode(b'alice:S3cr/et').decode()}"
            self.send_response(200 if known else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}", sent
        server.shutdown()
        thread.join()


def test_a_login_is_sent_to_the_server_and_to_nobody_else(
    asked: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    host, sent = asked
    looked_up: list[object] = []
    look_up = socket.getaddrinfo

    def note(name: object, *rest: Any, **more: Any) -> Any:
        looked_up.append(name)
        return look_up(name, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", note)
    said: list[str] = []
    open_ui(f"http://alice:S3cr%2Fet@{host}/", say=said.append)
    assert looked_up == ["127.0.0.1"]
    assert said[0] == f"MLflow UI on http://alice:***@{host}/"
    assert f"http://{host}/#/experiments/7" in said[1]
    assert "S3cr" not in " ".join(said)
    with pytest.raises(TrackingError, match=r"401.*USER:PASSWORD") as error:
        open_ui(f"http://alice:S3cr%2Fit@{host}/", say=said.append)
    assert "S3cr" not in str(error.value)
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "alice")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "S3cr/et")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://{host}")
    open_ui(f"http://{host}", say=said.append)
    assert sent[0] == sent[2] != sent[1]


def test_the_command_listens_on_the_loopback_and_hides_passwords() -> None:
    command = ui_command("sqlite:////data/mlflow.db")
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert "sqlite:////data/mlflow.db" in command
    secret = "postgresql+psycopg2://me:secret@host/db"
    for each in (secret, "postgresql+psycopg2://me:my/secret@host/db", "postgresql+psycopg2:///db?password=secret"):
        assert not any("secret" in word for word in ui_command(each))
    assert ui_environment(secret)["MLFLOW_BACKEND_STORE_URI"] == secret


@pytest.mark.filterwarnings(LOADER)
def test_a_server_shows_the_links_and_ends_with_us(tmp_path: Path) -> None:
    from fmnas.platform.mlflow.store import MlflowStore

    uri, port = f"sqlite:///{tmp_path}/mlflow.db", free_port()
    tracker = BackgroundTracker(MlflowStore(TrackingSettings(uri, "an experiment", "abc")))
    tracker.start([("random", 0)])
    assert tracker.finish("finished", [], {}).reason == ""
    # A suite started in the background ignores Ctrl-C, and so would what it starts.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{heed}; from fmnas.platform.mlflow.ui import open_ui; open_ui({uri!r}, {port})"
    with subprocess.Popen([sys.executable, "-uc", script], stdout=subprocess.PIPE, text=True) as ui:
        assert ui.stdout is not None
        said = []
        for line in ui.stdout:
            said.append(line.strip())
            if "Ctrl-C" in line:
                break
        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/health", timeout=10) as answer:
            assert answer.status == 200
        ui.send_signal(signal.SIGINT)
        said += ui.stdout.read().split("\n")
        assert ui.wait(30) == 0
    text = "\n".join(said)
    assert (
        f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=compare-abc"
        in text
    )
    assert "Traceback" not in text
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


NO_MLFLOW = (
    b"SSH-2.0-OpenSSH_9.6\r\n",
    *(b"HTTP/1.0 200 OK\r\n\r\n" + body for body in (b"[]", b'{"experiments":[{}]}')),
)


@pytest.mark.parametrize("answer", NO_MLFLOW)
def test_what_answers_and_is_no_mlflow_server_is_named(answer: bytes) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()

        def reply() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        with pytest.raises(TrackingError, match="no MLflow server answers"):
            open_ui(f"http://127.0.0.1:{other.getsockname()[1]}", say=print)
        thread.join()
