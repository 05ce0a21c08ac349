"""What parallel trials cost on the surrogate: the same runs with several numbers of workers.

    for W in 1 4 16 64; do fmnas run joint_recorded -o seed=N -o budget.evaluations=200 -o hypotheses=all \\
        -o workers.suggestions=instant --out runs/workers-$W -o "optimizers=[{name: bo-fm, concurrency: $W}, \\
        {name: regularized-evolution, population: 20, tournament: 6, concurrency: $W}, \\
        {name: random, concurrency: $W}]"; done
    python benchmarks/simulated_workers.py runs/workers-1 runs/workers-4 runs/workers-16 runs/workers-64

W trials of a run are pending at once, so each is chosen with W - 1 results fewer. Differences are to the first
directory, paired by repeat: of the lowest objective of a run, and of what the surrogate expects of the configuration
that had it. p are corrected (Holm) within an optimizer. Seconds are simulated, from a run's first trial to its end;
idle: the share of its workers' seconds in which they had no trial.
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import yaml
from command import run_command
from expected_objective import Values, expected_of_incumbents

from fmnas.api import load_run
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.trainers.surrogate.model import read_surrogate
from fmnas.trainers.surrogate.problem import FILE

Runs = Mapping[int, Values]
"""Workers -> optimizer -> repeat -> an objective."""


def lowest_objectives(trials: pd.DataFrame, epochs: int) -> Values:
    """Return the lowest objective of each run, of trials of these epochs."""
    full = trials[trials["epochs"] == epochs]
    lowest = full.groupby(["optimizer", "repeat"])["objective"].min()
    values: Values = {}
    for (optimizer, repeat), objective in lowest.items():
        values.setdefault(optimizer, {})[repeat] = float(objective)
    return values


def describe_differences(runs: Runs, optimizer: str) -> dict[int, str]:
    """Return, for each number of workers, the mean, and the difference to the first number with its p."""
    first = next(iter(runs))
    pairs = compare({str(w): values[optimizer] for w, values in runs.items()}, str(first)).pairs
    cells = {w: "{:.4f} ± {:.4f}".format(*mean_and_error(values[optimizer])) for w, values in runs.items()}
    for pair in pairs:
        text = f"{0.0 - pair.difference:+.4f} ({0.0 - pair.high:+.4f} to {0.0 - pair.low:+.4f}), {pair.p_corrected:.3f}"
        cells[int(pair.second)] += f" | {text}"
    return cells | {first: f"{cells[first]} | –"}


def describe_times(ledger: pd.DataFrame, workers: int) -> dict[str, str]:
    """Return, for each optimizer, the mean seconds of a run and the share in which its workers were idle."""
    idle = (1 - ledger["train_seconds"] / (workers * ledger["wall_seconds"])).round(6) + 0.0  # no -0%
    means = ledger.assign(idle=idle).groupby("optimizer")[["wall_seconds", "idle"]].mean()
    return {str(name): f"{row.wall_seconds:.0f} | {row.idle:.0%}" for name, row in means.iterrows()}


def lines_of_table(folders: list[Path]) -> Iterator[str]:
    """Yield a table with a row per optimizer and number of workers.

    Exits unless each directory has another number of workers, the same for all of its optimizers.
    """
    surrogate = read_surrogate(FILE)
    lowest: dict[int, Values] = {}
    expected: dict[int, Values] = {}
    times: dict[int, dict[str, str]] = {}
    for folder in folders:
        run = load_run(folder)
        config = yaml.safe_load((folder / "config.yaml").read_text())
        workers, *more = {optimizer["concurrency"] for optimizer in config["optimizers"]}
        if more or workers in lowest:
            raise SystemExit(f"{folder}: give each directory another number of workers, one for all of its optimizers")
        lowest[workers] = lowest_objectives(run.trials, surrogate.facts.epochs)
        expected[workers] = expected_of_incumbents(folder, surrogate)
        times[workers] = describe_times(run.ledger, workers)
    yield "| optimizer | workers | lowest | difference, p | expected | difference, p | seconds | idle |"
    yield "|---|---|---|---|---|---|---|---|"
    for optimizer in next(iter(lowest.values())):
        best, mean = describe_differences(lowest, optimizer), describe_differences(expected, optimizer)
        for workers in lowest:
            yield f"| {optimizer} | {workers} | {best[workers]} | {mean[workers]} | {times[workers][optimizer]} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR", help="one per number of workers")
    print("\n".join(lines_of_table(parser.parse_args().folders)))


if __name__ == "__main__":
    run_command(main)
