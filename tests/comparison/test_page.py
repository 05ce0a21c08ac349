"""The sections, from summaries written by hand; and that no text becomes markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison import Budget, ReportContext, anytime_curves, write_report
from fmnas.comparison.analysis.checkpoints import Checkpoint
from fmnas.comparison.analysis.formatting import MISSING, count, duration, interval, share, shown
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.figures import FIGURES, drawn
from fmnas.comparison.figures.canvas import Drawing, Results, sheet
from fmnas.comparison.figures.intervals import MOST_ROWS, differences, final, intervals, retrained
from fmnas.comparison.page.page import page, sections
from fmnas.comparison.page.tables import Table
from fmnas.comparison.summary import Incident, Remark

CONTEXT = ReportContext("a name", "func2c", Budget(evaluations=3, epochs_per_evaluation=25), {"torch": "2"}, "seeds: 4")
FURTHER = {
    "checkpoints": "Results at 25%, 50%, 100% of the budget",
    "tests": "Pairwise tests",
    "area": "Area under the curve",
    "targets": "Evaluations to reach a target",
    "equivalents": "Evaluations to match another's mean",
    "honesty": "Sanity checks",
    "retrained": "Test errors of the best, trained again",
    "tradeoff": "Error against FLOPs",
}
NOTHING = {
    **dict.fromkeys(("checkpoints", "area", "targets", "equivalents", "honesty", "tradeoff"), ()),
    "tests": compare({}),
    "retrained": None,
}


def picture(section, caption="", **given):
    return Drawing(f"{section}_picture", sheet(1.0, 1.0, laid_out=False), caption, section=section, **given)


@pytest.fixture(scope="module")
def plain_summary(make_table, tmp_path_factory):
    """What a report has at least."""
    runs = {(name, r): [3.0 + r, 2.0 - r, 1.0 + r / 7] for name in ("bo-fm", "random") for r in range(3)}
    return replace(write_report(make_table(runs), CONTEXT, tmp_path_factory.mktemp("report")), **NOTHING)


@pytest.fixture(scope="module")
def summary(plain_summary, with_statistics):
    return with_statistics(plain_summary)


def headings(html):
    return re.findall(r"<h[23][^>]*>(.*?)</h[23]>", html)


def words(html):
    """With every run of white space as one space."""
    return " ".join(html.split())


def test_an_optimizer_with_a_single_repeat_silences_no_tests(plain_summary):
    values = {name: {r: 1.0 + r for r in range(3)} for name in ("bo-fm", "random")}
    ragged = replace(plain_summary, tests=compare(values | {"late": {0: 9.0}}))
    shown = [section.id for section in sections(ragged, CONTEXT, [])]
    assert "statistics" in shown


def test_without_further_parts_their_sections_are_left_out(plain_summary):
    html = page(plain_summary, CONTEXT, [])
    always = ["Result", "Cost of every run", "Best configurations"]
    assert headings(html) == [*always, "Reproduce", "Configuration", "Environment"]
    bare = ReportContext("a name", "func2c", CONTEXT.budget, {"nested": {}}, "")
    assert headings(page(plain_summary, bare, [])) == always


@pytest.mark.parametrize("part", FURTHER)
def test_every_part_is_shown_and_only_that(plain_summary, summary, part):
    found = headings(page(replace(plain_summary, **{part: getattr(summary, part)}), CONTEXT, []))
    assert [text for text in FURTHER.values() if any(each.startswith(text) for each in found)] == [FURTHER[part]]


def test_the_contents_lead_to_every_section_in_order(summary):
    html = page(summary, CONTEXT, [picture("curves", "a <caption>")])
    links, ids = re.findall(r"href='#(\w+)'", html), re.findall(r"<div class='body' id='(\w+)'", html)
    assert links == ids == [section.id for section in sections(summary, CONTEXT, [picture("curves")])]
    assert ids[0] == "result"
    assert ids[-1] == "reproduce"
    assert "curves" in ids
    assert "a &lt;caption&gt;" in html


def test_the_sections_in_words(summary):
    html = words(page(summary, CONTEXT, []))
    for text in (
        "too few repeats to tell",
        "bo-fm is better",
        "no difference shown",
        "6 repeats can show one",
        "corrected by Holm for these 3, held against 5%",
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
        "2 paired repeats: the smallest p",
        "0.08010 to 0.08220",
        "20 (12 to never; late 3%)",
        "the same for whoever takes part",
    ):
        assert text in html, text


def test_the_ledger_shows_what_there_is(plain_summary):
    rows = [
        replace(run, wall_seconds=300.0, idle_seconds=nan, lost_seconds=0.0, pending=0) for run in plain_summary.ledger
    ]
    html = page(replace(plain_summary, ledger=tuple(rows)), CONTEXT, [])
    assert "<th>wall-clock</th>" in html
    assert "5.0 min" in html
    for absent in ("<th>lost</th>", "<th>pending</th>", "<th>idle</th>", "the platform's cost"):
        assert absent not in html
    for known in ("duplicates", "isomorphic_duplicates"):
        repeated = [replace(row, duplicates=0, isomorphic_duplicates=0) for row in rows]
        assert "A duplicate repeats" not in page(replace(plain_summary, ledger=tuple(repeated)), CONTEXT, [])
        repeated[0] = replace(repeated[0], **{known: 1})
        assert "A duplicate repeats" in page(replace(plain_summary, ledger=tuple(repeated)), CONTEXT, [])
    rows[0] = replace(rows[0], lost_seconds=3.0, pending=2, idle_seconds=1.0)
    html = page(replace(plain_summary, ledger=tuple(rows)), CONTEXT, [])
    for present in ("<th>lost</th>", "<th>pending</th>", "<th>idle</th>", "the platform's cost"):
        assert present in html


def figure(draw, summary):
    """What is drawn of a summary; None where nothing is."""
    return next((drawing.figure for drawing in draw(Results(None, None, summary))), None)


def test_figures_of_the_statistics(summary):
    (axes,) = figure(differences, summary).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm − random", "random − bo-fm"]  # the third has no numbers
    assert len(figure(final, summary).axes) == 1
    assert intervals(summary)["bo-fm"] == (0.07, 0.08)
    (axes,) = figure(retrained, summary).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm/repeat-0", "random/repeat-0"]


def test_without_an_interval_the_bar_is_a_standard_error(plain_summary):
    row = plain_summary.optimizers["random"]
    low, high = intervals(plain_summary)["random"]
    assert (low + high) / 2 == pytest.approx(row.mean)
    assert (high - low) / 2 == pytest.approx(row.standard_error)


def test_figures_without_data_are_left_out(plain_summary):
    assert figure(differences, plain_summary) is None
    assert figure(retrained, plain_summary) is None
    one = {name: replace(row, repeats=1) for name, row in plain_summary.optimizers.items()}
    assert figure(final, replace(plain_summary, optimizers=one)) is None


def test_of_many_retrained_the_means_are_drawn(summary):
    many = replace(summary.retrained, rows=summary.retrained.rows * MOST_ROWS)
    (axes,) = figure(retrained, replace(summary, retrained=many)).axes
    assert [text.get_text() for text in axes.texts] == ["bo-fm", "random"]


def test_every_section_with_its_figures(make_table, summary):
    runs = {
        (name, r): [{"objective": (7 * i + r) % 5 + 1.0, "x": i / 12, "k": i % 2} for i in range(12)]
        for name in ("bo-fm", "random")
        for r in range(3)
    }
    trials = typed_trials(make_table(runs), "a test")
    drawings = list(drawn(Results(trials, anytime_curves(trials, CONTEXT.budget), summary)))
    ours = {"anytime", "differences", "final", "importance", "parallel", "retrained", "timeline", "tradeoff"}
    filed = [each.name for each in drawings if each.filed]
    assert ours <= set(filed)
    assert len(filed) == len(set(filed)), "two figures would be one file"
    html = page(summary, CONTEXT, drawings)
    found = re.findall(r'aria-label="([^"]+)" viewBox', html)
    assert {"anytime evaluations", "anytime seconds", *filed} - {"anytime"} <= set(found)
    assert len(re.findall(r"<figcaption>", html)) == len(found)


def test_a_picture_stands_in_its_section_whichever_it_is(summary):
    """Whoever adds a figure need not touch the template."""
    noted = replace(summary, incidents=(Incident("random", "note", "odd", 1),))
    ids = {*(section.id for section in sections(noted, CONTEXT, [])), *(section for section, _ in FIGURES)}
    pictures = [picture(id_, optimizer="bo-fm" if id_ == "cells" else "") for id_ in ids]
    html = page(noted, CONTEXT, [*pictures, picture("lead", leads=True)])
    shown = dict(re.findall(r"<div class='body' id='(\w+)'>(.*?)</section>", html, flags=re.DOTALL))
    assert {id_ for id_, body in shown.items() if f'aria-label="{id_} picture"' in body} == ids
    assert 'aria-label="lead picture"' in shown["result"]


def test_what_was_measured_is_told_with_every_option(plain_summary):
    told = replace(
        CONTEXT, setup=["A cell is <trained>.", "Two begin alike."], settings={"bo-fm": {"kernel": "modlap"}}
    )
    remarked = replace(plain_summary, remarks=(Remark("bo-fm knows its budget", "bo-fm"),))
    html = words(page(remarked, told, []))
    for text in ("A cell is &lt;trained&gt;. Two begin alike.", "kernel modlap", "bo-fm knows its budget"):
        assert text in html


def test_the_question_names_few_and_counts_many(plain_summary):
    assert "within 3 evaluations of 25 epochs: bo-fm or random?" in page(plain_summary, CONTEXT, [])
    row = plain_summary.optimizers["random"]
    many = replace(plain_summary, optimizers={f"o{i}": row for i in range(7)})
    assert "within 3 evaluations of 25 epochs: 7 optimizers?" in page(many, CONTEXT, [])
    alone = replace(plain_summary, optimizers={"random": row})
    assert "What is found on func2c within 3 evaluations" in page(alone, CONTEXT, [])


def test_who_tests_many_pairs_is_told_how_to_test_fewer(plain_summary):
    values = {f"o{i}": {0: float(i), 1: float(i)} for i in range(7)}
    for names, hypotheses, told in ((6, "all", False), (7, "all", True), (7, "o0", False)):
        tests = compare(dict(list(values.items())[:names]), hypotheses)
        assert ("`hypotheses: NAME`" in words(page(replace(plain_summary, tests=tests), CONTEXT, []))) == told


def test_tests_that_can_tell_nothing_are_folded(summary):
    def folded(tests):
        return {s.id: s.folded for s in sections(replace(summary, tests=tests), CONTEXT, [])}

    mute = replace(summary.tests, pairs=summary.tests.pairs[:1])
    assert folded(mute)["statistics"]
    assert not folded(summary.tests)["statistics"]
    assert "statistics" not in folded(compare({"a": {0: 1.0}, "b": {0: 2.0}}))


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
    """Whatever a name, a note, a value or a caption holds: the page has the same tags, and says it literally."""

    def told(name, problem, headline, remark, incident, key, value, config, caption):
        changed = replace(
            summary,
            name=name,
            problem=problem,
            headline=headline,
            remarks=(Remark(remark, "bo-fm"),),
            incidents=(Incident("random", "note", incident, 1),),
        )
        context = replace(CONTEXT, environment={key: value}, config_text=config)
        return Markup(page(changed, context, [picture("curves", caption)]))

    plain, odd = told(*("text",) * len(texts)), told(*texts)
    assert odd.tags == plain.tags
    said = "".join(odd.texts)
    for text in texts:
        assert text in said


def test_short_texts():
    assert [share(value) for value in (None, nan, 0.0, 0.001, 0.25, 1.0)] == ["–", "–", "0%", "< 1%", "25%", "100%"]
    assert [count(value) for value in (None, nan, 3, 3.0, 2.25)] == ["–", "–", "3", "3", "2.2"]
    assert [duration(value) for value in (None, nan, 30.0)] == ["–", "–", "30 s"]
    assert [interval(*ends) for ends in ((None, 1.0), (1.0, nan), (1.0, 2.0))] == ["–", "–", "1.000 to 2.000"]
    assert [shown(value) for value in (None, nan, 0.123456, "a", [1])] == ["–", "–", "0.1235", "a", "[1]"]


def test_columns_without_a_value_are_dropped():
    table = Table(("a", "b", "c"), (("x", MISSING, ""), ("y", "", MISSING)), "wide")
    assert table.filled() == Table(("a",), (("x",), ("y",)), "wide")
    assert table.filled({"c"}) == Table(("a", "c"), (("x", ""), ("y", MISSING)), "wide")
    assert not Table(("a",), ((MISSING,),)).filled()


def test_a_share_of_the_budget_is_told_in_whole_epochs(plain_summary):
    """A quarter of 30 epochs is 7, which are 2.3 evaluations of 3 epochs; a half is 15, which are 5."""
    steps = (Checkpoint(0.25, 7, 7 / 3, ()), Checkpoint(0.5, 15, 5.0, ()))
    (section,) = (s for s in sections(replace(plain_summary, checkpoints=steps), CONTEXT, []) if s.id == "checkpoints")
    assert section.facts["spent"] == "25% are 2.3 evaluations (7 whole epochs), 50% are 5 evaluations"


def test_the_anytime_figures_have_a_legend_where_they_stand(summary):
    """Once with the figure that leads, once in the section that is folded."""
    html = page(summary, CONTEXT, [picture("curves"), picture("lead", leads=True)])
    folded = html[html.index("id='curves'") :].partition("</section>")[0]
    assert folded.count("class='legend'") == 1
    assert html.count("class='legend'") == 2


def test_differences_have_as_many_digits_as_objectives(summary):
    assert "-0.01000" in page(summary, CONTEXT, [])
