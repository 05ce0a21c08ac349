"""What racing saves and what it misses, on trainings that were recorded with all their seeds.

    fmnas record DIR --out FILE.npz
    python benchmarks/racing.py FILE.npz [--repeats 2000] [--seed 0]

A repeat draws configurations of the file without replacement, in random order and with their seeds in random order,
and races each against those before it, as the driver does. That is random search; an optimizer that suggests good
configurations has fewer trials to stop. Printed for each number of first seeds and standard errors of the bound: the
share of the trainings that are saved, in how many repeats the best configuration was stopped, and how much higher the
incumbent is for it, averaged over all repeats.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from command import run_command

from fmnas.platform.runner.racing import MIN_RESULTS, STANDARD_ERRORS, bound
from fmnas.search_spaces import Evaluation
from fmnas.trainers.recorded_table import read_table

Race = tuple[float, float]
"""The share of trainings saved, and by how much the incumbent is higher than without racing."""


def race(drawn: list[Evaluation], seeds: int, standard_errors: float) -> Race:
    """Race evaluations, in this order. seeds: of each that are trained first."""
    whole: list[Evaluation] = []
    for result in drawn:
        first = result.objective + float(np.mean(result.errors[:seeds]) - np.mean(result.errors))
        if len(whole) < MIN_RESULTS or first <= bound(whole, seeds, standard_errors):
            whole.append(result)
    saved = (1 - len(whole) / len(drawn)) * (1 - seeds / len(drawn[0].errors))
    return saved, min(result.objective for result in whole) - min(result.objective for result in drawn)


def draw(results: list[Evaluation], count: int, rng: np.random.Generator) -> list[Evaluation]:
    """Draw results without replacement, each with its errors in a random order."""
    chosen = [results[i] for i in rng.choice(len(results), count, replace=False)]
    return [replace(result, errors=tuple(rng.permutation(result.errors).tolist())) for result in chosen]


def main() -> None:
    """Print the table of a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    table = read_table(options.file)
    results = [result for row in range(len(table)) if (result := table.result(row).evaluation) is not None]
    seeds = len(results[0].errors)
    print(f"configurations = {len(results)}, seeds = {seeds}, repeats = {options.repeats}\n")
    print("| configurations drawn | first seeds | standard errors | saved | best one stopped | incumbent higher by |")
    print("|---|---|---|---|---|---|")
    for count in (30, 100):
        for first in range(1, seeds):
            for errors in (1.0, STANDARD_ERRORS, 3.0):
                rng = np.random.default_rng(options.seed)  # the same draws for each
                races = [race(draw(results, count, rng), first, errors) for _ in range(options.repeats)]
                saved, higher = np.array(races).T
                print(
                    f"| {count} | {first} | {errors:g} | {saved.mean():.0%} | {(higher > 0).mean():.2%} "
                    f"| {higher.mean():.5f} |"
                )


if __name__ == "__main__":
    run_command(main)
