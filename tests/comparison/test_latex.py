"""LaTeX tables: booktabs, bold and marks where they belong, text escaped, and a structure that LaTeX can read."""

import re
from collections.abc import Callable
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison.analysis.across_problems import OverallTest
from fmnas.comparison.analysis.trials import Budget
from fmnas.comparison.latex import BETTER, WORSE, escape, format_cell, format_table, problems_latex, results_latex
from fmnas.comparison.problems_report import ProblemsSummary, ResultRow
from fmnas.comparison.report import compute_results
from fmnas.comparison.summary import ReportContext, Summary

Table = Callable[..., pd.DataFrame]


def lines_of(table: str) -> dict[str, str]:
    """First cell -> row, of the rows of a tabular."""
    return {line.split(" & ")[0]: line for line in table.splitlines() if " & " in line}


def caption_of(table: str) -> str:
    (line,) = (line for line in table.splitlines() if line.startswith(r"\caption{"))
    return line


def check_structure(table: str) -> None:
    """Fail unless environments nest, braces and dollars pair, every row has the columns of its tabular, and no other
    special character is bare.
    """
    opened: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", table):
        if kind == "begin":
            opened.append(name)
        else:
            assert opened.pop() == name
    assert not opened
    assert (r"\begin{adjustbox}" in table) == ("adjustbox" in table.splitlines()[0])  # its packages are named
    columns = len(re.search(r"\\begin\{tabular\}\{(\w+)\}", table)[1])
    text = re.sub(r"\\[&%$#_{}]", "", re.sub(r"^%.*\n", "", table))  # neither comments nor escaped characters
    for line in text.splitlines():
        depth = 0
        for char in line:
            depth += (char == "{") - (char == "}")
            assert depth >= 0
        assert depth == 0
        assert line.count("$") % 2 == 0
        outside = "".join(line.split("$")[::2])
        assert not set(outside) & {"^", "_", "#", "%", "<", ">", "|"}
        if line.endswith(r"\\"):
            assert line.count("&") == columns - 1
        else:
            assert "&" not in line


def test_the_table_of_the_documents_has_this_structure() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "paper.md").read_text()
    (table,) = re.findall(r"```latex\n(%.*?)```", page, flags=re.DOTALL)
    check_structure(table)
    assert lines_of(table).keys() == {"optimizer", "bo-fm", "regularized-evolution", "bohb", "random"}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("re_gularized", r"re\_gularized"), ("50%", r"50\%"), ("a^b~c", r"a\textasciicircum{}b\textasciitilde{}c")],
)
def test_special_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape(text) == escaped


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_any_name_leaves_a_structure_that_latex_reads(name: str) -> None:
    row = rf"{escape(name)} & $1$ \\"
    check_structure(format_table("\\begin{tabular}{lr}\n" + row + "\n\\end{tabular}", escape(name), name))


def test_cells_are_rounded_to_their_error() -> None:
    assert format_cell(0.06850, 0.00038, False) == r"$0.06850 \pm 0.00038$"
    assert format_cell(0.06850, 0.00038, True, WORSE) == rf"$\mathbf{{0.06850 \pm 0.00038}}{WORSE}$"
    assert format_cell(2.5e7, 1.0e5, False) == r"$2.500\cdot 10^{7} \pm 1.0\cdot 10^{5}$"
    assert format_cell(1.5, 2e-12, False) == r"$1.500\cdot 10^{0} \pm 2.0\cdot 10^{-12}$"
    assert format_cell(nan, nan, False) == "--"


@pytest.fixture
def summarise(make_table: Table) -> Callable[..., Summary]:
    """summarise(shift of b, shift of c, hypotheses): of nine repeats, a_1 against optimizers that are shifted."""

    def summarise(b: float, c: float, **context: str) -> Summary:
        shifts = {"a_1": 0.0, "b": b, "c": c}
        trials = make_table({(name, r): [r + 1.0 + shift] for name, shift in shifts.items() for r in range(9)})
        known = ReportContext("a name", "problem_1", Budget(1, 25), {}, "", finished=True)
        return compute_results(trials, replace(known, **context)).summary

    return summarise


