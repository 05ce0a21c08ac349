"""Whether simulated runs say what real ones said: the difference of each pair of optimizers, in both.

    fmnas run joint_recorded --out runs/simulated
    unzip benchmarks/results/recorded/comparison.zip -d runs/real
    python benchmarks/verdicts.py runs/real runs/simulated

Differences are of the final objectives, mean over the repeats, with 95% bootstrap intervals; all pairs. Also Kendall's
tau of the optimizers' means at a quarter, half and all of the budget.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import kendalltau

from fmnas.api import load_run
from fmnas.comparison.analysis.paired_tests import ALL, PairedTest, compare


def compare_pairs(checkpoints: pd.DataFrame) -> list[PairedTest]:
    """Test every pair of optimizers on the objectives at the end; checkpoints: a report's table."""
    end = checkpoints[checkpoints["share"] == checkpoints["share"].max()].set_index("optimizer").sort_index()
    repeats = [column for column in end if str(column).startswith("repeat_")]
    values = {str(name): dict(enumerate(row)) for name, row in zip(end.index, end[repeats].to_numpy(), strict=True)}
    return list(compare(values, ALL).pairs)


def lines_of_pairs(real: list[PairedTest], simulated: list[PairedTest]) -> Iterator[str]:
    """Yield a table with a row per pair."""
    yield "| pair | real difference | simulated difference | same sign | real p, simulated p (Holm) |"
    yield "|---|---|---|---|---|"
    for first, second in zip(real, simulated, strict=True):
        if (first.first, first.second) != (second.first, second.second):
            raise SystemExit(f"the runs compare different optimizers: {first.first}, {second.first}")
        shown = [f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})" for test in (first, second)]
        sign = "yes" if first.difference * second.difference > 0 else "no"
        excludes = "" if first.low <= 0 <= first.high else ", and the real interval excludes 0"
        ps = f"{first.p_corrected:.3f}, {second.p_corrected:.3f}"
        yield f"| {first.first} - {first.second} | {shown[0]} | {shown[1]} | {sign}{excludes} | {ps} |"


def lines_of_order(real: pd.DataFrame, simulated: pd.DataFrame) -> Iterator[str]:
    """Yield how far the order of the means agrees, by share of the budget."""
    for share in sorted(set(real["share"]) & set(simulated["share"])):
        means = [table[table["share"] == share].set_index("optimizer")["mean"] for table in (real, simulated)]
        tau = kendalltau(means[0], means[1].reindex(means[0].index))[0]
        yield f"Kendall's tau of the means at {share:.0%} of the budget = {tau:.2f}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("real", type=Path)
    parser.add_argument("simulated", type=Path)
    arguments = parser.parse_args()
    tables = [load_run(folder).tables["checkpoints"] for folder in (arguments.real, arguments.simulated)]
    print("\n".join(lines_of_pairs(*map(compare_pairs, tables))))
    print("\n".join(lines_of_order(*tables)))


if __name__ == "__main__":
    main()
