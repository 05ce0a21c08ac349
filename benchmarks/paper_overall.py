"""All optimizers over all problems: a table and two figures of docs/results.md. See paper_tables.py.

After 100 evaluations, which all have; the tables of each problem have what follows.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import numpy as np
from paper_kernels import EVALUATIONS, format_p, round_digits
from paper_tables import Taken

from fmnas.comparison.analysis.across_problems import ProblemResults, compare_overall, critical_difference, mean_ranks
from fmnas.comparison.analysis.formatting import MISSING
from fmnas.comparison.figures.across_problems import difference_diagram, rank_curves

REFERENCE = "bo-fm"
CHOSEN_ON = (
    *("func2c", "func3c", "ackley5c", "ackley53c", "ackley53c_gebo", "contamination", "labs", "nusvr_diabetes"),
    *("pressure_vessel", "pressure_vessel_constrained", "environmental_model", "environmental_model_correct"),
)
"""Problems on which something of bo-fm's default was chosen (suite.py's DESIGN), and variants of these."""
DECIDED_ON = ("dt_wine", "maxsat", "pest_control", "speed_reducer_constrained", "mivabo_gaussian_at_most_2")
"""Others, on which it was decided, with other seeds, which parts of the default stay (suite.py's VALIDATION)."""
WIDTH = 120
PICTURES = ("mean_ranks", "critical_difference")


def overall_table(all_taken: Sequence[Taken]) -> str:
    """Return the table, and what it leaves out: ranks and tests over all problems, then over those not in CHOSEN_ON.

    Empty without problems for both.
    """
    problems = [replace(problem, incumbents=problem.incumbents[:, :, -1:]) for problem in problem_results_of(all_taken)]
    unused = [problem for problem in problems if problem.name not in CHOSEN_ON]
    if not unused:
        return ""
    columns = [_columns(some) for some in (problems, unused)]
    than = f"lower, equal, higher than {REFERENCE}"
    lines = [
        f"| optimizer | rank on {len(problems)} problems | {than} | p | rank on {len(unused)} of them | {than} | p |",
        "|---" * 7 + "|",
        *(f"| {name} | {' | '.join(of[name] for of in columns)} |" for name in columns[0]),
    ]
    left_out = [problem.name for problem in problems if problem.name in CHOSEN_ON]
    partial = [
        name for name in _labels(all_taken) if name not in columns[0] and any(_is_complete(t, name) for t in all_taken)
    ]
    rest = f"Left out on the right: {', '.join(left_out)}." + f" Not in all tables: {', '.join(partial)}." * bool(
        partial
    )
    return "\n".join(
        [
            *lines,
            "",
            fill(f"{rest} {_nemenyi(problems)}", WIDTH, break_on_hyphens=False),
            _ranks_on_unused_problems(unused),
        ]
    )


def _ranks_on_unused_problems(unused: Sequence[ProblemResults]) -> str:
    """Return the first ranks, and what is shown, without DECIDED_ON; empty without enough problems."""
    problems = [problem for problem in unused if problem.name not in DECIDED_ON]
    if len(problems) < 2 or len(problems) == len(unused):
        return ""
    ranks = mean_ranks(problems).set_index("optimizer").sort_values("mean", kind="stable")
    until = list(ranks.index).index(REFERENCE) + 1
    first = [
        f"{name} {row['mean']:.1f} ({row['low']:.1f} to {row['high']:.1f})" for name, row in ranks[:until].iterrows()
    ]
    tests = sorted(compare_overall(problems, REFERENCE), key=lambda test: -test.p_corrected)
    shown = [test.other for test in tests if test.verdict]
    hidden = [f"{test.other} ({format_p(test)})" for test in tests if not test.verdict]
    pairs = sum(problem.incumbents.shape[1] for problem in problems)
    text = (
        f"{', '.join(problem.name for problem in unused if problem.name in DECIDED_ON)} had a part in deciding which "
        f"parts of the default stay. On the other {len(problems)}, {pairs} pairs, the mean ranks are "
        f"{', '.join(first)}. {REFERENCE} is shown to differ from {', '.join(shown) or 'none'}, not "
        f"(in brackets: p) from {', '.join(hidden)}."
    )
    return "\n" + fill(text, WIDTH, break_on_hyphens=False)


def _nemenyi(problems: Sequence[ProblemResults]) -> str:
    """Return what the Nemenyi test does not tell from the reference."""
    ranks = mean_ranks(problems).set_index("optimizer")["mean"]
    difference = critical_difference(len(ranks), len(problems))
    close = [str(name) for name in ranks.sort_values().index if 0 < abs(ranks[name] - ranks[REFERENCE]) < difference]
    if not close:
        return ""
    return (
        f"For the Nemenyi test a problem is one observation: over all {len(problems)} it does not tell {REFERENCE} "
        f"from {', '.join(close)}."
    )


def _columns(problems: Sequence[ProblemResults]) -> dict[str, str]:
    """Return the cells of each optimizer, the best mean rank first."""
    ranks = mean_ranks(problems).set_index("optimizer").sort_values("mean", kind="stable")
    tests = {test.other: test for test in compare_overall(problems, REFERENCE)}
    pairs = {name: ", ".join(map(str, reversed(test.cells))) for name, test in tests.items()}
    return {
        str(name): f"{row['mean']:.1f} ({row['low']:.1f} to {row['high']:.1f}) | {pairs.get(str(name), MISSING)} | "
        f"{format_p(tests.get(str(name)))}"
        for name, row in ranks.iterrows()
    }


def draw_overall(all_taken: Sequence[Taken], folder: Path, dpi: int) -> None:
    """Write the PICTURES."""
    if not overall_table(all_taken):
        return
    problems = problem_results_of(all_taken)
    ranks = mean_ranks(problems)
    for drawing in (rank_curves(ranks, len(problems)), *difference_diagram(ranks, len(problems))):
        drawing.figure.savefig(folder / f"{drawing.name}.png", dpi=dpi)


def problem_results_of(all_taken: Sequence[Taken]) -> list[ProblemResults]:
    """Return the incumbents after 1 to EVALUATIONS [K, R, E], by their first DIGITS digits; empty without two problems.

    Of several tables of a problem that with the most optimizers counts, and of the optimizers those that all have.
    A table of fewer evaluations is left out.
    """
    tables: dict[str, Taken] = {}
    for taken in sorted(all_taken, key=lambda taken: len(taken.facts.optimizers)):
        if _is_complete(taken, REFERENCE) and not taken.facts.optimizers[REFERENCE].superseded:
            tables[taken.facts.problem] = taken
    names = [name for name in _labels(all_taken) if all(_is_complete(taken, name) for taken in tables.values())]
    if len(tables) < 2 or len(names) < 2:
        return []
    return [
        ProblemResults(problem, tuple(names), round_digits(np.stack([incumbents(taken, name) for name in names])))
        for problem, taken in sorted(tables.items())
    ]


def incumbents(taken: Taken, name: str) -> np.ndarray:
    """Return the best objective of each repeat after 1 to EVALUATIONS [R, E]; NaN before the first."""
    rows = taken.curves[(taken.curves["optimizer"] == name) & (taken.curves["evaluation"] <= EVALUATIONS)]
    runs = rows.pivot_table(index="evaluation", columns="repeat", values="best", aggfunc="min")
    return runs.reindex(range(1, EVALUATIONS + 1)).ffill().to_numpy().T


def _labels(all_taken: Sequence[Taken]) -> list[str]:
    return list(dict.fromkeys(label for taken in all_taken for label in taken.facts.optimizers))


def _is_complete(taken: Taken, name: str) -> bool:
    """Return whether a table has the evaluations of an optimizer that is not bo-fm with another kernel."""
    one = taken.facts.optimizers.get(name)
    return one is not None and "kernel" not in one.options and taken.facts.evaluations_of(name) >= EVALUATIONS
