"""The Boston housing table, which is not held here: it is read from a file of yours.

scikit-learn withdrew it because one of its columns encodes a racist assumption. It is here to repeat a published
benchmark, from a copy that you already have, and for nothing else. `nusvr_diabetes` is the same task on other data.
"""

from pathlib import Path

import numpy as np

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.fashion_mnist import path_from_environment
from fmnas.trainers.tables.tables import Table

ROWS, FIELDS = 506, 14
TARGET_MEAN, TARGET_STANDARD_DEVIATION = 22.532806, 9.188012  # of the last column, ddof = 0

_NEEDED = (
    f"svm_boston needs a CSV file of {ROWS} rows and {FIELDS} numeric columns, the last of them the median value "
    f"(mean {TARGET_MEAN}, standard deviation {TARGET_STANDARD_DEVIATION}); lines of names may come first. It is not "
    f"shipped: name your copy in data.root or FMNAS_BOSTON, or run nusvr_diabetes, the same task on data that are there"
)


def boston_table(path: Path | None) -> Table:
    """The table in a CSV file, the one that FMNAS_BOSTON names if None: 13 features and the median value.

    Raises DataError: no file given, one that cannot be read, or one that holds other data.
    """
    path = path or path_from_environment("FMNAS_BOSTON")
    if path is None:
        raise DataError(f"no file given. {_NEEDED}")
    try:
        path = path.expanduser()
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # the latter for a home that is not known
        raise DataError(f"{str(path)[:200]} cannot be read: {error}. {_NEEDED}") from None
    values = _numeric(lines, path)
    targets = values[:, -1].copy()
    mean, deviation = float(targets.mean()), float(targets.std())
    if not np.allclose([mean, deviation], [TARGET_MEAN, TARGET_STANDARD_DEVIATION], rtol=0, atol=1e-5):
        raise DataError(
            f"{path} holds other data, or its last column is not the median value: that column has mean {mean:.6f} and "
            f"standard deviation {deviation:.6f}. {_NEEDED}"
        )
    return Table(values[:, :-1].copy(), targets, "boston", str(path))


def _numeric(lines: list[str], path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """The rows of numbers [506, 14]: everything below the lines of names."""
    rows = [_row(line) for line in lines if line.strip()]
    first = next((number for number, row in enumerate(rows) if row is not None), len(rows))
    table = [row for row in rows[first:] if row is not None]
    if len(table) != ROWS or len(rows) - first != ROWS:
        raise DataError(f"{path} holds {len(table)} rows of {FIELDS} numbers, not {ROWS} in a row. {_NEEDED}")
    return np.array(table)


def _row(line: str) -> list[float] | None:
    """The numbers of a line, if it has exactly 14 fields and all are finite numbers."""
    fields = line.split(",")
    try:
        values = [float(field.strip().strip('"')) for field in fields]
    except ValueError:
        return None
    return values if len(values) == FIELDS and np.isfinite(values).all() else None
