"""How well the surrogate of the joint problem predicts what was recorded after it was fitted.

    python benchmarks/surrogate_forecast.py

A table for each file of later results has the columns of `surrogate.py validate`, for all of them and for those of each
optimizer, and under each what the noise would leave of perfect predictions. Nothing is fitted here: `joint_recorded`
predicts. Later results are at full fidelity, and of networks and schedules that are, up to symmetries, in none of the
files of its fit.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from surrogate_accuracy import HEAD_OF_ACCURACY, line_of_accuracy, line_of_noise_alone
from surrogate_data import read_observations
from surrogate_models import Recorded, arrange

from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.model import Surrogate, read_surrogate
from fmnas.trainers.surrogate.problem import FILE

RECORDED = Path(__file__).parent / "results" / "recorded"
FITTED = (RECORDED / "uniform_800_images_3_epochs.npz", RECORDED / "joint_comparison.npz")
"""What `joint_recorded` was fitted to."""
LATER = (RECORDED / "joint_comparison_60.npz", RECORDED / "uniform_800_images_3_epochs_h200.npz")
"""The comparison, whose second half is later, and uniform configurations, trained on a GPU, but for the first."""


def find_later(recorded: Recorded, fitted: int) -> NDArray[np.bool_]:
    """Return which results at full fidelity are of something that none of the first `fitted` observations trained."""
    return recorded.is_full & ~np.isin(recorded.groups, recorded.groups[:fitted])


def lines_of_forecast(recorded: Recorded, later: NDArray[np.bool_], surrogate: Surrogate) -> Iterator[str]:
    """Yield a table of how well later results are predicted."""
    weight, models = surrogate.facts.flops_weight, surrogate.models
    yield from HEAD_OF_ACCURACY
    optimizers = sorted({one.optimizer for one, kept in zip(recorded.observations, later, strict=True) if kept})
    parts = {name: later & recorded.optimizer_is(name) for name in optimizers if len(optimizers) > 1}
    for label, rows in {"all": later, **parts}.items():
        predicted = recorded.predict(models, rows)
        yield line_of_accuracy(label, recorded, rows, predicted, weight)
        yield line_of_noise_alone(f"{label}, by the noise alone", recorded, rows, predicted, weight)


def main() -> None:
    """Print the tables."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    surrogate = read_surrogate(FILE)
    fitted = [read_table(path) for path in FITTED]
    count = len(read_observations(fitted))
    for path in LATER:
        recorded = arrange(read_observations([*fitted, read_table(path)]), surrogate.features)
        print(f"\n{path.name}:\n")
        print("\n".join(lines_of_forecast(recorded, find_later(recorded, count), surrogate)))


if __name__ == "__main__":
    main()
