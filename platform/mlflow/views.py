"""Ready-made pages of MLflow's UI: what to filter, sort and draw, so that the page that compares is one click away.

A page is the experiment tag `mlflow.sharedViewState.KEY`, opened with `?viewStateShareKey=KEY`. MLflow does not
document it: a UI that does not know it shows its own page, and nothing depends on it. The JSON holds the state twice:
bare, for older versions, and as a named view, which the UI's "Views" menu lists from 3.17 on. Whether a page opens as
table or as charts is not part of the state but of the address.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from fmnas.platform.mlflow.records import (
    EXPERIMENT_ID,
    INCUMBENT_LINES,
    KIND,
    MEAN_KIND,
    MEAN_LINES,
    RUN_KIND,
    TRIAL_KIND,
)
from fmnas.search_spaces import Space

_TAG = "mlflow.sharedViewState."
_MOST_AXES = 8
"""In the parallel coordinates: more cannot be read."""

_NOTE_BEGINS = "fmnas:"
"""How a description of ours begins."""

_VIEWS = ("compare", "means", "runs", "trials", "search")
_CHARTS = ("compare", "means", "search")
"""Those that open as charts; the others open as a table."""

_State = dict[str, Any]


def view_tags(identity: str, space: Space | None, now: int) -> dict[str, str]:
    """The experiment tags that hold the pages of one run directory; `now` in milliseconds since the epoch."""
    states = {
        "compare": _compare(identity),
        "means": _means(identity),
        "runs": _runs(identity),
        "trials": _trials(identity),
        "search": _search(identity, space),
    }
    tags = {}
    for place, (view, state) in enumerate(states.items()):
        # The menu shows the latest first.
        named = {"name": view, "createdAt": now - place, "updatedAt": now - place, "state": _json(state)}
        tags[_TAG + _key(view, identity)] = _json({**state, **named})
    return tags


def links_from_tags(base_url: str, experiment: str, tags: Iterable[str]) -> dict[str, str]:
    """KEY -> address of every page of ours among an experiment's tags; `experiment` is MLflow's id."""
    keys = {tag.removeprefix(_TAG) for tag in tags if tag.startswith(_TAG)}
    identities = sorted({key.partition("-")[2] for key in keys})
    ordered = [_key(view, identity) for identity in identities for view in _VIEWS]
    return {key: _link(base_url, experiment, key) for key in ordered if key in keys}


def experiment_link(base_url: str, experiment: str) -> str:
    """The experiment's own page; without the workflow, MLflow opens an empty page for language models."""
    base = f"{base_url.rstrip('/')}/" if base_url else ""
    return f"{base}#/experiments/{experiment}/runs?workflowType=machine_learning"


def page_note(what: str) -> str:
    """The experiment's description, plain text: MLflow's list of experiments shows no Markdown. what: a line."""
    return f"{_NOTE_BEGINS} {what}. Its pages, whose links fmnas ui prints: {', '.join(_VIEWS)}."


def is_ours(note: str) -> bool:
    """Whether a description was written by fmnas, or by nobody: then it may be replaced."""
    return not note or note.startswith(_NOTE_BEGINS)


def _link(base_url: str, experiment: str, key: str) -> str:
    query = {"viewStateShareKey": key}
    if key.partition("-")[0] in _CHARTS:
        query["compareRunsMode"] = "CHART"
    return f"{experiment_link(base_url, experiment)}&{urlencode(query)}"


def _key(view: str, identity: str) -> str:
    return f"{view}-{identity[:8]}"


def _json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"))


# -- the pages


def _compare(identity: str) -> _State:
    """A line per optimizer and repeat, its incumbent, in the optimizer's colour.

    Not grouped: the browser gives groups colours of its own, which are not those of the report.
    """
    lines, bars = map(_line, INCUMBENT_LINES), {"type": "BAR", "metricKey": "objective"}
    comparison = [*lines, _scatter("flops_ratio", "objective"), bars]
    return {
        **_page(identity, RUN_KIND, ["incumbent", "objective", "flops_ratio"], order="incumbent"),
        **_charts({"Comparison": comparison, "Model metrics": []}),
    }


