"""A ready-made view of MLflow's UI: the incumbents of all optimizers, and FLOPs against objective.

A view is the experiment tag `mlflow.sharedViewState.KEY`, opened with `?viewStateShareKey=KEY`. MLflow does not
document it: a UI that does not know it shows its usual page. The JSON holds the state twice: bare, for older versions,
and as a named view, which the UI's menu "Views" lists from 3.17 on.
"""

import json
from typing import Any
from urllib.parse import urlencode

from fmnas.platform.mlflow.records import EXPERIMENT_ID, INCUMBENT_LINES, KIND, RUN_KIND

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
