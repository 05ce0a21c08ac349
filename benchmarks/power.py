"""The power of a report's paired test: how many repeats a difference needs, given how much those of a run vary.

    fmnas run joint_recorded
    python benchmarks/power.py runs/joint_recorded [--against bo-fm]

An experiment of n repeats is n differences of final objectives between one optimizer and another, drawn with
replacement from those of the run directory and shifted: the first is truly lower by the difference of the row. The
differences to each other optimizer are drawn equally often. The test shows a difference if p < 0.05 / the number of
others, which is Holm's level for the smallest p. The table has the share of DRAWS experiments that show it.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from command import run_command
from numpy.typing import NDArray

from fmnas.api import load_run
from fmnas.comparison.analysis.checkpoints import Values, values_at
from fmnas.comparison.analysis.paired_tests import LEVEL, signed_rank_p

Floats = NDArray[np.float64]
DRAWS = 3000
DIFFERENCES = (0.0025, 0.005, 0.01, 0.015, 0.02)
REPEATS = (6, 9, 12, 20, 30, 50, 100)


def find_residuals(values: Values, reference: str) -> list[Floats]:
    """Return the reference's differences to each other optimizer, by repeat, less their mean.

    Raises SystemExit for an unknown reference, and for fewer than two repeats: one difference does not vary.
    """
    if reference not in values:
        raise SystemExit(f"--against {reference}: the runs are of {', '.join(values)}")
    mine = values[reference]
    competitors = [other for name, other in values.items() if name != reference]
    differences = [
        np.array([mine[repeat] - other[repeat] for repeat in mine if repeat in other]) for other in competitors
    ]
    if min(map(len, differences), default=0) < 2:
        raise SystemExit("at least two repeats of two optimizers are needed")
    return [one - one.mean() for one in differences]


def measure_power(
    residuals: Sequence[Floats], difference: float, repeats: int, rng: np.random.Generator, draws: int = DRAWS
) -> float:
    """Return the share of experiments that show the difference. residuals: to each other optimizer."""
    level = LEVEL / len(residuals)
    drawn = (rng.choice(residuals[i % len(residuals)], repeats) for i in range(draws))
    return float(np.mean([signed_rank_p(one - difference) < level for one in drawn]))


def lines_of_power(residuals: Sequence[Floats], rng: np.random.Generator) -> Iterator[str]:
    """Yield a table with a row per true difference, a column per number of repeats."""
    deviations = ", ".join(f"{one.std(ddof=1):.4f}" for one in residuals)
    yield f"standard deviations of the differences = {deviations}"
    yield f"| true difference | {' | '.join(f'{count} repeats' for count in REPEATS)} |"
    yield "|---" * (len(REPEATS) + 1) + "|"
    for difference in DIFFERENCES:
        shares = [measure_power(residuals, difference, count, rng) for count in REPEATS]
        yield f"| {difference} | {' | '.join(f'{share:.0%}' for share in shares)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--against", default="bo-fm")
    arguments = parser.parse_args()
    run = load_run(arguments.folder)
    residuals = find_residuals(values_at(run.curves, run.summary.budget.epochs), arguments.against)
    print("\n".join(lines_of_power(residuals, np.random.default_rng(0))))


if __name__ == "__main__":
    run_command(main)
