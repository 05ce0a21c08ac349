"""The pages of MLflow's UI: their addresses, their JSON, and the description that links to them."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from fmnas.platform.mlflow.records import valid_name
from fmnas.platform.mlflow.views import experiment_link, is_ours, links_from_tags, page_note, view_tags
from fmnas.search_spaces import Real, Space, joint_space

CAMPAIGN = "0123456789abcdef"
PREFIX = "mlflow.sharedViewState."


def states(space: Space | None) -> dict[str, Any]:
    tags = view_tags(CAMPAIGN, space, now=1000)
    return {key.removeprefix(PREFIX).partition("-")[0]: json.loads(value) for key, value in tags.items()}


def test_links_open_the_page_that_a_tag_holds() -> None:
    keys = {key.removeprefix(PREFIX) for key in view_tags(CAMPAIGN, None, 0)}
    links = links_from_tags("http://127.0.0.1:5000/", "7", view_tags(CAMPAIGN, None, 0))
    for link in links.values():
        address = urlsplit(link)
        route, _, query = address.fragment.partition("?")
        assert (address.netloc, route) == ("127.0.0.1:5000", "/experiments/7/runs")
        asked = parse_qs(query)
        assert asked["workflowType"] == ["machine_learning"]
        assert asked["viewStateShareKey"][0] in keys
    assert "compareRunsMode=CHART" in links["compare-01234567"]
    assert "compareRunsMode" not in links["runs-01234567"]


def test_links_are_found_again_from_an_experiments_tags() -> None:
    tags = [*view_tags(CAMPAIGN, None, 0), PREFIX + "1795223863443kymnb82k", "mlflow.note.content"]
    found = links_from_tags("http://host", "7", tags)
    assert list(found) == ["compare-01234567", "means-01234567", "runs-01234567", "trials-01234567", "search-01234567"]


def test_the_experiments_own_link_names_the_workflow() -> None:
    link = experiment_link("http://host", "7")
    assert link == "http://host/#/experiments/7/runs?workflowType=machine_learning"


@pytest.mark.parametrize("space", [None, Space([Real("x", 0, 1)]), joint_space()])
def test_a_page_fits_into_a_tag_of_any_mlflow(space: Space | None) -> None:
    assert all(len(value) < 5000 for value in view_tags(CAMPAIGN, space, 1_795_223_863_443).values())


def test_a_page_is_bare_state_and_named_view_in_one() -> None:
    for name, state in states(joint_space()).items():
        assert state["name"] == name
        assert isinstance(state["createdAt"], int)
        inner = json.loads(state["state"])
        assert {key: state[key] for key in inner} == inner
        assert CAMPAIGN in inner["searchFilter"]


def test_no_page_groups_runs_whose_colours_the_browser_would_then_choose() -> None:
    assert not any("groupBy" in state for state in states(joint_space()).values())


def test_compare_draws_a_line_per_optimizer_and_repeat() -> None:
    state = states(joint_space())["compare"]
    assert "tags.`fmnas.kind` = 'run'" in state["searchFilter"]
    lines = [card["metricKey"] for card in state["compareRunCharts"] if card["type"] == "LINE"]
    assert lines == ["incumbent", "incumbent_by_epochs"]


def test_means_draws_every_optimizers_mean_and_its_interval() -> None:
    state = states(joint_space())["means"]
    assert "tags.`fmnas.kind` = 'mean'" in state["searchFilter"]
    assert [card["selectedMetricKeys"] for card in state["compareRunCharts"]] == [["mean"], ["mean", "low", "high"]]


def test_every_chart_belongs_to_a_section() -> None:
    for state in states(joint_space()).values():
        sections = {section["uuid"] for section in state.get("compareRunSections", [])}
        cards = state.get("compareRunCharts", [])
        assert {card["metricSectionId"] for card in cards} <= sections
        assert len({card["uuid"] for card in cards}) == len(cards)


def test_parallel_coordinates_take_the_logarithm_of_log_scaled_variables() -> None:
    cards = states(joint_space())["search"]["compareRunCharts"]
    parallel = next(card for card in cards if card["type"] == "PARALLEL")
    assert parallel["selectedMetrics"] == ["log10/learning_rate", "log10/weight_decay", "objective"]
    assert "learning_rate" not in parallel["selectedParams"]
    assert "momentum" in parallel["selectedParams"]


def test_the_description_is_plain_text_that_may_be_replaced() -> None:
    note = page_note("toy: bo-fm, bohb on func2c")
    assert "toy: bo-fm, bohb on func2c" in note
    assert not set("[]`*#|<>") & set(note)
    assert is_ours(note)
    assert is_ours("")


def test_a_description_by_someone_else_stays() -> None:
    assert not is_ours("My notes")


def test_names_of_metrics_hold_only_what_mlflow_takes() -> None:
    assert valid_name("bo-fm (ours)/mean") == "bo-fm _ours_/mean"
