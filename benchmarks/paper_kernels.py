"""bo-fm's kernels over all problems: a table of docs/results.md. See paper_tables.py.

A problem counts if its second table has every kernel, each with the default's other parts as they are today.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

import numpy as np
from paper_tables import Taken

from fmnas.comparison.analysis.across_problems import OverallTest, ProblemResults, compare_overall, mean_ranks
from fmnas.comparison.analysis.formatting import MISSING
from fmnas.optimizers.gp.frequency_modulation import KernelName

EVALUATIONS = 100
"""After which the kernels are compared."""
DIGITS = 4
"""Significant digits of the compared objectives: where many runs end in one minimum, the last ones say nothing."""
KERNELS: tuple[str, ...] = get_args(KernelName)
MODLAP = "bo-fm"
"""The label of the default, whose kernel is the first of KERNELS."""
LABELS = (MODLAP, *(f"bo-fm-{kernel}" for kernel in KERNELS[1:]))


def kernel_overview(all_taken: Sequence[Taken]) -> str:
    """Return the table, and which problems it leaves out.

    Raises SystemExit for fewer than two problems, and for a problem with two such tables.
    """
    exact = [_results(taken) for taken in all_taken if has_all_kernels(taken)]
    names = [problem.name for problem in exact]
    if len(names) < 2 or len(set(names)) < len(names):
        raise SystemExit(f"problems with every kernel: {names}; there must be two or more, each once")
    rounded = [replace(problem, incumbents=round_digits(problem.incumbents)) for problem in exact]
    ranks = mean_ranks(rounded).set_index("optimizer")
    tests, exact_tests = ({test.other: test for test in compare_overall(p, MODLAP)} for p in (rounded, exact))
    lines = [
        f"| kernel | mean rank on {len(names)} problems | lower, equal, higher than modlap | p | p, all digits |",
        "|---|---|---|---|---|",
    ]
    for label, kernel in sorted(zip(LABELS, KERNELS, strict=True), key=lambda pair: ranks.loc[pair[0], "mean"]):
        rank, test = ranks.loc[label], tests.get(label)
        pairs = ", ".join(map(str, reversed(test.cells))) if test else MISSING
        ps = f"{format_p(test)} | {format_p(exact_tests.get(label))}"
        lines.append(f"| {kernel} | {rank['mean']:.1f} ({rank['low']:.1f} to {rank['high']:.1f}) | {pairs} | {ps} |")
    left_out = sorted({taken.facts.problem for taken in all_taken if LABELS[1] in taken.facts.optimizers} - set(names))
    return "\n".join([*lines, *(["", f"Left out: {', '.join(left_out)}."] if left_out else [])])


def has_all_kernels(taken: Taken) -> bool:
    """Return whether every kernel was run, with the default's other parts as they are today."""
    competitors = taken.facts.optimizers
    return all(
        label in competitors and not competitors[label].superseded and taken.facts.evaluations_of(label) >= EVALUATIONS
        for label in LABELS
    )


def round_digits(values: np.ndarray) -> np.ndarray:
    """Return values rounded to DIGITS significant digits."""
    return np.vectorize(lambda value: float(f"{value:.{DIGITS - 1}e}"))(values)


def _results(taken: Taken) -> ProblemResults:
    """Return the incumbents [K, R, 1] after EVALUATIONS."""
    bests = np.stack([taken.bests(label, EVALUATIONS) for label in LABELS])
    return ProblemResults(taken.facts.problem, LABELS, bests[..., None])


def format_p(test: OverallTest | None) -> str:
    """Return the corrected p of a test; – without one."""
    if test is None:
        return MISSING
    return "< 0.001" if test.p_corrected < 0.001 else f"{test.p_corrected:.3f}"
