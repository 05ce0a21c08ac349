"""The same optimizers on several problems: ranks, regret, and who wins.

| symbol | meaning |
|---|---|
| P, K, R, E | problems, optimizers, repeats of a problem, evaluations |
| incumbents | [K, R, E], the best objective after 1..E evaluations; NaN before the first full training |
| normalised regret | (incumbent - best) / (start - best): 1 at the start, 0 at the best known objective |

Objectives of different problems have different units, so nothing is averaged over problems but ranks, signs and
normalised regret. For intervals and the critical difference a problem is one observation, and repeats of a problem
only make its own ranks more certain. The sign-flip test is over the runs: its p says whether the optimizers differ on
these problems, not on others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

from fmnas.comparison.analysis.curves import incumbent_at
from fmnas.comparison.analysis.float_ties import differences_with_ties, merge_near_ties
from fmnas.comparison.analysis.paired_tests import FIRST, LEVEL, SECOND, holm, rank_biserial, signed_rank_p
from fmnas.comparison.analysis.resampling import Floats, mean_interval
from fmnas.comparison.analysis.trials import ReportError

SIGN_FLIPS = 20_000
FLIP_SEED = 2021
"""Fixed, so that the same data give the same p."""
RANK_COLUMNS = ("evaluations", "optimizer", "mean", "low", "high")
MOST_POINTS = 200
"""Points of the mean ranks of one problem."""
FEWEST_PROBLEMS = 10
"""With fewer problems there is no critical difference: the Nemenyi test rests on a limit of many problems."""


@dataclass(frozen=True)
class ProblemResults:
    """One problem. optimizers: their K names. incumbents: [K, R, E]. minimum: of the objective; NaN if unknown."""

    name: str
    optimizers: tuple[str, ...]
    incumbents: Floats
    minimum: float = float("nan")


@dataclass(frozen=True)
class OverallTest:
    """The reference against one other optimizer, over all problems.

    wins, ties, losses: problems in which the reference is better, not shown to differ, or worse, by the paired test of
    the problem, with p corrected by Holm's method over the others, but not over problems.
    cells: (lower, equal, higher) pairs of a problem and a repeat, by the sign of reference - other.
    effect, p: of `sign_flip_test`; below 0 where the reference is lower. p_corrected: after Holm over the others.
    """

    other: str
    wins: int
    ties: int
    losses: int
    cells: tuple[int, int, int]
    effect: float
    p: float
    p_corrected: float

    @property
    def verdict(self) -> str:
        """FIRST if the reference is better over all problems, SECOND if the other is, else empty."""
        if self.p_corrected >= LEVEL:
            return ""
        return FIRST if self.effect < 0 else SECOND


def problem_results(
    name: str, curves: pd.DataFrame, optimizers: Sequence[str], evaluations: int, minimum: float | None = None
) -> ProblemResults:
    """The incumbents of a problem's `anytime_curves`, of these optimizers, after 1..evaluations.

    Only repeats that all of them have count. Raises ReportError without such a repeat.
    """
    runs = {(str(run["optimizer"].iloc[0]), int(run["repeat"].iloc[0])): run for _, run in curves.groupby("run")}
    shared = sorted(set.intersection(*({repeat for label, repeat in runs if label == name} for name in optimizers)))
    if not shared:
        raise ReportError(
            f"{name}: no repeat in which all of {', '.join(optimizers)} have a trial; run the same repeats"
        )
    grid = np.arange(1.0, evaluations + 1)
    incumbents = [[incumbent_at(runs[label, repeat], "evaluations", grid) for repeat in shared] for label in optimizers]
    return ProblemResults(name, tuple(optimizers), np.array(incumbents), np.nan if minimum is None else minimum)


def rank_optimizers(incumbents: Floats) -> Floats:
    """The mean rank over repeats of each optimizer after each number of evaluations: [K, R, E] -> [K, E].

    The lowest is 1; ties share their ranks; an optimizer without an incumbent is behind all that have one.
    """
    known = np.where(np.isfinite(incumbents), incumbents, np.inf)
    merged = np.apply_along_axis(_merge_finite_ties, 0, known)
    return np.asarray(rankdata(merged, axis=0).mean(axis=1))


def mean_ranks(problems: Sequence[ProblemResults]) -> pd.DataFrame:
    """The mean over problems of each optimizer's rank after each number of evaluations.

    Columns evaluations, optimizer, mean, low, high. low, high: the 95% bootstrap interval over problems.
    """
    ranks = np.stack([rank_optimizers(problem.incumbents) for problem in problems])  # [P, K, E]
    low, high = mean_interval(ranks)
    names, (_, count, evaluations) = problems[0].optimizers, ranks.shape
    return pd.DataFrame(
        {
            "evaluations": np.tile(np.arange(1, evaluations + 1), count),
            "optimizer": np.repeat(names, evaluations),
            "mean": ranks.mean(axis=0).ravel(),
            "low": low.ravel(),
            "high": high.ravel(),
        }
    )


def ranks_over_repeats(curves: pd.DataFrame, optimizers: Sequence[str], evaluations: int) -> pd.DataFrame:
    """The `mean_ranks` of one problem's `anytime_curves`, with its repeats in place of problems.

    After 1..evaluations, or at most MOST_POINTS of these. Empty with fewer than two optimizers, evaluations, or
    repeats in which all have a trial.
    """
    nothing = pd.DataFrame(columns=list(RANK_COLUMNS))
    if min(len(optimizers), evaluations) < 2:
        return nothing
    try:
        problem = problem_results("", curves, optimizers, evaluations)
    except ReportError:  # no repeat in which all have a trial
        return nothing
    if (repeats := problem.incumbents.shape[1]) < 2:
        return nothing
    at = np.unique(np.linspace(1, evaluations, min(evaluations, MOST_POINTS)).astype(int))
    every = [replace(problem, incumbents=problem.incumbents[:, [repeat]][..., at - 1]) for repeat in range(repeats)]
    return (ranks := mean_ranks(every)).assign(evaluations=at[ranks["evaluations"] - 1])


def normalised_regret(problem: ProblemResults) -> Floats:
    """The normalised regret of every run: [K, R, E]; NaN before its first result.

    best: the known minimum, else the lowest objective of any run here. start: the mean over all runs of the first
    incumbent. 0 everywhere if no run improved on the start.
    """
    incumbents = problem.incumbents
    first = np.take_along_axis(incumbents, np.isfinite(incumbents).argmax(axis=2)[..., None], axis=2)
    best = problem.minimum if isfinite(problem.minimum) else float(np.fmin.reduce(incumbents, axis=None))
    scale = float(pd.Series(first.ravel()).mean()) - best  # NaN, without a warning, if no run has a result
    return np.maximum(0.0, incumbents - best) / scale if scale > 0 else np.where(np.isfinite(incumbents), 0.0, np.nan)


def compare_overall(problems: Sequence[ProblemResults], reference: str) -> list[OverallTest]:
    """The reference against each other optimizer after the last evaluation, over all problems."""
    names = problems[0].optimizers
    competitors = [name for name in names if name != reference]
    finals = [dict(zip(names, problem.incumbents[:, :, -1], strict=True)) for problem in problems]
    differences = [[_differences(final[reference], final[other]) for final in finals] for other in competitors]
    by_problem = zip(*differences, strict=True)
    corrected = np.array([holm([signed_rank_p(of_other) for of_other in of_problem]) for of_problem in by_problem])
    overall = [sign_flip_test(of_other) for of_other in differences]
    tests = []
    for i, (other, of_other) in enumerate(zip(competitors, differences, strict=True)):
        means = np.array([of_problem.mean() if len(of_problem) else 0.0 for of_problem in of_other])
        significant = (corrected[:, i] < LEVEL) & (means * [rank_biserial(of_problem) for of_problem in of_other] > 0)
        wins, losses = int((significant & (means < 0)).sum()), int((significant & (means > 0)).sum())
        signs = np.sign(np.concatenate(of_other))
        cells = int((signs < 0).sum()), int((signs == 0).sum()), int((signs > 0).sum())
        tests.append((other, wins, len(problems) - wins - losses, losses, cells, *overall[i]))
    return [OverallTest(*test, p) for test, p in zip(tests, holm([p for _, p in overall]), strict=True)]


def sign_flip_test(differences: Sequence[Floats]) -> tuple[float, float]:
    """The effect and two-sided p of a stratified sign-flip test on the differences in each problem [R].

    The effect is the mean over problems of the mean sign over repeats, so each problem weighs the same. Under the
    hypothesis that the two optimizers have the same distribution of results, each sign is as likely as its opposite.
    By SIGN_FLIPS random flips, the observed signs counted as one of them.
    """
    signs = [np.sign(of_problem) for of_problem in differences if len(of_problem)]
    weights = np.concatenate([of_problem / (len(of_problem) * len(signs)) for of_problem in signs] or [np.zeros(0)])
    weights = weights[weights != 0]
    rng = np.random.default_rng(FLIP_SEED)
    flips = rng.integers(0, 2, (SIGN_FLIPS, len(weights)), dtype=np.int8) * 2 - 1
    extreme = np.abs(flips @ weights) >= abs(weights.sum()) * (1 - 1e-12)
    return float(weights.sum()), float((1 + np.count_nonzero(extreme)) / (1 + SIGN_FLIPS))


def critical_difference(optimizers: int, problems: int) -> float:
    """The difference of mean ranks from which two optimizers differ at LEVEL by the Nemenyi test (Demsar, 2006).

    NaN with fewer than two optimizers or FEWEST_PROBLEMS problems.
    """
    if optimizers < 2 or problems < FEWEST_PROBLEMS:
        return float("nan")
    quantile = float(studentized_range.ppf(1 - LEVEL, optimizers, np.inf)) / sqrt(2)
    return quantile * sqrt(optimizers * (optimizers + 1) / (6 * problems))


def _differences(first: Floats, second: Floats) -> Floats:
    """first - second in the repeats [R] in which both have a value; ties up to rounding are 0."""
    both = np.isfinite(first) & np.isfinite(second)
    return differences_with_ties(first[both], second[both])


def _merge_finite_ties(values: Floats) -> Floats:
    """`merge_near_ties` of the finite values [K]."""
    finite, merged = np.isfinite(values), values.copy()
    merged[finite] = merge_near_ties(values[finite])
    return merged