def test_the_optimizers_that_are_worse_than_the_best_are_marked(summarise: Callable[..., Summary]) -> None:
    table = results_latex(summarise(1.0, 0.0))
    check_structure(table)
    lines = lines_of(table)
    assert "mathbf" in lines[r"a\_1"]
    assert [WORSE in lines[name] for name in (r"a\_1", "b", "c")] == [False, True, False]
    assert BETTER not in table
    assert WORSE in caption_of(table)
    assert r"worse than a\_1" in caption_of(table)
    assert r"\label{tab:a-name}" in table
    assert table.count(r"\toprule") == table.count(r"\bottomrule") == table.count(r"\midrule") == 1


def test_marks_are_about_the_optimizer_of_the_hypotheses(summarise: Callable[..., Summary]) -> None:
    table = results_latex(summarise(1.0, -1.0, hypotheses="a_1"))
    check_structure(table)
    lines = lines_of(table)
    assert "mathbf" in lines["c"]
    assert WORSE in lines["b"]
    assert BETTER in lines["c"]
    assert not {WORSE, BETTER} & {*re.findall(r"\^\{\\\w+\}", lines[r"a\_1"])}
    assert WORSE in caption_of(table)
    assert BETTER in caption_of(table)


def test_all_that_share_the_lowest_mean_are_bold(summarise: Callable[..., Summary]) -> None:
    lines = lines_of(results_latex(summarise(1.0, 0.0)))
    assert ["mathbf" in lines[name] for name in (r"a\_1", "b", "c")] == [True, False, True]


def test_no_test_has_no_mark_and_no_word_of_one(summarise: Callable[..., Summary], make_table: Table) -> None:
    assert "None" in caption_of(results_latex(summarise(0.0, 0.0)))
    one = compute_results(
        make_table({("a", 0): [1.0], ("b", 0): [2.0]}), ReportContext("n", "p", Budget(1, 25), {}, "", finished=True)
    )
    table = results_latex(one.summary)
    check_structure(table)
    assert "Wilcoxon" not in table
    assert WORSE not in table


def test_without_a_lowest_mean_the_caption_names_no_optimizer(make_table: Table) -> None:
    trials = make_table({(name, repeat): [1.0 + repeat] for name in ("a", "b") for repeat in range(4)})
    without = trials["repeat"] == (trials["optimizer"] == "a")  # a has no result in repeat 1, b none in repeat 0
    trials.loc[without, ["status", "objective"]] = "failed", None
    summary = compute_results(trials, ReportContext("n", "p", Budget(1, 25), {}, "", finished=True)).summary
    assert summary.tests.most_repeats > 1
    table = results_latex(summary)
    check_structure(table)
    assert "differ" not in caption_of(table)


@pytest.mark.parametrize(("of_b", "bold"), [(1.0 + 1e-15, 2), (1.1, 1)])
def test_all_that_share_the_lowest_mean_of_a_problem_are_bold(of_b: float, bold: int) -> None:
    results = tuple(ResultRow("p", name, mean, 0.1, 1.0, 0.0, 3) for name, mean in (("a", 1.0), ("b", of_b)))
    ranks = pd.DataFrame({"evaluations": 5, "optimizer": ["a", "b"], "mean": [1.5, 1.5], "low": nan, "high": nan})
    table = problems_latex(ProblemsSummary(("p",), ("a", "b"), 5, "a", (), ranks, results, ()))
    assert lines_of(table)["p"].count("mathbf") == bold


def test_the_problems_have_a_row_each_and_one_of_mean_ranks() -> None:
    means = {("p", "a"): 1.0, ("p", "b"): 2.0, ("q_1", "a"): 4.0, ("q_1", "b"): 3.0}
    results = tuple(ResultRow(*key, mean, 0.1, 1.0, 0.0, 3) for key, mean in means.items())
    ranks = pd.DataFrame({"evaluations": 5, "optimizer": ["a", "b"], "mean": [1.25, 1.75], "low": nan, "high": nan})
    test = OverallTest("b", 1, 1, 0, (9, 0, 0), -1.0, 0.01, 0.01)
    for tests, mark in (((test,), WORSE), ((replace(test, effect=1.0),), BETTER), ((), "")):
        table = problems_latex(ProblemsSummary(("p", "q_1"), ("a", "b"), 5, "a", tests, ranks, results, ()))
        check_structure(table)
        lines = lines_of(table)
        assert list(lines) == ["problem", "p", r"q\_1", "mean rank"]
        assert lines["p"].index("mathbf") < lines["p"].index("2.00")
        assert lines[r"q\_1"].index("4.00") < lines[r"q\_1"].index("mathbf")
        assert lines["mean rank"] == rf"mean rank & $1.25$ & $1.75{mark}$ \\"
        assert mark in caption_of(table)
