"""How well the surrogate of the joint problem predicts what was recorded after it was fitted.

    python benchmarks/surrogate_forecast.py benchmarks/results/recorded/joint_comparison_60.npz

Every result at full fidelity whose network and schedule, the same up to symmetries, are in none of the files that the
surrogate was fitted to; of each optimizer and of all, in the columns of `surrogate.py validate`. Unlike there, nothing
is fitted: these are the predictions of `joint_recorded`.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from surrogate import HEAD_OF_ACCURACY, Recorded, arrange, line_of_accuracy, line_of_noise_alone, read_observations

from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.model import Surrogate, read_surrogate
from fmnas.trainers.surrogate.problem import FILE

RECORDED = Path(__file__).parent / "results" / "recorded"
FITTED = (RECORDED / "uniform_800_images_3_epochs.npz", RECORDED / "joint_comparison.npz")
"""What `joint_recorded` was fitted to."""


def find_later(recorded: Recorded, fitted: int) -> NDArray[np.bool_]:
    """Return which results at full fidelity are of something that none of the first `fitted` observations trained."""
    return recorded.is_full & ~np.isin(recorded.groups, recorded.groups[:fitted])


def lines_of_forecast(recorded: Recorded, later: NDArray[np.bool_], surrogate: Surrogate) -> Iterator[str]:
    """Yield a table of how well later results are predicted."""
    weight = surrogate.facts.flops_weight
    models = dict(surrogate.models)
    yield from HEAD_OF_ACCURACY
    every = recorded.predict(models, later)
    yield line_of_accuracy("all", recorded, later, every, weight)
    for optimizer in sorted({one.optimizer for one, kept in zip(recorded.observations, later, strict=True) if kept}):
        rows = later & recorded.optimizer_is(optimizer)
        yield line_of_accuracy(optimizer, recorded, rows, recorded.predict(models, rows), weight)
    yield line_of_noise_alone(recorded, later, every, weight)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", type=Path, nargs="+", help="of results that were recorded later")
    arguments = parser.parse_args()
    surrogate = read_surrogate(FILE)
    fitted = read_observations([read_table(path) for path in FITTED])
    every = read_observations([read_table(path) for path in (*FITTED, *arguments.files)])
    recorded = arrange(every, surrogate.features)
    print("\n".join(lines_of_forecast(recorded, find_later(recorded, len(fitted)), surrogate)))


if __name__ == "__main__":
    main()
