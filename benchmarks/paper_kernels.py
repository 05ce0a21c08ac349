"""bo-fm's kernels over all problems: a table of docs/results.md. See paper_tables.py.

Of each problem the table with all kernels of today's default is used, after EVALUATIONS evaluations: ranks, and
each kernel's pairs (a problem and a repeat) with ModLap, which the default has.
"""

from collections.abc import Sequence

import numpy as np
from paper_tables import Taken

from fmnas.comparison.analysis.across_problems import ProblemResults, compare_overall, mean_ranks
from fmnas.comparison.analysis.formatting import MISSING

EVALUATIONS = 100
KERNELS = ("modlap", "moddif", "prodlap", "proddif", "addlap", "adddif", "mixture", "kernel-modulated")
MODLAP = "bo-fm"
"""The label of the default."""
LABELS = (MODLAP, *(f"bo-fm-{kernel}" for kernel in KERNELS[1:]))


def kernel_overview(all_taken: Sequence[Taken], noisy: Sequence[str], noise: float) -> str:
    """Return the table. noisy: problems whose objectives differ by `noise` for nothing."""
    problems = [
        ProblemResults(taken.facts.problem, LABELS, _incumbents(taken, noise if taken.facts.problem in noisy else 0.0))
        for taken in all_taken
        if has_all_kernels(taken)
    ]
    ranks = mean_ranks(problems).set_index("optimizer")
    tests = {test.other: test for test in compare_overall(problems, MODLAP)}
    lines = [
        f"| kernel | mean rank on {len(problems)} problems | pairs: lower, equal, higher than modlap | p (Holm) |",
        "|---|---|---|---|",
    ]
    for label, kernel in sorted(zip(LABELS, KERNELS, strict=True), key=lambda pair: ranks.loc[pair[0], "mean"]):
        rank, test = ranks.loc[label], tests.get(label)
        pairs = ", ".join(map(str, reversed(test.cells))) if test else MISSING
        p = ("< 0.001" if test.p_corrected < 0.001 else f"{test.p_corrected:.3f}") if test else MISSING
        lines.append(f"| {kernel} | {rank['mean']:.1f} ({rank['low']:.1f} to {rank['high']:.1f}) | {pairs} | {p} |")
    return "\n".join(lines)


def has_all_kernels(taken: Taken) -> bool:
    """Return whether every kernel was run, with the default's other parts as they are today."""
    competitors = taken.facts.optimizers
    return all(
        label in competitors and not competitors[label].superseded and taken.facts.evaluations_of(label) >= EVALUATIONS
        for label in LABELS
    )


def _incumbents(taken: Taken, noise: float) -> np.ndarray:
    """Return the incumbents [K, R, 1] after EVALUATIONS; those within published noise are equal."""
    bests = np.stack([taken.bests(label, EVALUATIONS) for label in LABELS])[..., None]
    return np.round(bests / (10 * noise)) * (10 * noise) if noise else bests
