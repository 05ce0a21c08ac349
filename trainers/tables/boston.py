"""The Boston housing table, read from a file that the user provides: it is not shipped.

scikit-learn withdrew it because one of its columns encodes a racist assumption. It is supported to repeat a published
benchmark, from a copy that the user has, and for nothing else. `nusvr_diabetes` is the same task on other data.
"""

import os
from pathlib import Path

import numpy as np

from fmnas.trainers.contract import DataError
from fmnas.trainers.tables.tables import Table

ROWS, FIELDS = 506, 14
TARGET_MEAN, TARGET_STANDARD_DEVIATION = 22.532806, 9.188012  # of the last column, ddof = 0
HINT = (
    f"svm_boston needs a CSV file of {ROWS} rows and {FIELDS} numeric columns, the last of them the median value "
    f"(mean {TARGET_MEAN}, standard deviation {TARGET_STANDARD_DEVIATION}); header lines are skipped. It is not "
    f"shipped: set data.root or FMNAS_BOSTON to your copy, or run nusvr_diabetes, the same task on data that is"
)


def boston_table(path: Path | None) -> Table:
    """13 features and the median value from a CSV file; None: the file in FMNAS_BOSTON.

    Raises DataError: no file is given, it cannot be read, or it has different data.
    """
    if not (name := path or os.environ.get("FMNAS_BOSTON")):
        raise DataError(f"no file given. {HINT}")
    try:
        path = Path(name).expanduser()
        rows = [_parse_row(line) for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError, RuntimeError) as error:  # RuntimeError: an unknown home folder
        raise DataError(f"{name} cannot be read: {error}. {HINT}") from None
    values = np.array([row for row in rows if row])
    if len(values) != ROWS:
        raise DataError(f"{path} has {len(values)} rows of {FIELDS} finite numbers, not {ROWS}. {HINT}")
    targets = values[:, -1].copy()
    moments = float(targets.mean()), float(targets.std())
    if not np.allclose(moments, [TARGET_MEAN, TARGET_STANDARD_DEVIATION], rtol=0, atol=1e-5):
        raise DataError(f"{path} has different data: mean and deviation of its last column are {moments}. {HINT}")
    return Table(values[:, :-1].copy(), targets, "boston", str(path))


def _parse_row(line: str) -> list[float]:
    """The numbers of a line; empty unless it has 14 fields and each is a finite number."""
    try:
        values = [float(field.strip().strip('"')) for field in line.split(",")]
    except ValueError:
        return []
    return values if len(values) == FIELDS and np.isfinite(values).all() else []
