"""The report over several problems: which optimizer is better in general, and on which problems it is not.

| file | one row per |
|---|---|
| mean_ranks.csv | optimizer and number of evaluations: mean rank over problems, with its 95% interval |
| results.csv | problem and optimizer: mean objective, its standard error, mean rank, median normalised regret |
| overall_tests.csv | optimizer that the reference was tested against |

All numbers are at equal evaluations: those of the smallest budget, over the optimizers that every problem has.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.across_problems import (
    FEWEST_PROBLEMS,
    OverallTest,
    ProblemResults,
    compare_overall,
    mean_ranks,
    normalised_regret,
    problem_results,
    rank_optimizers,
)
from fmnas.comparison.analysis.curves import standard_error
from fmnas.comparison.analysis.float_ties import is_equal
from fmnas.comparison.analysis.formatting import format_number, format_with_error, join_names
from fmnas.comparison.analysis.paired_tests import FIRST, LEVEL, repeats_needed
from fmnas.comparison.analysis.trials import ReportError
from fmnas.comparison.figures import across_problems as figures
from fmnas.comparison.figures.canvas import Drawing, Results
from fmnas.comparison.figures.files import save_figure, write_bytes
from fmnas.comparison.page.page import render_problems_page
from fmnas.comparison.page.tables import Table

CAUTION = (
    "A problem is one observation: the intervals are over these problems, and hold for others only as far as these "
    "are a fair sample of them. Optimizers that were tuned on some of them have an advantage there."
)


@dataclass(frozen=True)
class ResultRow:
    """An optimizer on a problem after the last evaluation. mean, standard_error: of the objective, over repeats."""

    problem: str
    optimizer: str
    mean: float
    standard_error: float
    mean_rank: float
    median_regret: float
    repeats: int


@dataclass(frozen=True)
class RankRow:
    """An optimizer's mean rank over problems after the last evaluation, with its 95% interval; NaN without one."""

    optimizer: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class ExperimentRecord:
    """A run directory of the report. directory, page: relative to the report; page: "" if it has none.

    evaluations: its budget. version: of fmnas, with the commit. options: those that are not the defaults.
    """

    directory: str
    page: str
    problem: str
    repeats: int
    evaluations: int
    seed: int
    version: str
    options: str = ""


@dataclass(frozen=True)
class ProblemsSummary:
    """The result over several problems. ranks: of `mean_ranks`. results: a row per problem and optimizer.

    evaluations: at which all are compared. reference: the optimizer that is tested against the others.
    left_out: optimizers that some problem lacks. remarks: problem and text of each remark of its experiment.
    records: of the experiments.
    """

    problems: tuple[str, ...]
    optimizers: tuple[str, ...]
    evaluations: int
    reference: str
    tests: tuple[OverallTest, ...]
    ranks: pd.DataFrame
    results: tuple[ResultRow, ...]
    left_out: tuple[str, ...]
    remarks: tuple[tuple[str, str], ...] = ()
    records: tuple[ExperimentRecord, ...] = ()

    @property
    def final_ranks(self) -> list[RankRow]:
        """The ranks at the last evaluation, the best first."""
        at_end = self.ranks[self.ranks["evaluations"] == self.evaluations].sort_values("mean", kind="stable")
        columns = (at_end[name] for name in ("optimizer", "mean", "low", "high"))
        return [
            RankRow(str(name), float(m), float(low), float(high)) for name, m, low, high in zip(*columns, strict=True)
        ]

    @property
    def headline(self) -> str:
        """The best mean rank, and what the tests of the reference say."""
        best = self.final_ranks[0]
        leaders = [row.optimizer for row in self.final_ranks if is_equal(row.mean, best.mean)]
        lead = f"{join_names(leaders)} {'has' if len(leaders) == 1 else 'share'} the best mean rank"
        interval = f" ({best.low:.2f} to {best.high:.2f})" if isfinite(best.low) and len(leaders) == 1 else ""
        better = [test.other for test in self.tests if test.verdict == FIRST]
        worse = [test.other for test in self.tests if test.verdict and test.verdict != FIRST]
        shown = [f"better than {join_names(better)}"] * bool(better) + [f"worse than {join_names(worse)}"] * bool(worse)
        verdict = f"is {' and '.join(shown)} over all problems" if shown else "is not shown to differ from any other"
        return (
            f"{lead}, {best.mean:.2f}{interval} of {len(self.optimizers)}, over {len(self.problems)} problems at "
            f"{self.evaluations} evaluations. {self.reference} {verdict}."
        )

    @property
    def caution(self) -> str:
        """What the data can support, in sentences."""
        needed, problems, fewest = repeats_needed(len(self.tests)), len(self.problems), FEWEST_PROBLEMS
        few = list(dict.fromkeys(row.problem for row in self.results if row.repeats < needed))
        sentences = {
            CAUTION: True,
            f"With {problems} problems there is no critical-difference diagram: it needs {fewest}.": problems < fewest,
            f"To win on a problem takes {needed} repeats; with fewer it counts as a tie: {join_names(few)}.": few != [],
            f"Left out, because some problem lacks them: {', '.join(self.left_out)}.": bool(self.left_out),
        }
        return " ".join(sentence for sentence, holds in sentences.items() if holds)

    def to_json(self) -> dict[str, Any]:
        """The plain JSON data of summary.json."""
        return {
            "problems": list(self.problems),
            "evaluations": self.evaluations,
            "optimizers": {row.optimizer: _to_json(row) for row in self.final_ranks},
            "reference": self.reference,
            "tests": [{**asdict(test), "verdict": test.verdict} for test in self.tests],
            "left_out": list(self.left_out),
            "headline": self.headline,
            "caution": self.caution,
            "remarks": [list(remark) for remark in self.remarks],
            "experiments": [asdict(record) for record in self.records],
        }


