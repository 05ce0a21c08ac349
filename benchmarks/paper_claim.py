"""The BO-FM paper's claim on the surrogate: BO-FM after 200 evaluations against others that have up to 600.

    fmnas run joint_recorded -o 'optimizers=[bo-fm]' -o budget.evaluations=200 -o seed=N --out runs/claim-bo-fm
    fmnas run joint_recorded -o 'optimizers=[{name: regularized-evolution, population: 50, tournament: 15}, random,
        {name: bohb, min_epochs: 1}]' -o budget.evaluations=600 -o seed=N --out runs/claim-others
    python benchmarks/paper_claim.py runs/claim-bo-fm runs/claim-others --against 200 230 400 600

Both with `-o hypotheses=all -o repeats=30`. Differences are of the best objectives, with 95% bootstrap intervals; the p
of the paired tests are corrected for all rows. A repeat of bo-fm is paired with the same repeat of another: they have
the same initial design (BOHB has none).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pandas as pd
from command import run_command

from fmnas.api import load_run
from fmnas.comparison.analysis.checkpoints import values_at
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.paired_tests import PairedTest, compare

REFERENCE = "bo-fm"
Values = Mapping[int, float]
"""Repeat -> best objective."""


def best_after(
    mine: pd.DataFrame, competitors: pd.DataFrame, evaluations: int, against: Sequence[int], epochs: int
) -> dict[str, dict[int, float]]:
    """Return the best objectives of bo-fm after these evaluations, and of each other after each number of `against`.

    mine, competitors: the curves of reports. epochs: of an evaluation.
    """
    values = {REFERENCE: values_at(mine, evaluations * epochs)[REFERENCE]}
    for name in sorted(competitors["optimizer"].unique()):
        values |= {f"{name} after {count}": values_at(competitors, count * epochs)[name] for count in against}
    return values


def lines_of_tests(tests: Sequence[PairedTest], values: Mapping[str, Values]) -> Iterator[str]:
    """Yield a table with a row per test of bo-fm against another."""
    best = format_mean(values[REFERENCE])
    yield f"| {REFERENCE}, {best}, against | mean | difference | lower, equal, higher | p (Holm) |"
    yield "|---|---|---|---|---|"
    for test in tests:
        pairs = [values[REFERENCE][repeat] - other for repeat, other in values[test.second].items()]
        signs = sum(d < 0 for d in pairs), sum(d == 0 for d in pairs), sum(d > 0 for d in pairs)
        interval = f"{test.difference:+.4f} ({test.low:+.4f} to {test.high:+.4f})"
        columns = test.second, format_mean(values[test.second]), interval, ", ".join(map(str, signs))
        yield f"| {' | '.join(columns)} | {test.p_corrected:.3f} |"


def format_mean(values: Values) -> str:
    """Format a mean over repeats with its standard error."""
    return "{:.4f} ± {:.4f}".format(*mean_and_error(values))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mine", type=Path)
    parser.add_argument("competitors", type=Path)
    parser.add_argument("--evaluations", type=int, default=200, help="of bo-fm")
    parser.add_argument(
        "--against", type=int, nargs="+", default=[200, 400, 600], help="evaluations of the competitors"
    )
    parser.add_argument("--epochs", type=int, default=3, help="of an evaluation")
    arguments = parser.parse_args()
    mine, competitors = (load_run(folder).curves for folder in (arguments.mine, arguments.competitors))
    values = best_after(mine, competitors, arguments.evaluations, arguments.against, arguments.epochs)
    print("\n".join(lines_of_tests(compare(values, REFERENCE).pairs, values)))


if __name__ == "__main__":
    run_command(main)
