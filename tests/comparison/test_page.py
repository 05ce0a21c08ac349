"""The sections, from summaries written by hand."""

import re

import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, write_report
from fmnas.comparison.figures import drawings
from fmnas.comparison.figures.intervals import MOST_ROWS, differences_figure, final_figure, intervals, retrained_figure
from fmnas.comparison.numbers.notation import count, seconds, share
from fmnas.comparison.numbers.trials import typed_trials
from fmnas.comparison.page.html_parts import Picture, filled
from fmnas.comparison.page.page import page
from fmnas.comparison.report import inlined

CONTEXT = ReportContext("a name", "func2c", Budget(evaluations=3, epochs_per_evaluation=25), {"torch": "2"}, "seeds: 4")
FURTHER = {
    "checkpoints": "On the way",
    "tests": "Differences",
    "area": "Area under the curve",
    "targets": "Evaluations to reach a target",
    "equivalents": "Who is where another one was",
    "honesty": "Was it what its name says?",
    "retrained": "Selected and retrained",
}


@pytest.fixture(scope="module")
def plain_summary(make_table, tmp_path_factory):
    runs = {(name, r): [3.0 + r, 2.0 - r, 1.0 + r / 7] for name in ("bo-fm", "random") for r in range(3)}
    summary = write_report(make_table(runs), CONTEXT, tmp_path_factory.mktemp("report"))
    return {name: value for name, value in summary.items() if name not in FURTHER}


@pytest.fixture(scope="module")
def summary(plain_summary, with_statistics):
    return with_statistics(plain_summary)


def headings(html):
    return re.findall(r"<h[23]>(.*?)</h[23]>", html)


def test_without_further_keys_their_sections_are_left_out(plain_summary):
    html = page(plain_summary, CONTEXT, {})
    assert headings(html) == ["Result", "What was spent", "Best configurations", "Environment", "Configuration"]
    assert page({**plain_summary, **dict.fromkeys(FURTHER)}, CONTEXT, {}) == html


@pytest.mark.parametrize("key", FURTHER)
def test_every_key_has_its_part_and_only_that(plain_summary, summary, key):
    shown = headings(page({**plain_summary, key: summary[key]}, CONTEXT, {}))
    assert [text for text in FURTHER.values() if any(each.startswith(text) for each in shown)] == [FURTHER[key]]


def test_the_contents_lead_to_every_section_in_order(summary):
    html = page(summary, CONTEXT, {"curves": [Picture("<svg></svg>", "a <caption>")]})
    links, ids = re.findall(r"href='#(\w+)'", html), re.findall(r"<section id='(\w+)'", html)
    assert links == ids
    assert ids[0] == "curves"
    assert ids[-1] == "configuration"
    assert "a &lt;caption&gt;" in html


def test_the_sections_in_words(summary):
    html = page(summary, CONTEXT, {})
    for text in (
        "too few repeats to tell",
        "bo-fm is better",
        "no difference shown",
        "6 can reach 5%",
        "corrected by Holm",
        "-1.00",
        "0.0750 ± 0.0050",
        "0.07000 to 0.08000",
        "12.5 (2 of 3)",
        "<td>never</td>",
        "bo-fm at 12",
        "random: mostly random search in disguise &lt;3&gt;",
        "0.08090 ± 0.00070",
        "< 1%".replace("<", "&lt;"),
        "10000 images that no optimizer has seen. These are the errors to believe",
        "Test errors, pair by pair",
        "two retrained are too few",
        "0.08010 to 0.08220",
        "20 (12 to never; late 3%)",
        "the same for whoever takes part",
    ):
        assert text in html, text


def test_the_ledger_shows_what_there_is(plain_summary):
    rows = [
        {**run, "wall_seconds": 300.0, "idle_seconds": None, "lost_seconds": 0.0, "pending": 0}
        for run in plain_summary["ledger"]
    ]
    html = page({**plain_summary, "ledger": rows}, CONTEXT, {})
    assert "<th>wall-clock</th>" in html
    assert "5.0 min" in html
    for absent in ("<th>lost</th>", "<th>pending</th>", "<th>idle</th>"):
        assert absent not in html
    rows[0] |= {"lost_seconds": 3.0, "pending": 2, "idle_seconds": 1.0}
    html = page({**plain_summary, "ledger": rows}, CONTEXT, {})
    for present in ("<th>lost</th>", "<th>pending</th>", "<th>idle</th>", "the platform&#x27;s cost"):
        assert present in html


def test_figures_of_the_statistics(summary):
    (axes,) = differences_figure(summary).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm − random", "random − bo-fm"]  # the third has no numbers
    assert len(final_figure(summary).axes) == 1
    assert intervals(summary)["bo-fm"] == (0.07, 0.08)
    (axes,) = retrained_figure(summary).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm/repeat-0", "random/repeat-0"]


def test_without_an_interval_the_bar_is_a_standard_error(plain_summary):
    row = plain_summary["optimizers"]["random"]
    low, high = intervals(plain_summary)["random"]
    assert (low + high) / 2 == pytest.approx(row["mean"])
    assert (high - low) / 2 == pytest.approx(row["standard_error"])


def test_figures_without_data_are_left_out(plain_summary):
    assert differences_figure(plain_summary) is None
    assert retrained_figure({**plain_summary, "retrained": None}) is None
    one = {name: {**row, "repeats": 1} for name, row in plain_summary["optimizers"].items()}
    assert final_figure({**plain_summary, "optimizers": one}) is None


def test_of_many_retrained_the_means_are_drawn(summary):
    rows = summary["retrained"]["rows"] * MOST_ROWS
    (axes,) = retrained_figure({"retrained": {**summary["retrained"], "rows": rows}}).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm", "random"]


def test_every_section_with_its_figures(make_table, summary):
    runs = {
        (name, r): [{"objective": (7 * i + r) % 5 + 1.0, "x": i / 12, "k": i % 2} for i in range(12)]
        for name in ("bo-fm", "random")
        for r in range(3)
    }
    trials = typed_trials(make_table(runs), "a test")
    drawn = drawings(trials, anytime_curves(trials, CONTEXT.budget), summary, CONTEXT)
    filed = ["anytime", "differences", "final", "importance", "parallel", "retrained", "timeline"]
    assert sorted(each.name for each in drawn if each.filed) == filed
    html = page(summary, CONTEXT, inlined(drawn))
    shown = re.findall(r'aria-label="([^"]+)" viewBox', html)
    assert {"anytime evaluations", "anytime seconds", *filed[1:]} <= set(shown)
    assert len(re.findall(r"<figcaption>", html)) == len(shown)


def test_short_texts():
    assert [share(value) for value in (None, 0.0, 0.001, 0.25, 1.0)] == ["–", "0%", "< 1%", "25%", "100%"]
    assert [count(value) for value in (None, 3, 3.0, 2.25)] == ["–", "3", "3", "2.2"]
    assert seconds(None) == "–"
    assert filled(("a", "b"), [("x", "–"), ("y", "")]).count("<td>") == 2
    assert filled(("a",), [("–",)]) == ""
