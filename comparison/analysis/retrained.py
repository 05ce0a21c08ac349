"""The best configurations retrained with new seeds, and evaluated on test images that no search has used.

The lowest of many noisy errors is biased downwards. The test errors are not, if the retraining had at least the epochs,
images and seeds of the search. They are in retrained.csv, a row per retrained configuration:

| columns | meaning |
|---|---|
| run, optimizer, repeat, trial | the run, and its best trial |
| selected_objective, selected_error | what the search measured, and selected it for |
| test_error, test_error_seed_1.. | the share of test images classified wrongly: mean, and of each new seed |
| epochs, images, test_images | number of epochs, of training images, and of test images |
| train_seconds, started_at, finished_at, worker | the evaluation |
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.curves import standard_error
from fmnas.comparison.analysis.paired_tests import ALL, Comparisons, compare
from fmnas.comparison.analysis.resampling import mean_interval

TEST_ERROR_SEED = "test_error_seed_"


@dataclass(frozen=True)
class RetrainedBest:
    """One retrained configuration: what it was selected for, and its test error.

    error: mean of `errors`, one per new seed. standard_error: over the seeds; NaN with one. seconds: of training.
    """

    run: str
    optimizer: str
    repeat: int
    trial: int
    selected_objective: float
    selected_error: float
    error: float
    standard_error: float
    errors: tuple[float, ...]
    seconds: float


@dataclass(frozen=True)
class RetrainedMean:
    """An optimizer's test error over its repeats, with equal weights.

    standard_error, and the 95% bootstrap interval low, high: over the repeats; NaN with one.
    """

    optimizer: str
    selected_error: float
    error: float
    standard_error: float
    low: float
    high: float
    repeats: int


@dataclass(frozen=True)
class Retrained:
    """All retrained configurations, the means with the lowest test error first, and the tests of the test errors.

    epochs, images, seeds, test_images: the same for all rows. tests: paired by repeat, as those of the search.
    """

    epochs: int
    images: int
    seeds: int
    test_images: int
    rows: tuple[RetrainedBest, ...]
    means: tuple[RetrainedMean, ...]
    tests: Comparisons


def seed_columns(table: pd.DataFrame) -> list[str]:
    """The columns with the test error of each new seed."""
    return [str(name) for name in table if str(name).startswith(TEST_ERROR_SEED)]


def reduced_settings(retrained: Retrained | None, full_training: Mapping[str, int]) -> list[str]:
    """The settings in which a retraining had less than the search's full trainings, e.g. ["epochs 1 of 3"].

    full_training: the known ones of epochs, images and seeds in the search.
    """
    had = {name: getattr(retrained, name) for name in full_training} if retrained else {}
    return [f"{name} {least} of {full_training[name]}" for name, least in had.items() if least < full_training[name]]


def retrained_summary(table: pd.DataFrame | None, hypotheses: str = ALL) -> Retrained | None:
    """The summary of a table of the columns above, all rows with the same settings; None without a row.

    hypotheses: which pairs are tested.
    """
    if table is None or table.empty:
        return None
    seeds, settings = seed_columns(table), table.iloc[0]
    by_repeat = table.groupby(["optimizer", "repeat"])[["selected_error", "test_error"]].mean()
    means = [_mean(str(name), mine) for name, mine in by_repeat.groupby(level="optimizer")]
    means.sort(key=lambda row: (row.error, row.optimizer))
    errors = {row.optimizer: by_repeat["test_error"].loc[row.optimizer].to_dict() for row in means}
    return Retrained(
        epochs=int(settings["epochs"]),
        images=int(settings["images"]),
        seeds=len(seeds),
        test_images=int(settings["test_images"]),
        rows=tuple(_row(row, seeds) for row in table.to_dict("records")),
        means=tuple(means),
        tests=compare(errors, hypotheses),
    )


def _row(row: dict[Any, Any], seeds: list[str]) -> RetrainedBest:
    errors = tuple(float(row[name]) for name in seeds)
    return RetrainedBest(
        **{name: row[name] for name in ("run", "optimizer", "repeat", "trial", "selected_objective", "selected_error")},
        error=row["test_error"],
        standard_error=float(standard_error(np.array(errors))),
        errors=errors,
        seconds=row["train_seconds"],
    )


def _mean(optimizer: str, by_repeat: pd.DataFrame) -> RetrainedMean:
    errors = by_repeat["test_error"].to_numpy(dtype=float)
    low, high = map(float, mean_interval(errors))
    selected, error = float(by_repeat["selected_error"].mean()), float(errors.mean())
    return RetrainedMean(optimizer, selected, error, float(standard_error(errors)), low, high, len(errors))
