"""MLflow's UI on a store, and the view that it opens: the incumbents of all optimizers, and FLOPs against objective.

A view is the experiment tag `mlflow.sharedViewState.KEY`, opened with `?viewStateShareKey=KEY`. MLflow does not
document it: a UI that does not know it shows its usual page. The JSON holds the state twice: bare, for older versions,
and as a named view, which the UI's menu "Views" lists from 3.17 on.
"""

import json
import os
import re
import socket
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from fmnas.platform.config.uri import TrackingError, is_server, redact, sqlite_path
from fmnas.platform.mlflow.credentials import withhold_credentials
from fmnas.platform.mlflow.records import EXPERIMENT_ID, INCUMBENT_LINES, KIND, RUN_KIND

LOOPBACK, PORT = "127.0.0.1", 5000
_COLUMNS = ("metrics.`incumbent`", "metrics.`objective`", "metrics.`flops_ratio`", "tags.`best_trial`")


def view_key(identity: str) -> str:
    """Return the key of the view of a run directory. identity: its unique id."""
    return f"compare-{identity[:8]}"


def view_tags(identity: str) -> dict[str, str]:
    """Return the experiment tag that holds the view of a run directory."""
    axes = {"xaxis": {"key": "flops_ratio", "type": "METRIC"}, "yaxis": {"key": "objective", "type": "METRIC"}}
    charts = [
        *map(_line_chart, INCUMBENT_LINES),
        {"type": "SCATTER", **axes},
        {"type": "BAR", "metricKey": "objective"},
    ]
    common = {"metricSectionId": "Comparison", "deleted": False, "isGenerated": False, "runsCountToCompare": 100}
    section = {"uuid": "Comparison", "name": "Comparison", "display": True, "isReordered": False}
    state = {
        "searchFilter": f"tags.`{EXPERIMENT_ID}` = '{identity}' and tags.`{KIND}` = '{RUN_KIND}'",
        "orderByKey": "metrics.`incumbent`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": _COLUMNS,
        "runsHiddenMode": "SHOW_ALL",  # by default MLflow draws the first 10 runs
        "compareRunCharts": [{**common, **chart, "uuid": f"chart-{place}"} for place, chart in enumerate(charts)],
        "compareRunSections": [{**section, "columns": 2, "cardHeight": 460}],
        "isAccordionReordered": True,
        "hideEmptyCharts": False,
    }
    named = {"name": "compare", "createdAt": 0, "updatedAt": 0, "state": json.dumps(state)}
    return {f"mlflow.sharedViewState.{view_key(identity)}": json.dumps({**state, **named})}


def view_link(base_url: str, experiment: str, identity: str) -> str:
    """Return the address of the view. experiment: MLflow's id.

    Without the workflow type, MLflow opens an empty page for language models.
    """
    query = {"workflowType": "machine_learning", "viewStateShareKey": view_key(identity), "compareRunsMode": "CHART"}
    return f"{base_url.rstrip('/')}/#/experiments/{experiment}/runs?{urlencode(query)}"


def _line_chart(metric: str) -> dict[str, Any]:
    keys = {"metricKey": metric, "selectedMetricKeys": [metric]}
    return {"type": "LINE", **keys, "xAxisKey": "step", "scaleType": "linear", "lineSmoothness": 0}


def ui_command(port: int = PORT) -> list[str]:
    """Return the command that serves the store of `ui_environment`."""
    return [sys.executable, "-m", "mlflow", "ui", "--host", LOOPBACK, "--port", str(port), "--workers", "1"]


def ui_environment(uri: str) -> dict[str, str]:
    """Return the environment of that command: without telemetry and job runners. A URI in it is not shown by `ps`."""
    quick = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
    return {**os.environ, **quick, "MLFLOW_BACKEND_STORE_URI": uri}


def open_ui(uri: str, port: int, experiment: str, identity: str, notify: Callable[[str], None]) -> None:
    """Report where the comparison of an experiment is, and become MLflow's UI; of a running server, only report.

    Raises TrackingError if the store does not exist, no server answers, or the port is in use.
    """
    if line := withhold_credentials(uri):
        notify(line)
    path = sqlite_path(uri)
    if path is not None and not path.is_file():
        raise TrackingError(f"{path}: MLflow's store does not exist yet; run an experiment first")
    from fmnas.platform.mlflow.client import load_mlflow

    try:
        existing = load_mlflow().MlflowClient(tracking_uri=uri).get_experiment_by_name(experiment)
    except Exception as error:
        reason = redact(f"{type(error).__name__}: {error}")
        raise TrackingError(f"tracking.uri = {redact(uri)!r}: MLflow's store does not answer: {reason}") from None
    url = re.sub("//[^/]*@", "//", uri) if is_server(uri) else f"http://{LOOPBACK}:{port}"
    notify(f"MLflow UI: {view_link(url, existing.experiment_id, identity) if existing else url}")
    if is_server(uri):
        return
    with socket.socket() as probe:
        if probe.connect_ex((LOOPBACK, port)) == 0:
            raise TrackingError(f"--port {port}: it is in use; choose a different one, e.g. --port {port + 1}")
    notify("Ctrl-C stops it.")
    sys.stdout.flush()
    os.execve(sys.executable, ui_command(port), ui_environment(uri))
