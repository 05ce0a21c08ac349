"""retrained.csv: what became of the best configurations when they were trained again. One row per run.

| columns | meaning |
|---|---|
| run, optimizer, repeat, trial | whose configuration it is |
| selected_objective, selected_error | what the search had measured, by which it was chosen |
| test_error, test_error_seed_1.. | errors on the test images: their mean, and of each fresh seed |
| epochs, images, test_images | of each training: epochs, images to train on, images to test on |
| train_seconds, started_at, finished_at, worker | of all trainings of the row |

Contract: the file is whole at any moment, and what is in it is on disk before the next training starts.
"""

import csv
import io
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError


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
class Retrained:
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


_KINDS: dict[str, Callable[[str], Any]] = {
    "run": str,
    "optimizer": str,
    "repeat": int,
    "trial": int,
    "selected_objective": float,
    "selected_error": float,
    "epochs": int,
    "images": int,
    "test_images": int,
    "train_seconds": float,
    "started_at": str,
    "finished_at": str,
    "worker": str,
}
"""Column -> how its text is read; the errors stand before `epochs`."""

_SEED = "test_error_seed_"


def read_retrained(path: Path) -> dict[str, Retrained]:
    """Run -> its row; nothing if there is no file. Raises RunDirectoryError for one that is damaged."""
    if not path.exists():
        return {}
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = {*_KINDS, f"{_SEED}1"} - {*(reader.fieldnames or ())}
            if missing:
                raise ValueError(f"column {min(missing)!r} is missing")
            return {row.run: row for row in map(_row, reader)}
    except (OSError, TypeError, ValueError, csv.Error) as error:
        raise RunDirectoryError(
            f"{path} is damaged ({type(error).__name__}: {error}): move it away and retrain again"
        ) from None


def write_retrained(path: Path, rows: Iterable[Retrained]) -> None:
    """Write them all aside, wait until they are on disk, and rename. Raises ExperimentFailed where that cannot be."""
    rows = list(rows)
    text = io.StringIO()
    seeds = max((len(row.errors) for row in rows), default=0)
    names = [*_KINDS]
    place = names.index("epochs")
    header = [*names[:place], "test_error", *(f"{_SEED}{i}" for i in range(1, seeds + 1)), *names[place:]]
    writer = csv.DictWriter(text, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_cells, rows))
    aside = path.with_name(f".{path.name}.part")
    try:
        with aside.open("w") as file:
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and retrain again") from error


def _cells(row: Retrained) -> dict[str, object]:
    errors = {f"{_SEED}{i}": error for i, error in enumerate(row.errors, start=1)}
    return {**{name: getattr(row, name) for name in _KINDS}, "test_error": row.error, **errors}


def _row(cells: Mapping[str | None, Any]) -> Retrained:
    errors = [float(cells[name]) for name in cells if name is not None and name.startswith(_SEED)]
    return Retrained(errors=tuple(errors), **{name: kind(cells[name]) for name, kind in _KINDS.items()})
