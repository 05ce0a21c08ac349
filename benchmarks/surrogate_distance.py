"""Whether the surrogate of the joint problem predicts worse far from what was recorded, and who asks there.

    python benchmarks/surrogate_distance.py FILE.npz [FILE.npz ...] [--runs DIR ...]

FILE: as for surrogate.py. A distance is that of two trainings' features, each divided by its standard deviation over
the recorded ones, as a root mean square. The first table predicts each result at full fidelity by models that saw
nothing of a tenth of what was trained, its own included, and shows the errors of these predictions by the distance to
the nearest training that the models saw. --runs: run directories of joint_recorded; the second table has the share of
each optimizer's trials that are farther from all trainings at full fidelity than FAR of these are from each other.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from surrogate import Floats, Recorded, arrange, divide, measure_flops, predict_in_parts, read_observations

from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.features import Features

Booleans = NDArray[np.bool_]

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
FAR = 0.95


class Recordings:
    """Trainings as points. X: features [n, F]."""

    def __init__(self, X: Floats) -> None:
        self._scale = np.where(X.std(0) > 0, X.std(0), np.inf)
        self._points = X / self._scale

    def distances(self, X: Floats, allowed: Sequence[Booleans]) -> Floats:
        """Return the distance of each of X [m, F] to the nearest training. allowed: of each, which may be it [m, n]."""
        pairs = zip(X / self._scale, allowed, strict=True)
        return np.sqrt([np.square(self._points[may_be] - x).mean(1).min() for x, may_be in pairs])


def lines_of_errors(recorded: Recorded, full: Booleans) -> Iterator[str]:
    """Yield a table of the errors of predictions by distance. full: which results are at full fidelity, [n]."""
    parts, predicted = divide(recorded.groups), predict_in_parts(recorded)
    errors = np.abs(recorded.targets["error"] - predicted["error"])
    rows = np.flatnonzero(full & ~np.isnan(errors))
    seen = [full & (parts != parts[row]) for row in rows]
    distances = Recordings(recorded.X).distances(recorded.X[rows], seen)
    bounds = np.quantile(distances, QUARTERS)
    yield "| distance to the nearest training | results | median error of log error | 90% are below |"
    yield "|---|---|---|---|"
    for low, high in pairwise(bounds):
        inside = errors[rows][(distances >= low) & ((distances < high) | (high == bounds[-1]))]
        yield f"| {low:.2f} to {high:.2f} | {len(inside)} | {np.median(inside):.3f} | {np.quantile(inside, 0.9):.3f} |"
    rank, p = spearmanr(distances, errors[rows])
    yield f"rank correlation of distance and error = {rank:.2f} (p = {p:.2g})"


def lines_of_runs(recorded: Recorded, features: Features, full: Booleans, folders: Sequence[Path]) -> Iterator[str]:
    """Yield each optimizer's share of trials that are far from all recorded trainings at full fidelity."""
    recordings, X, groups = Recordings(recorded.X), recorded.X[full], recorded.groups
    own = recordings.distances(X, [full & (groups != group) for group in groups[full]])
    limit, distances = np.quantile(own, FAR), defaultdict[str, list[float]](list)
    for folder in folders:
        for result in fold(read_events(RunDirectory(folder))).results:
            trial = result.trial
            x = features.vector(trial.configuration, features.most, features.most)
            distances[result.run.split("/")[0]] += recordings.distances(x[None], [full]).tolist()
    yield f"| optimizer | trials | farther than {limit:.2f} from all that are recorded at full fidelity |"
    yield "|---|---|---|"
    for name, values in sorted(distances.items()):
        yield f"| {name} | {len(values)} | {np.mean(np.array(values) > limit):.0%} |"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--runs", type=Path, nargs="*", default=())
    arguments = parser.parse_args()
    observations = read_observations([read_table(path) for path in arguments.files])
    most = max(one.length for one in observations)
    features = Features(measure_flops(), most)
    recorded = arrange(observations, features)
    full = np.array([one.is_last and one.length == most for one in observations])
    print("\n".join(lines_of_errors(recorded, full)))
    if arguments.runs:
        print("\n".join(lines_of_runs(recorded, features, full, arguments.runs)))


if __name__ == "__main__":
    main()
