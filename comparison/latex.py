"""Tables for a paper: LaTeX with booktabs, the lowest mean in bold, and a mark where the paired test supports it."""

from collections.abc import Mapping, Sequence
from math import isfinite

from fmnas.comparison.analysis.formatting import format_with_error
from fmnas.comparison.analysis.paired_tests import FIRST, LEVEL, SECOND, Comparisons
from fmnas.comparison.problems_report import ProblemsSummary
from fmnas.comparison.summary import Summary

MARK = r"$^{\dagger}$"
_ESCAPES = {ord(char): f"\\{char}" for char in "&%$#_{}"} | {
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
    ord("\\"): r"\textbackslash{}",
}


def results_latex(summary: Summary) -> str:
    """The final table: a row per optimizer. MARK: worse than the one in bold by the paired test."""
    rows, means = summary.optimizers, {name: row.mean for name, row in summary.optimizers.items()}
    best = _lowest(means)
    worse = _worse_than(best, summary.tests)
    lines = [
        (
            escape(name),
            format_cell(row.mean, row.standard_error, name == best, name in worse),
            str(row.repeats),
            f"{row.evaluations:.0f}",
        )
        for name, row in rows.items()
    ]
    note = (
        f"% {summary.problem}: mean objective and its standard error, lower is better. Bold: the lowest mean. Dagger: "
        f"worse than it by Wilcoxon's signed-rank test over the repeats, Holm-corrected, at {LEVEL:g}."
    )
    return format_table(("optimizer", "objective", "repeats", "evaluations"), lines, note)


def problems_latex(summary: ProblemsSummary) -> str:
    """A row per problem, a column per optimizer, and a last row of mean ranks."""
    cells = {(row.problem, row.optimizer): (row.mean, row.standard_error) for row in summary.results}
    lines = []
    for problem in summary.problems:
        best = _lowest({name: cells[problem, name][0] for name in summary.optimizers})
        row = (format_cell(*cells[problem, name], name == best) for name in summary.optimizers)
        lines.append((escape(problem), *row))
    ranks = {row.optimizer: row.mean for row in summary.final_ranks}
    worse = {test.other for test in summary.tests if test.verdict == FIRST}
    last = (f"{ranks[name]:.2f}{MARK if name in worse else ''}" for name in summary.optimizers)
    note = (
        f"% Mean objective and its standard error after {summary.evaluations} evaluations, lower is better. Bold: the "
        f"lowest mean of a problem. Last row: mean rank. Dagger: worse than {summary.reference} over all problems by a "
        f"stratified sign-flip test, Holm-corrected, at {LEVEL:g}."
    )
    table = format_table(("problem", *map(escape, summary.optimizers)), lines, note)
    return table.replace("\\bottomrule", f"\\midrule\n{_format_row(('mean rank', *last))}\n\\bottomrule")


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    """A tabular of cells that are LaTeX already, below a comment with its caption."""
    body = [_format_row(header), r"\midrule", *map(_format_row, rows)]
    begin = rf"\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}"
    return "\n".join([note, begin, r"\toprule", *body, r"\bottomrule", r"\end{tabular}", ""])


def format_cell(mean: float, error: float, is_best: bool, is_marked: bool = False) -> str:
    """A mean with its standard error, in bold if it is the best one."""
    if not isfinite(mean):
        return "--"
    text = format_with_error(mean, error).replace("±", r"\pm")
    return (rf"$\mathbf{{{text}}}$" if is_best else f"${text}$") + MARK * is_marked


def escape(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return text.translate(_ESCAPES)


def _format_row(cells: Sequence[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _lowest(means: Mapping[str, float]) -> str:
    known = {name: mean for name, mean in means.items() if isfinite(mean)}
    return min(known, key=lambda name: known[name], default="")


def _worse_than(best: str, tests: Comparisons) -> set[str]:
    """The optimizers that a paired test found worse than the best."""
    firsts = {pair.second for pair in tests.pairs if pair.first == best and pair.verdict == FIRST}
    return firsts | {pair.first for pair in tests.pairs if pair.second == best and pair.verdict == SECOND}