def write_problems_report(
    experiments: Sequence[Results], reference: str, folder: Path, records: Sequence[ExperimentRecord] = ()
) -> ProblemsSummary:
    """Write index.html, its figures and tables; returns the summary.

    experiments: one for each problem. reference: the optimizer that is tested against the others. records: shown.
    Raises ReportError if fewer than two optimizers are common to all, if two problems have one name, or if a run has
    no whole evaluation; ReportNotWritten if the disk does not take it.
    """
    problems, left_out = _common_results(experiments)
    names = problems[0].optimizers
    reference = reference if reference in names else names[0]
    ranks, tests = mean_ranks(problems), tuple(compare_overall(problems, reference))
    labels, evaluations = tuple(problem.name for problem in problems), problems[0].incumbents.shape[2]
    results = tuple(row for problem in problems for row in _result_rows(problem))
    remarks = tuple(
        (experiment.summary.problem, remark.text)
        for experiment in experiments
        for remark in experiment.summary.remarks
        if remark.optimizer in ("", *names)
    )
    summary = ProblemsSummary(
        labels, names, evaluations, reference, tests, ranks, results, left_out, remarks, tuple(records)
    )
    lead = figures.rank_curves(ranks, len(problems))
    drawings = [lead, *figures.difference_diagram(ranks, len(problems)), figures.regret_distribution(problems)]
    overall = pd.DataFrame([{**asdict(test), "verdict": test.verdict} for test in tests])
    for name, table in {"mean_ranks": ranks, "results": pd.DataFrame(results), "overall_tests": overall}.items():
        write_bytes(folder / f"{name}.csv", table.to_csv(index=False, lineterminator="\n").encode())
    for drawing in drawings:
        save_figure(drawing.figure, folder, drawing.name)
    page = render_problems_page(_page_values(summary, drawings))
    write_bytes(folder / "index.html", page.encode(errors="backslashreplace"))
    return summary


def _common_results(experiments: Sequence[Results]) -> tuple[list[ProblemResults], tuple[str, ...]]:
    """The results of the common optimizers at equal evaluations, and the names of the other optimizers."""
    names = [list(experiment.summary.optimizers) for experiment in experiments]
    every = sorted({name for of_problem in names for name in of_problem})
    common = [name for name in every if all(name in of_problem for of_problem in names)]
    if len(common) < 2:
        has = "; ".join(
            f"{e.summary.problem} has {', '.join(of_problem)}" for e, of_problem in zip(experiments, names, strict=True)
        )
        raise ReportError(
            f"fewer than two optimizers are common to all problems: {has}. Run the same optimizers on each"
        )
    evaluations = min(experiment.summary.evaluations for experiment in experiments)
    if evaluations < 1:
        raise ReportError("an experiment has spent less than one evaluation on some run: continue it, or leave it out")
    shown = Counter(experiment.summary.problem for experiment in experiments)
    if repeated := [name for name, count in shown.items() if count > 1]:
        raise ReportError(f"several problems are called {', '.join(repeated)}: rename their functions or files")
    problems = [
        problem_results(experiment.summary.problem, experiment.curves, common, evaluations, experiment.summary.minimum)
        for experiment in experiments
    ]
    return problems, tuple(name for name in every if name not in common)


