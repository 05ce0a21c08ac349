"""Tables for a paper: LaTeX with booktabs, the lowest mean in bold, and marks where the paired test supports them.

A table is tested against one optimizer: that of the hypotheses, chosen before the results, else the one with the lowest
mean. The caption says which, by which test, and what the marks mean.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from math import isfinite, nan

from fmnas.comparison.analysis.float_ties import is_equal
from fmnas.comparison.analysis.formatting import format_with_error
from fmnas.comparison.analysis.paired_tests import ALL, FIRST, LEVEL, SECOND, Comparisons
from fmnas.comparison.problems_report import ProblemsSummary
from fmnas.comparison.summary import Summary

WORSE, BETTER = r"^{\dagger}", r"^{\ddagger}"
"""Marks in math mode of an optimizer that is worse, or better, than the one that the table is tested against."""
_ESCAPES = {ord(char): f"\\{char}" for char in "&%$#_{}"} | {
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
    ord("\\"): r"\textbackslash{}",
    ord("|"): r"\textbar{}",
    ord("<"): r"\textless{}",
    ord(">"): r"\textgreater{}",
}


def results_latex(summary: Summary) -> str:
    """The final table of an experiment: a row per optimizer."""
    rows, tests = summary.optimizers, summary.tests
    best = _lowest({name: row.mean for name, row in rows.items()})
    reference = "".join(best[:1]) if tests.hypotheses == ALL else tests.hypotheses
    marks = find_marks(reference, tests)
    lines = [
        (
            escape(name),
            format_cell(row.mean, row.standard_error, name in best, marks.get(name, "")),
            str(row.repeats),
            f"{row.evaluations:.0f}",
        )
        for name, row in rows.items()
    ]
    pairs = f"Holm-corrected over {len(tests.pairs)} pairs" if len(tests.pairs) > 1 else "one pair"
    caption = (
        f"{escape(summary.problem)}: mean objective and its standard error over repeats, after {summary.evaluations} "
        f"evaluations; lower is better. Bold: the lowest mean. "
        + describe_marks(reference, marks.values(), f"Wilcoxon's signed-rank test over repeats, {pairs}")
        * (tests.most_repeats > 1)
    )
    table = format_tabular(("optimizer", "objective", "repeats", "evaluations"), lines)
    return format_table(table, caption, summary.name)


def problems_latex(summary: ProblemsSummary) -> str:
    """A row per problem, a column per optimizer, and a last row of mean ranks."""
    cells = {(row.problem, row.optimizer): (row.mean, row.standard_error) for row in summary.results}
    lines = []
    for problem in summary.problems:
        best = _lowest({name: cells[problem, name][0] for name in summary.optimizers})
        row = (format_cell(*cells[problem, name], name in best) for name in summary.optimizers)
        lines.append((escape(problem), *row))
    ranks = {row.optimizer: row.mean for row in summary.final_ranks}
    marks = {test.other: WORSE if test.verdict == FIRST else BETTER for test in summary.tests if test.verdict}
    last = (f"${ranks[name]:.2f}{marks.get(name, '')}$" for name in summary.optimizers)
    caption = (
        f"Mean objective and its standard error over repeats, after {summary.evaluations} evaluations; lower is "
        "better. Bold: the lowest mean of a problem. Last row: mean rank over the problems. "
        + describe_marks(
            summary.reference, marks.values(), "a stratified sign-flip test over all problems, Holm-corrected"
        )
    )
    table = format_tabular(("problem", *map(escape, summary.optimizers)), lines, ("mean rank", *last))
    fitted = f"\\begin{{adjustbox}}{{max width=\\linewidth}}\n{table}\n\\end{{adjustbox}}"
    return format_table(fitted, caption, "-".join(summary.problems), "adjustbox,booktabs")


def find_marks(reference: str, tests: Comparisons) -> dict[str, str]:
    """Optimizer -> its mark, of those that the corrected test finds better or worse than the reference."""
    verdicts = {pair.second: pair.verdict for pair in tests.pairs if pair.first == reference}
    turned = {FIRST: SECOND, SECOND: FIRST}
    verdicts |= {pair.first: turned.get(pair.verdict, "") for pair in tests.pairs if pair.second == reference}
    marks = {FIRST: WORSE, SECOND: BETTER}
    return {name: marks[verdict] for name, verdict in verdicts.items() if verdict in marks}


def describe_marks(reference: str, marks: Collection[str], test: str) -> str:
    """A sentence on the marks of a table: without any, that no difference is shown; "" without a reference."""
    name, by = escape(reference), f"by {test}, at level {LEVEL:g}"
    words = [f"${mark}$: {word} than {name}" for mark, word in ((WORSE, "worse"), (BETTER, "better")) if mark in marks]
    return f"{'; '.join(words)}, {by}." if words else f"None is shown to differ from {name} {by}." * bool(name)


def format_table(tabular: str, caption: str, name: str, packages: str = "booktabs") -> str:
    """A floating table of a tabular, with caption and label, below a comment that names the packages it needs."""
    label = re.sub(r"[^A-Za-z0-9.-]+", "-", name)
    lines = (r"\begin{table}", r"\centering", f"\\caption{{{caption.rstrip()}}}", f"\\label{{tab:{label}}}", tabular)
    return "\n".join((f"% In the preamble: \\usepackage{{{packages}}}", *lines, r"\end{table}", ""))


def format_tabular(header: Sequence[str], rows: Sequence[Sequence[str]], last: Sequence[str] = ()) -> str:
    """A tabular of cells that are LaTeX already. last: a row below a line."""
    body = [_format_row(header), r"\midrule", *map(_format_row, rows)]
    body += [r"\midrule", _format_row(last)] if last else []
    begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    return "\n".join([begin, r"\toprule", *body, r"\bottomrule", r"\end{tabular}"])


def format_cell(mean: float, error: float, is_best: bool, mark: str = "") -> str:
    """A mean with its standard error, in bold if it is the best one."""
    if not isfinite(mean):
        return "--"
    text = format_with_error(mean, error).replace("±", r"\pm")
    text = re.sub(r"e([+-])0*(\d+)", lambda power: rf"\cdot 10^{{{power[1].strip('+')}{power[2]}}}", text)
    body = rf"\mathbf{{{text}}}" if is_best else text
    return f"${body}{mark}$"


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(_ESCAPES)


def _format_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _lowest(means: Mapping[str, float]) -> list[str]:
    """The optimizers that share the lowest mean; none without a mean."""
    lowest = min(filter(isfinite, means.values()), default=nan)
    return [name for name, mean in means.items() if is_equal(mean, lowest)]
