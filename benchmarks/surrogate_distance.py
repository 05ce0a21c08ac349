"""Whether the surrogate of the joint problem predicts worse far from what was recorded.

    python benchmarks/surrogate_distance.py FILE.npz [FILE.npz ...]

FILE: as for surrogate.py. Distances are those of `RecordedPoints`, with which the package finds what is far. Each
result at full fidelity is predicted by models that saw nothing of a tenth of what was trained, its own included. The
table shows the errors of these predictions by the distance to the nearest training that the models saw.
"""

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from command import run_command
from scipy.stats import spearmanr
from surrogate_accuracy import divide, predict_in_parts
from surrogate_data import read_observations
from surrogate_models import Recorded, arrange, measure_flops, place_points

from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.features import Features

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def lines_of_errors(recorded: Recorded) -> Iterator[str]:
    """Yield a table of the errors of predictions by distance."""
    points, parts, predicted = place_points(recorded), divide(recorded.groups), predict_in_parts(recorded)
    full = recorded.is_full
    errors = np.abs(recorded.targets["error"] - predicted["error"])
    rows = np.flatnonzero(full & ~np.isnan(errors))
    distances = np.array([points.distances(recorded.X[row])[parts[full] != parts[row]].min() for row in rows])
    bounds = np.quantile(distances, QUARTERS)
    yield "| distance to the nearest training | results | median error of log error | 90% are below |"
    yield "|---|---|---|---|"
    for low, high in pairwise(bounds):
        inside = errors[rows][(distances >= low) & ((distances < high) | (high == bounds[-1]))]
        yield f"| {low:.2f} to {high:.2f} | {len(inside)} | {np.median(inside):.3f} | {np.quantile(inside, 0.9):.3f} |"
    rank, p = spearmanr(distances, errors[rows])
    yield f"rank correlation of distance and error = {rank:.2f} (p = {p:.2g})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    arguments = parser.parse_args()
    observations = read_observations([read_table(path) for path in arguments.files])
    features = Features(measure_flops(), max(one.length for one in observations))
    print("\n".join(lines_of_errors(arrange(observations, features))))


if __name__ == "__main__":
    run_command(main)
