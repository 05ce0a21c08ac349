"""retrained.csv: what became of the best configurations when they were trained again. One row per run.

Its columns are those of `fmnas.comparison.numbers.retrained`.

Contract: the file is whole at any moment, and what is in it is on disk before the next training starts.
"""

import csv
import io
import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fmnas.comparison.numbers.retrained import RETRAINED_COLUMNS, TEST_ERROR_SEED, seed_columns
from fmnas.comparison.numbers.retrained import read_retrained as read_table
from fmnas.comparison.numbers.trials import ReportError
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

    def as_options(self) -> str:
        """As the command line takes it."""
        return f"--epochs {self.epochs} --images {self.images} --seeds {self.seeds}"


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


_FIELDS = tuple(name for name in RETRAINED_COLUMNS if name != "test_error")


def retrained_rows(path: Path) -> dict[str, RetrainedRow]:
    """Run -> its row; nothing if there is no file. Raises RunDirectoryError for one that is damaged."""
    if not path.exists():
        return {}
    try:
        table = read_table(path)
        return {row.run: row for row in map(partial(_row, seed_columns(table)), table.to_dict("records"))}
    except (ReportError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{path} is damaged ({error}): move it away and retrain again") from None


def write_retrained(path: Path, rows: Iterable[RetrainedRow]) -> None:
    """Write them all aside, wait until they are on disk, and rename. Raises ExperimentFailed where that cannot be."""
    rows = list(rows)
    text = io.StringIO()
    seeds = max((len(row.errors) for row in rows), default=0)
    place = RETRAINED_COLUMNS.index("test_error") + 1
    header = [
        *RETRAINED_COLUMNS[:place],
        *(f"{TEST_ERROR_SEED}{i}" for i in range(1, seeds + 1)),
        *RETRAINED_COLUMNS[place:],
    ]
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_cells, rows))
    try:
        write_aside(path, text.getvalue().encode())
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and retrain again") from error


def _cells(row: RetrainedRow) -> dict[str, object]:
    errors = {f"{TEST_ERROR_SEED}{i}": error for i, error in enumerate(row.errors, start=1)}
    return {**{name: getattr(row, name) for name in _FIELDS}, "test_error": row.error, **errors}


def _row(seeds: list[str], cells: Mapping[Hashable, Any]) -> RetrainedRow:
    errors = tuple(cells[name] for name in seeds)
    if not errors or any(math.isnan(error) for error in errors):
        raise ValueError(f"{cells['run']} lacks a seed's test error")
    return RetrainedRow(errors=errors, **{name: cells[name] for name in _FIELDS})