def _result_rows(problem: ProblemResults) -> Iterator[ResultRow]:
    finals = problem.incumbents[:, :, -1]  # [K, R]
    ranks, regrets = rank_optimizers(problem.incumbents)[:, -1], normalised_regret(problem)[:, :, -1]
    for i, name in enumerate(problem.optimizers):
        mean, error = float(finals[i].mean()), float(standard_error(finals[i]))
        yield ResultRow(problem.name, name, mean, error, float(ranks[i]), float(np.median(regrets[i])), len(finals[i]))


def _page_values(summary: ProblemsSummary, drawings: Sequence[Drawing]) -> dict[str, Any]:
    """What the template shows."""
    lead, *following = drawings
    regret = [drawing for drawing in following if drawing.name == "regret"]
    difference = [drawing for drawing in following if drawing.name != "regret"]
    hint = (
        f"{summary.reference} against each other optimizer. Wins, ties, losses: problems by their paired tests, p "
        "corrected over the optimizers, not over the problems: one in twenty may be by chance. Lower, equal, higher: "
        "pairs of a problem and a repeat. p: stratified sign-flip test over them, Holm-corrected over the optimizers, "
        f"level {LEVEL:.0%}."
    )
    sections = [
        ("ranks", "Mean rank", "", ranks_table(summary), [lead, *difference]),
        ("tests", "Overall tests", hint, tests_table(summary), []),
        ("problems", "Results by problem", "Mean objective and its standard error.", results_table(summary), []),
        ("regret", "Normalised regret", "", None, regret),
    ]
    if summary.remarks:
        remarks = Table(("problem", "remark"), summary.remarks, "text")
        sections.append(("remarks", "Remarks", "What the numbers do not show.", remarks, []))
    if summary.records:
        sections.append(("experiments", "Experiments", "", records_table(summary.records), []))
    return {
        "title": f"{len(summary.problems)} problems",
        "question": f"Which of {join_names(summary.optimizers, 'or')} is better on {join_names(summary.problems)}?",
        "headline": summary.headline,
        "caution": summary.caution,
        "sections": sections,
    }


def ranks_table(summary: ProblemsSummary) -> Table:
    """A row per optimizer, the best mean rank first."""
    rows = [
        (row.optimizer, f"{row.mean:.2f}", f"{row.low:.2f} to {row.high:.2f}" if isfinite(row.low) else "–")
        for row in summary.final_ranks
    ]
    return Table(("optimizer", "mean rank", "95% interval"), tuple(rows))


def tests_table(summary: ProblemsSummary) -> Table:
    """A row per optimizer that the reference was tested against."""
    words = {FIRST: f"{summary.reference} is better", "": "no difference shown"}
    rows = [
        (
            *(test.other, words.get(test.verdict, f"{test.other} is better")),
            *(f"{test.wins}, {test.ties}, {test.losses}", ", ".join(map(str, test.cells))),
            *(format_number(test.p, digits=2), format_number(test.p_corrected, digits=2)),
        )
        for test in summary.tests
    ]
    header = ("against", "verdict", "wins, ties, losses", "lower, equal, higher", "p", "p corrected")
    return Table(header, tuple(rows), "text")


def results_table(summary: ProblemsSummary) -> Table:
    """A row per problem, a column per optimizer."""
    cells = {(row.problem, row.optimizer): format_with_error(row.mean, row.standard_error) for row in summary.results}
    rows = [(problem, *(cells[problem, name] for name in summary.optimizers)) for problem in summary.problems]
    return Table(("problem", *summary.optimizers), tuple(rows))


def records_table(records: Sequence[ExperimentRecord]) -> Table:
    """A row per experiment; its directory links to its own page."""
    names = [field.name for field in fields(ExperimentRecord) if field.name != "page"]
    rows = tuple(tuple(str(getattr(record, name)) for name in names) for record in records)
    return Table(tuple(names), rows, "text", tuple(record.page for record in records)).without_empty_columns()


def _to_json(row: RankRow) -> dict[str, float | None]:
    values = {"mean": row.mean, "low": row.low, "high": row.high}
    return {key: value if isfinite(value) else None for key, value in values.items()}
