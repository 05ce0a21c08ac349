"""Opening MLflow's UI: what is refused, what is started, and the view that it opens."""

import json
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

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
    client = SimpleNamespace(get_experiment_by_name=lambda name: SimpleNamespace(experiment_id=f"id-of-{name}"))
    mlflow = SimpleNamespace(MlflowClient=lambda tracking_uri: client)
    monkeypatch.setattr("fmnas.platform.mlflow.client.load_mlflow", lambda: mlflow)
    lines: list[str] = []
    open_ui("http://me:secret@host:7", 5000, "toy", "abc", lines.append)
    assert any("http://host:7/#/experiments/id-of-toy" in line for line in lines)
    assert "secret" not in " ".join(lines)


def test_the_command_listens_on_the_loopback_and_does_not_show_the_uri() -> None:
    command = ui_command(5001)
    assert (command[command.index("--host") + 1], command[command.index("--port") + 1]) == ("127.0.0.1", "5001")
    assert ui_environment("postgresql://me:secret@h/d")["MLFLOW_BACKEND_STORE_URI"] == "postgresql://me:secret@h/d"


def test_the_ui_prints_the_link_and_becomes_mlflows_own(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which a test of a server that comes and goes starts, with the same command."""
    experiment.log()
    called: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: called.append(arguments))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lines: list[str] = []
    open_ui(experiment.settings.uri, port, "an experiment", "abc", lines.append)
    assert f"http://127.0.0.1:{port}/#/experiments/1/runs?" in lines[0]
    ((program, command, environment),) = called
    assert (program, command) == (sys.executable, ui_command(port))
    assert environment["MLFLOW_BACKEND_STORE_URI"] == experiment.settings.uri


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
