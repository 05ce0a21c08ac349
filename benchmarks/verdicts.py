"""Whether simulated runs say what real ones say: the difference of each pair of optimizers, in both.

    fmnas run joint_recorded
    unzip benchmarks/results/recorded/joint_comparison.zip -d runs/joint_published
    python benchmarks/verdicts.py runs/joint_published runs/joint_recorded --epochs 180

Differences are of the best objectives after as many epochs, mean over the repeats, with 95% bootstrap intervals; all
pairs. Also Kendall's tau of the optimizers' means at a third, two thirds and all of these epochs.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from command import run_command
from scipy.stats import kendalltau

from fmnas.api import load_run
from fmnas.comparison.analysis.checkpoints import values_at
from fmnas.comparison.analysis.paired_tests import ALL, PairedTest, compare


def compare_pairs(curves: pd.DataFrame, epochs: int) -> list[PairedTest]:
    """Test every pair of optimizers on the best objectives after these epochs; curves: a report's table."""
    return list(compare(dict(sorted(values_at(curves, epochs).items())), ALL).pairs)


def lines_of_pairs(real: list[PairedTest], simulated: list[PairedTest]) -> Iterator[str]:
    """Yield a table with a row per pair."""
    yield "| pair | real difference | simulated difference | same sign | real p, simulated p (Holm) |"
    yield "|---|---|---|---|---|"
    for one, other in zip(real, simulated, strict=True):
        if (one.first, one.second) != (other.first, other.second):
            raise SystemExit(f"the runs compare different optimizers: {one.first}, {one.second}")
        shown = [f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})" for test in (one, other)]
        sign = "yes" if one.difference * other.difference > 0 else "no"
        is_shown = "; the real interval excludes 0" if one.low > 0 or one.high < 0 else ""  # not if it is unknown
        ps = f"{one.p_corrected:.3f}, {other.p_corrected:.3f}"
        yield f"| {one.first} - {one.second} | {shown[0]} | {shown[1]} | {sign}{is_shown} | {ps} |"


def lines_of_order(real: pd.DataFrame, simulated: pd.DataFrame, epochs: int) -> Iterator[str]:
    """Yield how far the order of the means agrees at shares of the epochs."""
    for share in (1 / 3, 2 / 3, 1.0):
        values = [values_at(curves, round(share * epochs)) for curves in (real, simulated)]
        means = [[np.mean(list(one[name].values())) for name in sorted(one)] for one in values]
        yield f"Kendall's tau of the means after {share * epochs:.0f} epochs = {kendalltau(*means)[0]:.2f}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("real", type=Path)
    parser.add_argument("simulated", type=Path)
    parser.add_argument("--epochs", type=int, required=True, help="that each run has spent")
    arguments = parser.parse_args()
    curves = [load_run(folder).curves for folder in (arguments.real, arguments.simulated)]
    print("\n".join(lines_of_pairs(*(compare_pairs(table, arguments.epochs) for table in curves))))
    print("\n".join(lines_of_order(*curves, arguments.epochs)))


if __name__ == "__main__":
    run_command(main)
