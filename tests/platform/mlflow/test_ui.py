"""Opening MLflow's UI: what is refused, and a real server from start to end."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError
from urllib.parse import parse_qs, urlsplit
from urllib.request import ProxyHandler, build_opener

import pytest

from fmnas.platform.config.uri import TrackingError
from fmnas.platform.mlflow.ui import open_ui, ui_command, ui_environment, view_link, view_tags

pytestmark = pytest.mark.slow


def test_a_port_in_use_is_named(experiment: Any) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(TrackingError, match=f"--port {port}"):
            open_ui(experiment.settings.uri, port, "an experiment", "abc", print)


def test_a_store_that_does_not_exist_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match=r"mlflow\.db"):
        open_ui(f"sqlite:///{tmp_path}/mlflow.db", 5000, "toy", "abc", print)
    assert not list(tmp_path.iterdir())


def test_a_server_that_does_not_answer_is_an_error_without_the_password() -> None:
    with pytest.raises(TrackingError, match=r"127\.0\.0\.1:9") as error:
        open_ui("http://me:secret@127.0.0.1:9", 5000, "toy", "abc", print)
    assert "secret" not in str(error.value)


def test_a_running_server_is_only_named_and_without_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(get_experiment_by_name=lambda name: SimpleNamespace(experiment_id=f"id-of-{name}"))
    mlflow = SimpleNamespace(MlflowClient=lambda tracking_uri: found)
    monkeypatch.setattr("fmnas.platform.mlflow.client.load_mlflow", lambda: mlflow)
    lines: list[str] = []
    open_ui("http://me:secret@host:7", 5000, "toy", "abc", lines.append)
    assert any("http://host:7/#/experiments/id-of-toy" in line for line in lines)
    assert "secret" not in " ".join(lines)


def test_the_command_listens_on_the_loopback_and_does_not_show_the_uri() -> None:
    command = ui_command(5001)
    assert (command[command.index("--host") + 1], command[command.index("--port") + 1]) == ("127.0.0.1", "5001")
    assert ui_environment("postgresql://me:secret@h/d")["MLFLOW_BACKEND_STORE_URI"] == "postgresql://me:secret@h/d"


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")
def test_the_ui_prints_the_link_answers_and_ends(experiment: Any) -> None:
    experiment.log()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # A suite started in the background ignores Ctrl-C, and so would what it starts.
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from fmnas.platform.mlflow.ui import open_ui\n"
        f"open_ui({experiment.settings.uri!r}, {port}, 'an experiment', 'abc', print)"
    )
    quiet = {"stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, **quiet) as ui:
        assert ui.stdout is not None
        assert f"http://127.0.0.1:{port}/#/experiments/1/runs?" in ui.stdout.readline()
        deadline = time.monotonic() + 90
        while True:
            try:
                with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
                    assert answer.status == 200
                    break
            except (URLError, OSError):
                assert time.monotonic() < deadline
                assert ui.poll() is None
                time.sleep(0.2)
        ui.send_signal(signal.SIGINT)
        ui.wait(30)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


IDENTITY = "0123456789abcdef"
PREFIX = "mlflow.sharedViewState."


def test_the_link_opens_the_charts_of_the_view() -> None:
    address = urlsplit(view_link("http://127.0.0.1:5000/", "7", IDENTITY))
    route, _, query = address.fragment.partition("?")
    assert (address.netloc, route) == ("127.0.0.1:5000", "/experiments/7/runs")
    values = {key: value for key, (value,) in parse_qs(query).items()}
    assert PREFIX + values.pop("viewStateShareKey") in view_tags(IDENTITY)
    assert values == {"workflowType": "machine_learning", "compareRunsMode": "CHART"}


def test_the_tag_is_a_bare_state_and_a_named_view_in_one() -> None:
    (value,) = view_tags(IDENTITY).values()
    assert len(value) < 5000, "the longest tag of older versions"
    outer = json.loads(value)
    inner = json.loads(outer["state"])
    assert {key: outer[key] for key in inner} == inner
    assert outer["name"] == "compare"


def test_it_draws_the_incumbents_of_every_run_of_the_directory_and_flops_against_objective() -> None:
    actual = json.loads(*view_tags(IDENTITY).values())
    assert IDENTITY in actual["searchFilter"]
    assert "tags.`fmnas.kind` = 'run'" in actual["searchFilter"]
    lines = [chart["metricKey"] for chart in actual["compareRunCharts"] if chart["type"] == "LINE"]
    assert lines == ["incumbent", "incumbent_by_epochs"]
    (scatter,) = [chart for chart in actual["compareRunCharts"] if chart["type"] == "SCATTER"]
    assert (scatter["xaxis"]["key"], scatter["yaxis"]["key"]) == ("flops_ratio", "objective")
    sections = {section["uuid"] for section in actual["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in actual["compareRunCharts"]} == sections
    assert "groupBy" not in actual, "the browser would choose the colours of groups"