def _means(identity: str) -> _State:
    """What the report says at the end: every optimizer's mean curve, and again with its interval."""
    curves = [_line(MEAN_LINES[0]), _line(*MEAN_LINES)]
    return {
        **_page(identity, MEAN_KIND, ["objective", "standard_error", "test_error"]),
        **_charts({"Mean over repeats": curves, "Model metrics": []}),
    }


def _runs(identity: str) -> _State:
    """A row per optimizer and repeat, best first."""
    columns = ["incumbent", "objective", "error", "flops_ratio", "trials", "epochs"]
    return _page(identity, RUN_KIND, columns, order="incumbent", tags=["optimizer", "repeat", "best_trial"])


def _trials(identity: str) -> _State:
    """A row per trial, best first."""
    columns = ["objective", "error", "flops_ratio", "epochs", "train_seconds", "suggest_seconds"]
    return _page(identity, TRIAL_KIND, columns, tags=["optimizer", "repeat", "origin", "status"])


def _search(identity: str, space: Space | None) -> _State:
    """What was tried: trade-off, parallel coordinates and training curves of the trials."""
    params, metrics = _axes(space)
    scattered = [_scatter(x, "objective") for x in ("flops_ratio", "spent/evaluations")]
    parallel = {"type": "PARALLEL", "selectedParams": params, "selectedMetrics": [*metrics, "objective"]}
    sections = {"Trials": [*scattered, _line("val_error")], "Configurations": [parallel]}
    folded: dict[str, list[_State]] = {"log10": [], "spent": [], "Model metrics": []}
    return {**_page(identity, TRIAL_KIND, ["objective"]), **_charts({**sections, **folded})}


def _page(
    identity: str, kind: str, columns: Iterable[str], order: str = "objective", tags: Iterable[str] = ()
) -> _State:
    return {
        "searchFilter": f"tags.`{EXPERIMENT_ID}` = '{identity}' and tags.`{KIND}` = '{kind}'",
        "orderByKey": f"metrics.`{order}`",
        "orderByAsc": True,
        "startTime": "ALL",
        "lifecycleFilter": "Active",
        "selectedColumns": [*(f"metrics.`{name}`" for name in columns), *(f"tags.`{name}`" for name in tags)],
        "runsHiddenMode": "SHOW_ALL",  # MLflow draws the first 10 rows if not told otherwise
    }


def _axes(space: Space | None) -> tuple[list[str], list[str]]:
    """Params and metrics of the parallel coordinates: the logarithm of what is on a log scale."""
    continuous = space.continuous[:_MOST_AXES] if space else ()
    discrete = tuple(variable.name for variable in space.discrete) if space else ()
    linear = [v.name for v in continuous if not v.log]
    return [*linear, *discrete[: _MOST_AXES - len(continuous)]], [f"log10/{v.name}" for v in continuous if v.log]


# -- the charts


def _charts(sections: Mapping[str, Sequence[_State]]) -> _State:
    """Charts by section; one without any is folded, and a chart that stands alone is as wide as the page."""
    cards = [
        {**card, "uuid": f"{name}-{place}", "metricSectionId": name}
        for name, charts in sections.items()
        for place, card in enumerate(charts)
    ]
    folding = [
        {"uuid": name, "name": name, "display": bool(charts), "isReordered": False}
        | {"columns": 1 if len(charts) == 1 else 2, "cardHeight": 460}
        for name, charts in sections.items()
    ]
    return {
        "compareRunCharts": [{"deleted": False, "isGenerated": False, "runsCountToCompare": 100, **c} for c in cards],
        "compareRunSections": folding,
        "isAccordionReordered": True,
        "hideEmptyCharts": False,
    }


def _line(*metrics: str) -> _State:
    return {
        "type": "LINE",
        "metricKey": metrics[0],
        "selectedMetricKeys": list(metrics),
        "xAxisKey": "step",
        "scaleType": "linear",
        "lineSmoothness": 0,
    }


def _scatter(x: str, y: str) -> _State:
    axes = {"xaxis": {"key": x, "type": "METRIC"}, "yaxis": {"key": y, "type": "METRIC"}}
    return {"type": "SCATTER", **axes}
