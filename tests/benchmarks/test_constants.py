"""The constants of BO-FM's default: what docs/bo-fm-measurements.md says of their sweeps, and of fewer of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import suite
from model_quality import lines_of_table, read_rows
from scipy.stats import binomtest

from fmnas.comparison.analysis.across_problems import ProblemResults, compare_overall

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "suite"
MEASUREMENTS = (ROOT / "docs" / "bo-fm-measurements.md").read_text()


def counts_of_the_constants(names: Sequence[str], arm: str) -> list[str]:
    """The default lower, equal, higher than an arm, and p, at each checkpoint."""
    runs = [run for name in names for run in suite.read_runs(RESULTS / f"{name}.csv") if run.method in ("default", arm)]
    results, cells = suite.problems_in(runs), []
    for e in range(results[0].incumbents.shape[2]):
        until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
        (test,) = compare_overall(until, "default")
        cells.append(f"{', '.join(map(str, test.cells))} ({float(f'{test.p:.2g}'):g})")
    return cells


@pytest.mark.parametrize(
    "arm",
    [
        *(
            "theta=0.25",
            "theta=1",
            "beta=0.25",
            "beta=1",
            "noise=0.0001",
            "noise=0.01",
            "deviation=0.75",
            "deviation=3",
        ),
        "correlation=0.8",
    ],
)
def test_the_page_has_the_sweep_of_each_constant(arm: str) -> None:
    assert f"{arm.split('=')[1]}: {counts_of_the_constants(['design_constants'], arm)[-1]}" in MEASUREMENTS


@pytest.mark.parametrize(
    ("value", "arm"),
    [
        *(("0.25", "theta=0.25,beta=0.25"), ("1", "theta=1,beta=1"), ("0.5", "normal=0.5"), ("2", "normal=2")),
        *(("0.75", "deviation=1:0.75:2.5"), ("3", "deviation=1:3:2.5")),
        *(("1", "deviation=1:1.5:1"), ("5", "deviation=1:1.5:5")),
    ],
)
def test_the_page_has_the_sweep_of_each_group(value: str, arm: str) -> None:
    assert f"*{value}: {counts_of_the_constants(['design_eight'], arm)[-1]}*" in MEASUREMENTS


@pytest.mark.parametrize("name", ["design_deviation", "design_deviation_noise_10", "validation_deviation"])
def test_the_page_has_the_counts_of_one_deviation(name: str) -> None:
    assert f"pairs | {' | '.join(counts_of_the_constants([name], 'warpings=18,deviation=1'))} | – |" in MEASUREMENTS


LIMITS = {"func2c": -0.2, "func3c": -0.7, "ackley5c": 0.1}
"""A lower value is at the optimum."""


def count_at_optima(
    results: Sequence[ProblemResults], first: str, second: str
) -> tuple[tuple[list[int], list[int]], tuple[int, int]]:
    """For two arms, the runs at the optimum of each function, and those in which this arm alone is."""
    at_optimum = {problem.name: problem.incumbents[:, :, -1] < LIMITS[problem.name] for problem in results}
    k, j = (results[0].optimizers.index(name) for name in (first, second))
    of_first, of_second = ([int(at_optimum[name][i].sum()) for name in LIMITS] for i in (k, j))
    alone, other = (
        sum(int((at_optimum[name][a] & ~at_optimum[name][b]).sum()) for name in LIMITS) for a, b in ((k, j), (j, k))
    )
    return (of_first, of_second), (alone, other)


def test_the_page_has_the_counts_of_fewer_bends_and_starts() -> None:
    arm = "warpings=6,starts=plain"
    assert f"| 70 pairs | {' | '.join(counts_of_the_constants(['design_six_warpings'], arm))} |" in MEASUREMENTS
    names = ("design_six_warpings", "design_six_warpings_functions")
    runs = [run for name in names for run in suite.read_runs(RESULTS / f"{name}.csv") if run.problem in LIMITS]
    counts, alone = count_at_optima(suite.problems_in(runs), "default", arm)
    text = " ".join(MEASUREMENTS.split())
    kept, left_out = ("{}, {} and {}".format(*count) for count in counts)
    assert f"it is at the optimum in {kept}, the other in {left_out}" in text
    p = binomtest(alone[0], sum(alone)).pvalue
    assert (
        f"p = {p:.2f}, sign test over the {sum(alone)} runs in which one of the two alone is, the default in {alone[0]}"
        in text
    )
    design = suite.problems_in(suite.read_runs(RESULTS / "design_six_warpings.csv"))
    unused = count_pairs([problem for problem in design if problem.name not in LIMITS], 4)
    assert f"at 100 in {unused.replace(' (', ' (p = ')}" in text


def count_pairs(results: Sequence[ProblemResults], checkpoint: int) -> str:
    """The earlier default lower, equal, higher at a checkpoint, and p."""
    at = [replace(problem, incumbents=problem.incumbents[:, :, [checkpoint]]) for problem in results]
    (test,) = compare_overall(at, "default")
    return f"{', '.join(map(str, test.cells))} ({float(f'{test.p:.2g}'):g})"


def test_the_page_has_the_counts_of_what_was_run_again() -> None:
    first = {run.seed for run in suite.read_runs(RESULTS / "other_optimizers.csv")}
    fresh, seen, late, papers = (
        suite.read_runs(RESULTS / f"{name}.csv")
        for name in (
            "validation_deviation",
            "validation_deviation_seen",
            "validation_deviation_200",
            "papers_deviation",
        )
    )
    rows = {
        "seeds of `other_optimizers.csv`": [run for run in seen if run.seed in first],
        "seeds of `more_seeds.csv`": [run for run in seen if run.seed not in first],
    }
    for label, name in (
        ("with 4 workers", "workers_4"),
        ("with 16 workers", "workers_16"),
        ("with noise of 1%", "noise_1"),
        ("with noise of 10%", "noise_10"),
    ):
        rows[label] = suite.read_runs(RESULTS / f"validation_deviation_{name}.csv")
    at_100 = []
    for label, runs in rows.items():
        results = suite.problems_in(runs)
        assert f"| {label} | {' | '.join(count_pairs(results, e) for e in range(5))} | – |" in MEASUREMENTS
        at_100 += [replace(p, name=f"{p.name} {label}", incumbents=p.incumbents[:, :, 4:5]) for p in results]
    of_late, of_papers = suite.problems_in(late), suite.problems_in(papers)
    counts = " | ".join(count_pairs(of_papers, e) for e in range(6))
    n = len(of_papers)
    assert f"| {n} of the papers' problems, {5 * n} pairs | {counts} |" in MEASUREMENTS
    assert f"– | {count_pairs(of_late, 5)} |" in MEASUREMENTS
    at_100 += [replace(p, name=f"{p.name} papers", incumbents=p.incumbents[:, :, 4:5]) for p in of_papers]
    assert f"| {count_pairs(at_100, 0)} | {count_pairs([*of_late, *of_papers], 5)} |" in MEASUREMENTS
    of_fresh = [replace(p, incumbents=p.incumbents[:, :, 4:5]) for p in suite.problems_in(fresh)]
    assert f"| {count_pairs([*at_100, *of_fresh], 0)} | – |" in MEASUREMENTS
    both = suite.problems_in([*fresh, *seen])
    counts, p = count_pairs(both, 2).split(" (")
    lower, _, higher = counts.split(", ")
    assert f"it is lower at 50 in {lower}, higher in {higher} (p = {float(p[:-1]):.3f}," in " ".join(
        MEASUREMENTS.split()
    )


def test_the_page_has_the_counts_at_the_optima_of_the_functions() -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / "functions_deviation.csv"))
    (before, one), alone = count_at_optima(results, "default", "warpings=18,deviation=1")
    text = " ".join(MEASUREMENTS.split())
    for a, b, c in (one, before):
        assert f"{a}, {b} and {c}" in text
    ours, total = alone[0], sum(alone)
    p = binomtest(ours, total).pvalue
    assert f"of the {total} repeats in which one of the two alone is, it is the earlier default in {ours}" in text
    (test,) = compare_overall(results, "default")
    assert f"(p = {p:.3f}, sign test; by the lowest value alone, it is lower in {test.cells[0]} pairs," in text


def test_the_page_has_the_counts_without_large_bends() -> None:
    chosen = counts_of_the_constants(["design_constants"], "warpings=18")[-1]
    validation = counts_of_the_constants(["validation_deviation", "validation_bends"], "warpings=18")[-1]
    lower, equal, higher = map(int, validation.split(" (")[0].split(", "))
    total, text = lower + equal + higher, " ".join(MEASUREMENTS.split())
    assert lower == higher == 1
    assert f"{equal} of {total} runs end the same without them, one lower, one higher" in text
    counts = list(map(int, chosen.split(" (")[0].split(", ")))
    assert f"[{equal + counts[1]} of {total + sum(counts)} runs]" in text


def test_the_page_has_the_log_losses_of_one_deviation() -> None:
    lines = lines_of_table(read_rows(RESULTS / "design_model_quality_constants.csv"), "default")
    rows = {cells[1].strip(): cells for cells in (line.split("|") for line in lines) if len(cells) > 4}
    text, (lower, higher) = " ".join(MEASUREMENTS.split()), rows["deviation=1"][4].strip().split(":")
    ours, before = (f"{float(rows[arm][3]):.3f}" for arm in ("deviation=1", "default"))
    assert f"log loss of {ours}, the earlier default, with bends up to 2, one of {before}" in text
    assert f"(lower on {lower} of 126 sets, higher on {higher}: `python benchmarks/model_quality.py table" in text


@pytest.mark.parametrize("part", ["fit", "search"])
def test_the_page_has_the_counts_with_half_and_double_effort(part: str) -> None:
    half, double = (counts_of_the_constants(["design_constants"], f"{part}={much}")[-1] for much in ("half", "double"))
    assert f"| {half} | {double} |" in MEASUREMENTS


def test_the_page_has_the_counts_of_fewer_constants() -> None:
    arms = ("deviation=1.5", "warpings=8", "warpings=flat")
    text = " ".join(MEASUREMENTS.split())
    assert all(counts_of_the_constants(["design_constants"], arm)[-1] in text for arm in arms)
    four, more = "validation_constants", "validation_constants_again"
    seen = "validation_constants_seen"
    for label, names in (("12 fresh seeds", [four, more]), ("8 others", [seen]), ("all 20", [four, more, seen])):
        cells = counts_of_the_constants(names, "deviation=1.5,warpings=8flat")
        assert f"| {label} | {' | '.join(cells)} |" in MEASUREMENTS
    papers = counts_of_the_constants(["papers_constants"], "deviation=1.5,warpings=8flat")[4]
    everything = counts_of_the_constants([four, more, seen, "papers_constants"], "deviation=1.5,warpings=8flat")[4]
    assert papers.replace(" (", " (p = ")[:-1] in text
    lower, _, higher = everything.split(" (")[0].split(", ")
    assert f"lower in {lower} of these 400 pairs, higher in {higher} (p = {everything.split('(')[1][:-1]};" in text
