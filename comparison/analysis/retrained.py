"""The best configurations trained anew, with fresh seeds, and tested on images that no search has seen.

The lowest of many noisy errors is too good to be true; these are the errors to believe, where the trainings had as
many epochs, images and seeds as the search's. They are in retrained.csv, a row per retrained configuration:

| columns | meaning |
|---|---|
| run, optimizer, repeat, trial | whose best trial it is |
| selected_objective, selected_error | what the search measured: what it was selected for |
| test_error, test_error_seed_1.. | the share of test images classified wrongly: mean, and of each fresh seed |
| epochs, images, test_images | what it was trained for, on how many images, and tested on how many |
| train_seconds, started_at, finished_at, worker | the evaluation itself |
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
    "run": "object",
    "optimizer": "object",
    "repeat": "int64",
    "trial": "int64",
    "selected_objective": "float64",
    "selected_error": "float64",
    "test_error": "float64",
    "epochs": "int64",
    "images": "int64",
    "test_images": "int64",
    "train_seconds": "float64",
    "started_at": "object",
    "finished_at": "object",
    "worker": "object",
}
RETRAINED_COLUMNS = tuple(_DTYPES)
"""Of every such file; test_error_seed_1.. stand between test_error and epochs."""
TEST_ERROR_SEED = "test_error_seed_"


@dataclass(frozen=True)
class RetrainedBest:
    """One configuration trained anew: what it was selected for, and what it is worth.

    error: mean of `errors`, one per fresh seed. standard_error: over the seeds; NaN with one. seconds: of training.
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
    """An optimizer's test error over its repeats, each of which weighs the same.

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
    """All configurations trained anew, the means with the lowest test error first, and the tests of these errors.

    epochs, images, test_images: None where the rows differ. seeds: the most that any row has. tests: paired by repeat,
    as those of the search; none where the rows `differ`.
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
        """In what not all were trained or tested alike, as where several directories are put together."""
        unlike = {
            "epochs": self.epochs is None,
            "images": self.images is None,
            "seeds": len({len(row.errors) for row in self.rows}) > 1,
            "test images": self.test_images is None,
        }
        return tuple(name for name, differs in unlike.items() if differs)


def read_retrained(path: Path) -> pd.DataFrame:
    """The table of a retrained.csv. Raises ReportError, naming file and column, where it does not parse."""
    try:
        table = pd.read_csv(path, dtype=object, keep_default_na=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ReportError(f"cannot read {path}: {reason}; retrain again, or remove it for a report without") from error
    missing = [name for name in RETRAINED_COLUMNS if name not in table]
    if missing:
        raise ReportError(f"{path}: column {missing[0]!r} is missing; it has {', '.join(RETRAINED_COLUMNS)}")
    for name in (*RETRAINED_COLUMNS, *seed_columns(table)):
        dtype = _DTYPES.get(name, "float64")
        given = table[name].where(table[name] != "", None) if dtype == "float64" else table[name]
        try:
            table[name] = given.astype(dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ReportError(f"{path}: column {name!r} does not parse: {error}; retrain again") from error
    return table


def seed_columns(table: pd.DataFrame) -> list[str]:
    """The columns with the test error of each fresh seed."""
    return [str(name) for name in table.columns if re.fullmatch(rf"{TEST_ERROR_SEED}\d+", str(name))]


def shortfalls(table: pd.DataFrame | None, searched: Mapping[str, int]) -> list[str]:
    """In what the trainings of the table of `read_retrained` had less than the search's, e.g. ["epochs 1 of 3"].

    searched: the epochs, images and seeds of a full training of the search, as far as they are known.
    """
    if table is None or table.empty:
        return []
    seeds = int(table[seed_columns(table)].notna().sum(axis=1).min())
    least = {"epochs": int(table["epochs"].min()), "images": int(table["images"].min()), "seeds": seeds}
    return [f"{name} {least[name]} of {full}" for name, full in searched.items() if least[name] < full]


def retrained_summary(table: pd.DataFrame | None, hypotheses: str = ALL) -> Retrained | None:
    """What the table of `read_retrained` says; None without any row. hypotheses: which pairs are tested."""
    if table is None or table.empty:
        return None
    seeds = seed_columns(table)
    by_repeat = table.groupby(["optimizer", "repeat"])[["selected_error", "test_error"]].mean()
    means = [_mean(str(name), mine) for name, mine in by_repeat.groupby(level="optimizer")]
    means.sort(key=lambda row: (row.error, row.optimizer))
    found = Retrained(
        epochs=_common(table["epochs"]),
        images=_common(table["images"]),
        seeds=len(seeds),
        test_images=_common(table["test_images"]),
        rows=tuple(_row(row, seeds) for row in table.to_dict("records")),
        means=tuple(means),
        tests=compare({}, hypotheses),
    )
    errors = {row.optimizer: by_repeat["test_error"].loc[row.optimizer].to_dict() for row in means}
    return found if found.differ else replace(found, tests=compare(errors, hypotheses))


def _common(column: "pd.Series[int]") -> int | None:
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
    selected = float(by_repeat["selected_error"].mean())
    return RetrainedMean(
        optimizer, selected, float(errors.mean()), float(standard_error(errors)), low, high, len(errors)
    )
