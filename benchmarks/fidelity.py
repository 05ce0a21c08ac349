"""Whether trainings are long enough to tell good configurations apart: noise beside what it hides.

    fmnas record DIR --out FILE.npz
    python benchmarks/fidelity.py FILE.npz [--other OTHER.npz]

For each number of epochs, over the recorded configurations: the standard error of an error averaged over all seeds,
beside the standard deviation of the true means, of all and of the best tenth; and Kendall's tau of two averages over
half of the seeds each. Trainings that diverged are left out, and counted.

The best tenth is chosen by half of the seeds, and the true variance is the covariance of two of the other seeds, so
that neither the choice nor the noise enters it; the mean over all ways to choose the half. It may be negative by
chance; then the deviation is 0. The images of the validation are the same for all: their error is not in the noise.

--other: the same configurations at another fidelity, or on another device. How far both agree on their order: Kendall's
tau of the mean errors, and of means over different halves of the seeds, across the files and within each; and the
difference of their mean errors; with 95% intervals (bootstrap over the configurations).
"""

import argparse
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from command import run_command
from numpy.typing import NDArray
from scipy.stats import kendalltau

from fmnas.search_spaces.records import FINISHED
from fmnas.trainers.recorded_table import RecordedTable, read_table

Floats = NDArray[np.float64]

DRAWS = 500
"""Bootstrap samples of configurations."""


@dataclass(frozen=True)
class Spread:
    """Of a set of configurations: standard error of a mean over all seeds, standard deviation of the true means."""

    noise: float
    truth: float


def halves_of(seeds: int) -> list[tuple[list[int], list[int]]]:
    """Each way to divide the seeds into two halves; the first chooses, the second measures."""
    every = range(seeds)
    return [(list(half), [s for s in every if s not in half]) for half in combinations(every, seeds // 2)]


def measure_spread(errors: Floats, share: float) -> Spread:
    """Return the spread of the best share of the configurations; errors [n, S], S at least 4."""
    count = max(2, round(share * len(errors)))
    noise, truth = [], []
    for chooses, measures in halves_of(errors.shape[1]):
        best = errors[:, chooses].mean(axis=1).argsort(kind="stable")[:count]
        rest = errors[best][:, measures]
        noise.append(rest.var(axis=1, ddof=1).mean())
        covariance = np.cov(rest.T)
        truth.append(covariance[~np.eye(len(measures), dtype=bool)].mean())
    return Spread(float(np.sqrt(np.mean(noise) / errors.shape[1])), float(np.sqrt(max(np.mean(truth), 0.0))))


def agreement(errors: Floats) -> float:
    """Kendall's tau of the means over two halves of the seeds, averaged over the halves; errors [n, S]."""
    halves = halves_of(errors.shape[1])
    taus = [kendalltau(errors[:, one].mean(axis=1), errors[:, other].mean(axis=1))[0] for one, other in halves]
    return float(np.mean(taus))


def lines_of_table(curves: Floats) -> list[str]:
    """Markdown; curves [n, S, E]: error of each seed after each epoch."""
    lines = [
        "| epochs | standard error of the mean | true deviation, all | best tenth | tau of two halves |",
        "|---|---|---|---|---|",
    ]
    for epoch in range(curves.shape[2]):
        errors = curves[:, :, epoch]
        every, best = measure_spread(errors, 1.0), measure_spread(errors, 0.1)
        lines.append(
            f"| {epoch + 1} | {every.noise:.4f}, best tenth {best.noise:.4f} | {every.truth:.4f} | {best.truth:.4f} "
            f"| {agreement(errors):.2f} |"
        )
    return lines


def index_full_trainings(table: RecordedTable) -> dict[tuple[tuple[str, Any], ...], int]:
    """Return the row of each configuration that was trained for the table's most epochs and did not diverge.

    Raises ValueError if one was trained twice.
    """
    columns = (table.arrays[name] for name in ("status", "epochs", "diverged"))
    full = [s == FINISHED and e == table.arrays["epochs"].max() and not d for s, e, d in zip(*columns, strict=True)]
    keys = [tuple(sorted(configuration.items())) for configuration in table.configurations]
    rows = {key: row for row, (key, is_full) in enumerate(zip(keys, full, strict=True)) if is_full}
    if len(rows) < sum(full):
        raise ValueError(
            f"{table.place} has {sum(full)} full trainings of {len(rows)} configurations: keep one of each"
        )
    return rows


def pair_errors(one: RecordedTable, other: RecordedTable) -> tuple[Floats, Floats]:
    """Return the errors [n, S] of the n configurations in both tables (`index_full_trainings`), in the same order."""
    first, second = index_full_trainings(one), index_full_trainings(other)
    both = [key for key in first if key in second]
    return one.arrays["errors"][[first[key] for key in both]], other.arrays["errors"][[second[key] for key in both]]


def agreement_across(first: Floats, second: Floats) -> float:
    """Kendall's tau of means over half of the seeds in one and over the other half in the other, averaged.

    Trainings of one seed share their random numbers, also at different fidelities, and so agree better.
    """
    halves = halves_of(first.shape[1])
    return float(np.mean([kendalltau(first[:, a].mean(axis=1), second[:, b].mean(axis=1))[0] for a, b in halves]))


def describe_agreement(first: Floats, second: Floats) -> str:
    """Return a sentence on the errors [n, S] of the same configurations in two files."""

    def measure(a: Floats, b: Floats) -> list[float]:
        within, across = (agreement(a), agreement(b)), agreement_across(a, b)
        tau = float(kendalltau(a.mean(axis=1), b.mean(axis=1))[0])
        return [tau, *within, across, across - sum(within) / 2, float((b - a).mean())]

    rng, drawn = np.random.default_rng(0), []
    for _ in range(DRAWS):
        rows = rng.integers(len(first), size=len(first))
        drawn.append(measure(first[rows], second[rows]))
    tau, one, other, across, difference, offset = measure(first, second)
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    return (
        f"configurations in both = {len(first)}, tau = {tau:.2f} ({low[0]:.2f} to {high[0]:.2f}); "
        f"of half of the seeds: within each {one:.2f} and {other:.2f}, across {across:.2f}, "
        f"lower by {-difference:.2f} ({-high[4]:.2f} to {-low[4]:.2f}); "
        f"mean error of the other file less that of the first {offset:+.4f} ({low[5]:+.4f} to {high[5]:+.4f})"
    )


def main() -> None:
    """Print the table of a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--other", type=Path, metavar="FILE", help="of the same configurations")
    arguments = parser.parse_args()
    table = read_table(arguments.file)
    finished = table.arrays["status"] == FINISHED
    curves, diverged, seconds = (table.arrays[name][finished] for name in ("seed_curves", "diverged", "seconds"))
    kept = curves[~diverged]
    print(f"configurations = {len(kept)}, diverged = {int(diverged.sum())}, seeds = {curves.shape[1]}")
    print(f"seconds of a configuration, median = {np.median(seconds):.1f}\n")
    print("\n".join(lines_of_table(kept)))
    if arguments.other:
        print(f"\n{describe_agreement(*pair_errors(table, read_table(arguments.other)))}")


if __name__ == "__main__":
    run_command(main)
