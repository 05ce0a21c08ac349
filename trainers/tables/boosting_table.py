"""MiVaBO's task of tuning xgboost, from a table of 2,000 real trainings: 3 discrete and 7 continuous variables.

    objective = the recorded error of the nearest configuration

| variable | values |
|---|---|
| booster | gbtree, gblinear |
| nrounds | 32 numbers from 3 to 5,000, equally spaced on a log scale, in order |
| max_depth | 1..15, in order |
| alpha | [0.000985, 1009.20969], log scale |
| lambda | [0.000978, 999.020893], log scale |
| eta | [0.000979, 0.995686], log scale |
| min_child_weight | [1.012169, 127.041806], log scale |
| colsample_bylevel | [0.046776, 0.998424] |
| colsample_bytree | [0.062528, 0.99964] |
| subsample | [0.100215, 0.99983] |

The variables and their ranges are those of Daxberger et al. 2019, Table 5. That task looks up 45,000 evaluations of
OpenML, which are not shipped; this table is our own, so values cannot be compared. Of the two scales, which the paper
does not state, the logarithmic one is taken where the ends are near powers of two (2^-10, 2^7, 2^10). nrounds is on a
grid, because a kernel on the graph of all 4,998 numbers would be larger than Gaussian processes here allow. For
gblinear the variables of trees have no effect on a training, but on which configuration is nearest.

The nearest is that of the least Euclidean distance where each variable is scaled to [0, 1]: a continuous one on its
scale, an ordered one by its place in the list, the booster as 0 or 1.

An error is that of 3-fold cross-validation on scikit-learn's breast_cancer (569 rows, 30 features, 2 classes), so a
multiple of 1/569. On that table the errors are graded: gbtree reaches 0.021, gblinear 0.047, and 42 % guess (0.373).
MiVaBO's monks-problem-1 can be generated exactly, but most random configurations guess on it, and few make no error.

`xgb_table.csv.gz` has the configurations and errors, drawn uniformly from the space; `xgb_table.json` says how and
when they were recorded, by `benchmarks/record_xgb_table.py`. The minimum, 12/569, is that of the table, which has it
once.
"""

import csv
import gzip
import hashlib
import io
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fmnas.search_spaces import Configuration, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import Floats
from fmnas.trainers.tables.tables import table_problem

FILE = Path(__file__).with_name("xgb_table.csv.gz")
ERROR = "error"
"""The column of errors; the others are the variables."""

FEWEST_ROUNDS, MOST_ROUNDS, ROUNDS = 3, 5000, 32

SPACE = Space(
    [
        Nominal("booster", ("gbtree", "gblinear")),
        Ordinal("nrounds", tuple(np.geomspace(FEWEST_ROUNDS, MOST_ROUNDS, ROUNDS).round().astype(int).tolist())),
        Integer("max_depth", 1, 15),
        Real("alpha", 0.000985, 1009.20969, log=True),
        Real("lambda", 0.000978, 999.020893, log=True),
        Real("eta", 0.000979, 0.995686, log=True),
        Real("min_child_weight", 1.012169, 127.041806, log=True),
        Real("colsample_bylevel", 0.046776, 0.998424),
        Real("colsample_bytree", 0.062528, 0.99964),
        Real("subsample", 0.100215, 0.99983),
    ]
)


@dataclass(frozen=True, eq=False)
class RecordedErrors:
    """The errors [n] of configurations X [n, 10], each variable scaled to [0, 1].

    name: of the data set. place: where it was found. digest: SHA-256 of the file.
    """

    X: Floats
    errors: Floats
    name: str
    place: str
    digest: str

    def nearest_error(self, configuration: Configuration) -> float:
        """Return the error of the nearest configuration; of several, the first in the table."""
        distances = np.square(self.X - scale(SPACE.encode(configuration))).sum(axis=1)
        return float(self.errors[distances.argmin()])


def scale(X: Floats) -> Floats:
    """Scale encoded configurations [..., 10]: a discrete variable's place in its list becomes a number in [0, 1]."""
    return X / [*(1.0 for _ in SPACE.continuous), *(len(v.vertices) - 1.0 for v in SPACE.discrete)]


def read_rows(content: bytes) -> list[tuple[Configuration, float]]:
    """Return the configurations and their errors of a compressed table with a header."""
    rows = csv.DictReader(io.StringIO(gzip.decompress(content).decode()))
    return [({name: _parse(name, row[name]) for name in SPACE.names}, float(row[ERROR])) for row in rows]


def _parse(name: str, text: str) -> Any:
    return text if name == "booster" else int(text) if name in ("nrounds", "max_depth") else float(text)


def read_table() -> RecordedErrors:
    """Return the shipped table."""
    content = FILE.read_bytes()
    configurations, errors = zip(*read_rows(content), strict=True)
    digest = hashlib.sha256(content).hexdigest()
    return RecordedErrors(scale(SPACE.encode_all(configurations)), np.array(errors), "xgb_table", "fmnas", digest)


XGB_TABLE = replace(
    table_problem(
        SPACE,
        RecordedErrors.nearest_error,
        read_table,
        dataset="xgb_table",
        penalty=1.0,
        objective="The objective is the recorded cross-validation error of the nearest of 2,000 configurations.",
    ),
    minimum=12 / 569,
)
