"""retrained.csv: what became of the best configurations when they were trained again. One row per run.

Its columns are those of `fmnas.comparison.analysis.retrained`.

Contract: the file is whole at any moment, and what is in it is on disk before the next training starts.
"""

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fmnas.comparison.analysis.retrained import RETRAINED_COLUMNS, TEST_ERROR_SEED, seed_columns
from fmnas.comparison.analysis.retrained import read_retrained as read_table
from fmnas.comparison.analysis.trials import ReportError
from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.search_spaces.files import write_aside


@dataclass(frozen=True)
class Scale:
    """What is the same for all rows: epochs and images of a training, and the number of fresh seeds."""

    epochs: int
    images: int
    seeds: int

    def __str__(self) -> str:
        return f"epochs = {self.epochs}, images = {self.images}, seeds = {self.seeds}"


@dataclass(frozen=True)
class RetrainedRow:
    """A row. errors: on the test images, one per seed. started_at, finished_at: UTC, ISO 8601."""

    run: str
    optimizer: str
    repeat: int
    trial: int
    selected_objective: float
    selected_error: float
    errors: tuple[float, ...]
    epochs: int
    images: int
    test_images: int
    train_seconds: float
    started_at: str
    finished_at: str
    worker: str

    @property
    def error(self) -> float:
        """Mean over the seeds."""
        return sum(self.errors) / len(self.errors)

    @property
    def scale(self) -> Scale:
        """How it was trained."""
        return Scale(self.epochs, self.images, len(self.errors))


def retrained_rows(path: Path) -> dict[str, RetrainedRow]:
    """Run -> its row; nothing if there is no file. Raises RunDirectoryError for one that is damaged."""
    if not path.exists():
        return {}
    try:
        table = read_table(path)
        seeds = seed_columns(table)
        return {row.run: row for row in (_row(cells, seeds) for cells in table.to_dict("records"))}
    except (ReportError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged ({error}): move it away and retrain again") from None


def write_retrained(path: Path, rows: Iterable[RetrainedRow]) -> None:
    """Write them all aside, wait until they are on disk, and rename. Raises ExperimentFailed where that cannot be."""
    found = [_cells(row) for row in rows]
    table = pd.DataFrame(found, columns=None if found else RETRAINED_COLUMNS, dtype=object)
    try:
        write_aside(path, table.to_csv(index=False).encode())
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and retrain again") from error


def _cells(row: RetrainedRow) -> dict[str, object]:
    """In the order of the columns."""
    cells: dict[str, object] = {}
    for name in RETRAINED_COLUMNS:
        if name == "test_error":
            seeds = {f"{TEST_ERROR_SEED}{i}": error for i, error in enumerate(row.errors, start=1)}
            cells.update({name: row.error, **seeds})
        else:
            cells[name] = getattr(row, name)
    return cells


def _row(cells: Mapping[Hashable, Any], seeds: list[str]) -> RetrainedRow:
    errors = tuple(cells[name] for name in seeds)
    if not errors or any(math.isnan(error) for error in errors):
        raise ValueError(f"{cells['run']} lacks a seed's test error")
    return RetrainedRow(errors=errors, **{name: cells[name] for name in RETRAINED_COLUMNS if name != "test_error"})
