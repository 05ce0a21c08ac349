"""Recorded trainings as observations: what the surrogate of the joint problem is fitted to (surrogate.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from fmnas.search_spaces import Configuration
from fmnas.trainers.recorded import identify
from fmnas.trainers.recorded_table import RecordedResult, RecordedTable
from fmnas.trainers.split import GUESSING_ERROR

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    """The errors of a training's seeds after `epoch` of its `length` epochs.

    group: what was trained. optimizer: that asked for it. seconds: of all seeds; NaN before the last epoch, and for a
    training on another device than that of the last file. repeat: of the last file's experiment; -1 in other files.
    """

    configuration: Configuration
    length: int
    epoch: int
    errors: tuple[float, ...]
    flops_ratio: float
    seconds: float
    group: int
    optimizer: str
    repeat: int = -1

    @property
    def is_last(self) -> bool:
        """Whether the training ended there."""
        return self.epoch == self.length


def read_observations(tables: Sequence[RecordedTable]) -> list[Observation]:
    """Return what was observed in all finished trials."""
    groups: dict[Any, int] = {}
    observations = []
    last = tables[-1]
    device = next(filter(None, map(device_of, map(last.result, range(len(last))))), None)
    for table in tables:
        is_whole = table.header.settings["data"]["early_validation"] is None
        for row in range(len(table)):
            result = table.result(row)
            if (evaluation := result.evaluation) is None:
                continue
            configuration, length = result.trial.configuration, result.trial.epochs
            group = groups.setdefault(identify(configuration), len(groups))
            optimizer, repeat = result.run.rsplit("/repeat-", 1)
            for epoch in range(1 if is_whole else length, length + 1):
                errors = tuple(curve[epoch - 1] for curve in evaluation.seed_curves)
                is_timed = epoch == length and device_of(result) == device
                seconds = evaluation.seconds if is_timed else np.nan
                rest = evaluation.flops_ratio or 0.0, seconds, group, optimizer, int(repeat) if table is last else -1
                observations.append(Observation(configuration, length, epoch, errors, *rest))
    return observations


def device_of(result: RecordedResult) -> str | None:
    """Return the device that trained, None if it is unknown or the trial failed."""
    conditions = result.evaluation.conditions if result.evaluation else None
    return conditions.device if conditions else None


def targets_of(observations: Sequence[Observation], most: int) -> dict[str, Floats]:
    """Return what each model shall predict; NaN where nothing was observed. most: epochs of the longest training."""
    errors = np.array([observation.errors for observation in observations])
    guesses = errors >= GUESSING_ERROR
    logs = np.log(np.where(guesses, np.nan, np.maximum(errors, 1e-3)))
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = (~guesses).sum(axis=1)
        means = np.nansum(logs, axis=1) / np.where(counts > 0, counts, np.nan)
        deviations = np.where(counts == errors.shape[1], logs.std(axis=1, ddof=1), np.nan)
    freedom = errors.shape[1] - 1
    bias = (digamma(freedom / 2) - np.log(freedom / 2)) / 2  # of the logarithm of a normal sample's deviation
    return {
        "error": means,
        "spread": np.log(np.maximum(deviations, 1e-3)) - bias,
        "guessing": guesses.mean(axis=1),
        "seconds": np.log([one.seconds if one.length == most else np.nan for one in observations]),
    }


def measure_overhead(observations: Sequence[Observation], most: int) -> float:
    """Return what a trial costs besides its epochs, in epochs: by what was trained for one epoch and for `most`."""
    timed = [one for one in observations if not np.isnan(one.seconds)]
    seconds = {(one.group, one.length): one.seconds for one in timed}
    pairs = [(short, seconds.get((group, most))) for (group, length), short in seconds.items() if length == 1]
    ratios = [longest / short for short, longest in pairs if longest is not None]
    ratio = float(np.median(ratios)) if ratios else most
    return max(0.0, (most - ratio) / (ratio - 1.0))
