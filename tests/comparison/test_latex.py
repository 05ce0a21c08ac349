"""LaTeX tables: booktabs, bold and daggers where they belong, text escaped."""

from collections.abc import Callable
from math import nan

import pandas as pd
import pytest

from fmnas.comparison.analysis.across_problems import OverallTest
from fmnas.comparison.analysis.trials import Budget
from fmnas.comparison.latex import MARK, escape, format_cell, problems_latex, results_latex
from fmnas.comparison.problems_report import ProblemsSummary, ResultRow
from fmnas.comparison.report import compute_results
from fmnas.comparison.summary import ReportContext


def lines_of(table: str) -> dict[str, str]:
    """First cell -> row, of the rows of a tabular."""
    return {line.split(" & ")[0]: line for line in table.splitlines() if " & " in line}


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("re_gularized", r"re\_gularized"), ("50%", r"50\%"), ("a^b~c", r"a\textasciicircum{}b\textasciitilde{}c")],
)
def test_special_characters_are_escaped(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_cells_are_rounded_to_their_error() -> None:
    assert format_cell(0.06850, 0.00038, False) == r"$0.06850 \pm 0.00038$"
    assert format_cell(0.06850, 0.00038, True, True) == rf"$\mathbf{{0.06850 \pm 0.00038}}${MARK}"
    assert format_cell(nan, nan, False) == "--"


def test_the_results_of_an_experiment_mark_what_the_test_supports(make_table: Callable[..., pd.DataFrame]) -> None:
    trials = make_table({(name, r): [r + 1.0 + shift] for name, shift in (("a_1", 0.0), ("b", 1.0)) for r in range(9)})
    context = ReportContext("name", "problem", Budget(1, 25), {}, "", finished=True)
    table = results_latex(compute_results(trials, context).summary)
    found = lines_of(table)
    assert "mathbf" in found[r"a\_1"]
    assert MARK not in found[r"a\_1"]
    assert MARK in found["b"]
    assert table.count(r"\toprule") == table.count(r"\bottomrule") == table.count(r"\midrule") == 1


def test_the_problems_have_a_row_each_and_one_of_mean_ranks() -> None:
    means = {("p", "a"): 1.0, ("p", "b"): 2.0, ("q_1", "a"): 4.0, ("q_1", "b"): 3.0}
    results = tuple(ResultRow(*key, mean, 0.1, 1.0, 0.0, 3) for key, mean in means.items())
    ranks = pd.DataFrame({"evaluations": 5, "optimizer": ["a", "b"], "mean": [1.25, 1.75], "low": nan, "high": nan})
    test = OverallTest("b", 1, 1, 0, (9, 0, 0), -1.0, 0.01, 0.01)
    found = lines_of(problems_latex(ProblemsSummary(("p", "q_1"), ("a", "b"), 5, "a", (test,), ranks, results, ())))
    assert list(found) == ["problem", "p", r"q\_1", "mean rank"]
    assert found["p"].index("mathbf") < found["p"].index("2.00")
    assert found[r"q\_1"].index("4.00") < found[r"q\_1"].index("mathbf")
    assert found["mean rank"] == rf"mean rank & 1.25 & 1.75{MARK} \\"
