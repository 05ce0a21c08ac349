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

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fmnas.comparison.analysis.curves import standard_error
from fmnas.comparison.analysis.paired_tests import ALL, Comparisons, compare
from fmnas.comparison.analysis.resampling import mean_interval
from fmnas.comparison.analysis.trials import ReportError

_DTYPES: dict[str, Any] = {
    **dict.fromkeys(("run", "optimizer"), "object"),
    **dict.fromkeys(("repeat", "trial"), "int64"),
    **dict.fromkeys(("selected_objective", "selected_error", "test_error"), "float64"),
    **dict.fromkeys(("epochs", "images", "test_images"), "int64"),
    "train_seconds": "float64",
    **dict.fromkeys(("started_at", "finished_at", "worker"), "object"),
}
RETRAINED_COLUMNS = tuple(_DTYPES)
"""The columns of every such file, in order. test_error_seed_1.. follow test_error."""
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

    epochs, images, test_images: None where the rows differ. seeds: the most of any row. tests: paired by repeat, as
    those of the search; none where the rows `differ`.
    """

    epochs: int | None
    images: int | None
    seeds: int
    test_images: int | None
    rows: tuple[RetrainedBest, ...]
    means: tuple[RetrainedMean, ...]
    tests: Comparisons

    @property
    def differ(self) -> tuple[str, ...]:
        """The settings that differ between rows, as when several run directories are combined."""
        differs = {
            "epochs": self.epochs is None,
            "images": self.images is None,
            "seeds": len({len(row.errors) for row in self.rows}) > 1,
            "test images": self.test_images is None,
        }
        return tuple(name for name, differ in differs.items() if differ)


def read_retrained(path: Path) -> pd.DataFrame:
    """The table of a retrained.csv. Raises ReportError, with file and column, where it does not parse."""
    try:
        table = pd.read_csv(path, dtype=object, keep_default_na=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ReportError(
            f"cannot read {path}: {reason}; retrain again, or remove the file for a report without it"
        ) from error
    missing = [name for name in RETRAINED_COLUMNS if name not in table]
    if missing:
        raise ReportError(f"{path}: column {missing[0]!r} is missing; it has {', '.join(RETRAINED_COLUMNS)}")
    for name in (*RETRAINED_COLUMNS, *seed_columns(table)):
        dtype = _DTYPES.get(name, "float64")
        column = table[name].where(table[name] != "", None) if dtype == "float64" else table[name]
        try:
            table[name] = column.astype(dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ReportError(f"{path}: column {name!r} does not parse: {error}; retrain again") from error
    return table


def seed_columns(table: pd.DataFrame) -> list[str]:
    """The columns with the test error of each new seed."""
    return [str(name) for name in table.columns if re.fullmatch(rf"{TEST_ERROR_SEED}\d+", str(name))]


def reduced_settings(table: pd.DataFrame | None, full_training: Mapping[str, int]) -> list[str]:
    """The settings in which a retraining had less than the search's full trainings, e.g. ["epochs 1 of 3"].

    table: that of `read_retrained`. full_training: the known ones of epochs, images and seeds in the search.
    """
    if table is None or table.empty:
        return []
    seeds = int(table[seed_columns(table)].notna().sum(axis=1).min())
    least = {"epochs": int(table["epochs"].min()), "images": int(table["images"].min()), "seeds": seeds}
    return [f"{name} {least[name]} of {full}" for name, full in full_training.items() if least[name] < full]


def retrained_summary(table: pd.DataFrame | None, hypotheses: str = ALL) -> Retrained | None:
    """The summary of the table of `read_retrained`; None without a row. hypotheses: which pairs are tested."""
    if table is None or table.empty:
        return None
    seeds = seed_columns(table)
    by_repeat = table.groupby(["optimizer", "repeat"])[["selected_error", "test_error"]].mean()
    means = [_mean(str(name), mine) for name, mine in by_repeat.groupby(level="optimizer")]
    means.sort(key=lambda row: (row.error, row.optimizer))
    summary = Retrained(
        epochs=_common_value(table["epochs"]),
        images=_common_value(table["images"]),
        seeds=len(seeds),
        test_images=_common_value(table["test_images"]),
        rows=tuple(_row(row, seeds) for row in table.to_dict("records")),
        means=tuple(means),
        tests=compare({}, hypotheses),
    )
    errors = {row.optimizer: by_repeat["test_error"].loc[row.optimizer].to_dict() for row in means}
    return summary if summary.differ else replace(summary, tests=compare(errors, hypotheses))


def _common_value(column: "pd.Series[int]") -> int | None:
    return int(column.iloc[0]) if column.nunique() == 1 else None


def _row(row: dict[Any, Any], seeds: list[str]) -> RetrainedBest:
    errors = [float(row[name]) for name in seeds if row[name] == row[name]]
    return RetrainedBest(
        **{name: row[name] for name in ("run", "optimizer", "repeat", "trial", "selected_objective", "selected_error")},
        error=row["test_error"],
        standard_error=float(standard_error(np.array(errors))),
        errors=tuple(errors),
        seconds=row["train_seconds"],
    )


def _mean(optimizer: str, by_repeat: pd.DataFrame) -> RetrainedMean:
    errors = by_repeat["test_error"].to_numpy(dtype=float)
    low, high = map(float, mean_interval(errors))
    selected, error = float(by_repeat["selected_error"].mean()), float(errors.mean())
    return RetrainedMean(optimizer, selected, error, float(standard_error(errors)), low, high, len(errors))
