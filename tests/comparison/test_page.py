"""The sections, from summaries written by hand; and that no text becomes markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, ReportContext, anytime_curves
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.figures import FIGURES, draw_figures
from fmnas.comparison.figures.canvas import Drawing, Results, new_figure
from fmnas.comparison.figures.intervals import MAX_ROWS, differences, final, intervals, selection_bias
from fmnas.comparison.page import tables
from fmnas.comparison.page.page import render_page, sections
from fmnas.comparison.report import compute_results
from fmnas.comparison.summary import Incident, Remark

pytestmark = pytest.mark.slow

CONTEXT = ReportContext("a name", "func2c", Budget(evaluations=3, epochs_per_evaluation=25), {"torch": "2"}, "seeds: 4")
OPTIONAL = {
    "checkpoints": "checkpoints",
    "tests": "statistics",
    "targets": "targets",
    "sanity_checks": "sanity_checks",
    "retrained": "retrained",
}
"""Part of the summary -> the section that shows it."""
NOTHING = {**dict.fromkeys(OPTIONAL, ()), "tests": compare({}), "retrained": None}


def picture(section, caption="", **options):
    figure = new_figure(1.0, 1.0, is_constrained=False)
    return Drawing(f"{section}_picture", figure, caption, section=section, **options)


@pytest.fixture(scope="module")
def plain_summary(make_table):
    """A summary without any optional part."""
    runs = {(name, r): [3.0 + r, 2.0 - r, 1.0 + r / 7] for name in ("bo-fm", "random") for r in range(3)}
    return replace(compute_results(make_table(runs), CONTEXT).summary, **NOTHING)


@pytest.fixture(scope="module")
def summary(plain_summary, with_statistics):
    return with_statistics(plain_summary)


def page(summary, context=CONTEXT, pictures=()):
    """The page, with every run of white space as one space."""
    return " ".join(render_page(summary, context, pictures).split())


def ids(summary, context=CONTEXT):
    return [section.id for section in sections(summary, context, [])]


def draw_one(draw, summary):
    """The figure of a summary; None where nothing is drawn."""
    return next((drawing.figure for drawing in draw(Results(None, None, summary))), None)


def texts_of(figure):
    (axes,) = figure.axes
    return [text.get_text() for text in axes.texts]


def test_empty_sections_are_left_out(plain_summary):
    always = ["result", "spent", "configurations"]
    assert ids(plain_summary) == [*always, "reproduce"]
    assert ids(plain_summary, ReportContext("a name", "func2c", CONTEXT.budget, {"nested": {}}, "")) == always


@pytest.mark.parametrize("part", OPTIONAL)
def test_every_part_has_its_section(plain_summary, summary, part):
    with_part = replace(plain_summary, **{part: getattr(summary, part)})
    assert set(ids(with_part)) - set(ids(plain_summary)) == {OPTIONAL[part]}


def test_the_contents_link_to_every_section_in_order(summary):
    pictures = [picture("curves", "a <caption>")]
    html = page(summary, CONTEXT, pictures)
    links, anchors = re.findall(r"href='#(\w+)'", html), re.findall(r"<div class='body' id='(\w+)'", html)
    assert links == anchors == [section.id for section in sections(summary, CONTEXT, pictures)]
    assert (anchors[0], anchors[-1]) == ("result", "reproduce")
    assert "curves" in anchors
    assert "a &lt;caption&gt;" in html


def test_values_in_the_sections(summary):
    html = page(summary)
    for text in (
        "too few repeats to tell",
        "bo-fm is better",
        "no difference shown",
        "6 repeats without ties can show one",
        "-1.00",
        "-0.01000",
        "0.0750 ± 0.0050",
        "0.07000 to 0.08000",
        "12.5 (2 of 3)",
        "random: mostly random search &lt;3&gt;",
        "0.08090 ± 0.00070",
        "&lt; 1%",
        "10000 images that no optimizer has used",
        "2 paired repeats: the smallest p",
        "0.08010 to 0.08220",
    ):
        assert text in html, text


def test_columns_of_the_ledger_have_values(plain_summary):
    rows = [replace(run, wall_seconds=300.0, lost_seconds=0.0, pending=0) for run in plain_summary.ledger]

    def ledger_page(**changes):
        return page(replace(plain_summary, ledger=(replace(rows[0], **changes), *rows[1:])))

    assert "5.0 min" in ledger_page()
    for column, changes in (("lost", {"lost_seconds": 3.0}), ("pending", {"pending": 2})):
        assert f"<th>{column}</th>" not in ledger_page()
        assert f"<th>{column}</th>" in ledger_page(**changes)
    for known in ("duplicates", "isomorphic_duplicates"):
        assert "A duplicate repeats" not in ledger_page(duplicates=0, isomorphic_duplicates=0)
        assert "A duplicate repeats" in ledger_page(**{known: 1})


def test_the_ledger_has_no_digits_without_a_meaning(make_table):
    raced = {"epochs": 25 / 3, "objective": 2.0}
    trials = make_table({("a", 0): [raced, 1.0], ("b", 0): [{"origin": "initial"}, *[1.0] * 299]})
    table = tables.ledger(compute_results(trials, CONTEXT).summary)
    rows = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert [row["epochs"] for row in rows] == ["33.3", "7500"]
    assert "initial 0%" not in rows[1]["origins"]


def test_the_title_of_the_checkpoints_names_what_all_have_spent(summary):
    (title,) = (
        part.title for part in sections(replace(summary, compared_at=50), CONTEXT, []) if part.id == "checkpoints"
    )
    assert "50 epochs" in title


def test_figures_of_the_statistics(summary, plain_summary):
    assert texts_of(draw_one(differences, summary)) == ["bo-fm − random", "random − bo-fm"]  # the third has no numbers
    assert texts_of(draw_one(selection_bias, summary)) == ["bo-fm/repeat-0", "random/repeat-0"]
    many = replace(summary.retrained, rows=summary.retrained.rows * MAX_ROWS)
    assert texts_of(draw_one(selection_bias, replace(summary, retrained=many))) == ["bo-fm", "random"], "the means"
    assert len(draw_one(final, summary).axes) == 1
    assert intervals(summary)["bo-fm"] == (0.07, 0.08)
    one_repeat = {name: replace(row, repeats=1) for name, row in plain_summary.optimizers.items()}
    assert draw_one(final, replace(plain_summary, optimizers=one_repeat)) is None
    assert draw_one(differences, plain_summary) is None
    assert draw_one(selection_bias, plain_summary) is None


def test_without_an_interval_the_bar_is_a_standard_error(plain_summary):
    row = plain_summary.optimizers["random"]
    low, high = intervals(plain_summary)["random"]
    assert (low + high) / 2 == pytest.approx(row.mean)
    assert (high - low) / 2 == pytest.approx(row.standard_error)


def test_every_section_with_its_figures(make_table, summary):
    trial = [{"objective": (7 * i) % 5 + 1.0, "error": 0.5, "flops_ratio": 0.5} for i in range(12)]
    trials = typed_trials(make_table({(name, r): trial for name in ("bo-fm", "random") for r in range(3)}), "a test")
    drawings = list(draw_figures(Results(trials, anytime_curves(trials, CONTEXT.budget), summary)))
    saved = [drawing.name for drawing in drawings if drawing.is_saved]
    assert {"anytime", "differences", "final", "retrained", "tradeoff"} <= set(saved)
    assert len(saved) == len(set(saved)), "two figures would be one file"
    html = page(summary, CONTEXT, drawings)
    labels = re.findall(r'aria-label="([^"]+)" viewBox', html)
    assert {"anytime evaluations", "anytime seconds", *(name.replace("_", " ") for name in saved)} - {"anytime"} <= set(
        labels
    )
    assert len(re.findall(r"<figcaption>", html)) == len(labels)


@pytest.mark.parametrize(("epochs", "has_column"), [(1, False), (25, True)])
def test_epochs_have_a_column_where_an_evaluation_has_several(plain_summary, epochs, has_column):
    summary = replace(plain_summary, budget=Budget(4, epochs_per_evaluation=epochs))
    assert ("epochs" in tables.results_table(summary).header) is has_column


def test_mean_ranks_on_the_page_have_the_size_of_the_other_panels(make_table, summary):
    trial = [{"objective": (7 * i) % 5 + 1.0} for i in range(4)]
    trials = typed_trials(make_table({(name, r): trial for name in ("bo-fm", "random") for r in range(3)}), "a test")
    drawings = draw_figures(Results(trials, anytime_curves(trials, CONTEXT.budget), summary))
    sizes = {d.name: tuple(d.figure.get_size_inches()) for d in drawings if d.is_on_page and d.section == "curves"}
    assert "mean_ranks" in sizes
    assert len(set(sizes.values())) == 1


def test_a_picture_is_in_its_section_whichever_it_is(summary):
    """A new figure needs no change of the template."""
    noted = replace(summary, incidents=(Incident("random", "note", "odd", 1),))
    names = {*ids(noted), *(section for section, _ in FIGURES)}
    pictures = [picture(name, optimizer="bo-fm" if name == "cells" else "") for name in names]
    html = page(noted, CONTEXT, [*pictures, picture("lead", is_lead=True)])
    bodies = dict(re.findall(r"<div class='body' id='(\w+)'>(.*?)</section>", html))
    assert {name for name, body in bodies.items() if f'aria-label="{name.replace("_", " ")} picture"' in body} == names
    assert 'aria-label="lead picture"' in bodies["result"]
    assert {name for name, body in bodies.items() if "class='legend'" in body} == {"result", "curves"}


def test_the_setup_has_every_option(plain_summary):
    context = replace(CONTEXT, setup=["A cell is <trained>.", "Two begin alike."], settings={"bo-fm": {"kernel": "x"}})
    html = page(replace(plain_summary, remarks=(Remark("bo-fm knows its budget", "bo-fm"),)), context)
    for text in ("A cell is &lt;trained&gt;. Two begin alike.", "kernel x", "bo-fm knows its budget"):
        assert text in html


def test_tests_without_power_are_folded(summary):
    def is_folded(tests):
        return {s.id: s.is_folded for s in sections(replace(summary, tests=tests), CONTEXT, [])}

    assert is_folded(replace(summary.tests, pairs=summary.tests.pairs[:1]))["statistics"]
    assert not is_folded(summary.tests)["statistics"]
    assert "statistics" not in is_folded(compare({"a": {0: 1.0}, "b": {0: 2.0}}))


class Markup(HTMLParser):
    """The tags with their attributes' names, and the text between them."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(name for name, _ in attrs)))

    def handle_data(self, data):
        self.texts.append(data)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text("<>&\"'/ab=!-{%}", min_size=1), min_size=9, max_size=9))
def test_no_text_becomes_markup(summary, texts):
    """Whatever a name, a note, a value or a caption holds: the page has the same tags, and shows it literally."""

    def markup(name, problem, headline, remark, incident, key, value, config, caption):
        changed = replace(
            summary,
            name=name,
            problem=problem,
            headline=headline,
            remarks=(Remark(remark, "bo-fm"),),
            incidents=(Incident("random", "note", incident, 1),),
        )
        context = replace(CONTEXT, environment={key: value}, config_text=config)
        return Markup(render_page(changed, context, [picture("curves", caption)]))

    plain, odd = markup(*("text",) * len(texts)), markup(*texts)
    assert odd.tags == plain.tags
    content = "".join(odd.texts)
    assert all(text in content for text in texts)
