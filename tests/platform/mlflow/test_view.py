"""The ready-made view of MLflow's UI: its address, its JSON, and what it draws."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fmnas.platform.mlflow.view import view_link, view_tags

IDENTITY = "0123456789abcdef"
PREFIX = "mlflow.sharedViewState."


def state() -> dict[str, Any]:
    (value,) = view_tags(IDENTITY).values()
    return dict(json.loads(value))


def test_the_link_opens_the_charts_of_the_view() -> None:
    address = urlsplit(view_link("http://127.0.0.1:5000/", "7", IDENTITY))
    route, _, query = address.fragment.partition("?")
    assert (address.netloc, route) == ("127.0.0.1:5000", "/experiments/7/runs")
    values = {key: value for key, (value,) in parse_qs(query).items()}
    assert PREFIX + values.pop("viewStateShareKey") in view_tags(IDENTITY)
    assert values == {"workflowType": "machine_learning", "compareRunsMode": "CHART"}


def test_the_view_fits_into_a_tag_of_any_mlflow() -> None:
    assert all(len(value) < 5000 for value in view_tags(IDENTITY).values())


def test_the_tag_is_a_bare_state_and_a_named_view_in_one() -> None:
    outer = state()
    inner = json.loads(outer["state"])
    assert {key: outer[key] for key in inner} == inner
    assert outer["name"] == "compare"
    assert isinstance(outer["createdAt"], int)


def test_it_draws_the_incumbents_of_every_run_of_the_directory_and_flops_against_objective() -> None:
    found = state()
    assert IDENTITY in found["searchFilter"]
    assert "tags.`fmnas.kind` = 'run'" in found["searchFilter"]
    lines = [chart["metricKey"] for chart in found["compareRunCharts"] if chart["type"] == "LINE"]
    assert lines == ["incumbent", "incumbent_by_epochs"]
    (scatter,) = [chart for chart in found["compareRunCharts"] if chart["type"] == "SCATTER"]
    assert (scatter["xaxis"]["key"], scatter["yaxis"]["key"]) == ("flops_ratio", "objective")
    sections = {section["uuid"] for section in found["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in found["compareRunCharts"]} == sections
    assert "groupBy" not in found, "the browser would choose the colours of groups"
