"""A support vector regression: 3 nominal and 3 continuous variables, 5 splits of one table.

    objective = root mean squared test error, averaged over the 5 splits

It is SVMBoston-6 of the CoCaBO and BO-FM papers: scikit-learn's NuSVR on standardised features. It is deterministic:
split s is numpy's RandomState(s^2) shuffling the rows, of which the first 70 % are to train on.

On the diabetes table 2,000 random points give 54.4 to 85.5, half of them above 85.4
(`python benchmarks/scales.py --problems nusvr_diabetes`); the linear kernel with C = 10, nu = 0.5 and tolerance 1 gives
54.27. The papers' values are for the Boston housing table, and cannot be compared with these.

That table is not shipped. scikit-learn withdrew it because one of its columns encodes a racist assumption. It is
supported to repeat the published benchmark, from a copy that the user has, and for nothing else.
"""

import os
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from fmnas.search_spaces import Configuration, Nominal, Real, Space
from fmnas.trainers.contract import DataError, optional_module
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings
from fmnas.trainers.tables.tables import Table, sklearn_table, splits, table_problem

SPACE = Space(
    [
        Nominal("kernel", ("linear", "poly", "rbf", "sigmoid")),
        Nominal("gamma", ("scale", "auto")),
        Nominal("shrinking", (True, False)),
        Real("C", 1e-4, 10.0, log=True),
        Real("tolerance", 1e-6, 1.0, log=True),
        Real("nu", 1e-6, 1.0, log=True),
    ]
)


def rmse(table: Table, configuration: Configuration) -> float:
    """The objective, in the unit of the targets."""
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import NuSVR

    parameters = dict(configuration)
    tolerance, values = parameters.pop("tolerance"), []
    for train, test in splits(len(table.targets)):
        scaler = StandardScaler().fit(table.features[train])
        model = NuSVR(tol=tolerance, **parameters)
        model.random_state = 0  # not used, but None would draw a seed from numpy's global generator
        model.fit(scaler.transform(table.features[train]), table.targets[train])
        errors = model.predict(scaler.transform(table.features[test])) - table.targets[test]
        values.append(float(np.sqrt(np.mean(errors**2))))
    return float(np.mean(values))


ROWS, FIELDS = 506, 14
TARGET_MEAN, TARGET_STANDARD_DEVIATION = 22.532806, 9.188012  # of the last column, ddof = 0
HINT = (
    f"svm_boston needs a CSV file of {ROWS} rows and {FIELDS} numeric columns, the last of them the median value "
    f"(mean {TARGET_MEAN}, standard deviation {TARGET_STANDARD_DEVIATION}); header lines are skipped. It is not "
    f"shipped: set data.root or FMNAS_BOSTON to your copy, or run nusvr_diabetes, the same task on data that is"
)


def boston_table(path: str | Path | None) -> Table:
    """13 features and the median value from a CSV file; None: the file in FMNAS_BOSTON.

    Raises DataError: no file is given, it cannot be read, or it has different data. TrainerError without scikit-learn.
    """
    optional_module("sklearn", "svm_boston")
    if not (name := path or os.environ.get("FMNAS_BOSTON")):
        raise DataError(f"no file given. {HINT}")
    try:
        rows = [_parse_row(line) for line in Path(os.path.expanduser(name)).read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{name} cannot be read: {error}. {HINT}") from None
    values = np.array([row for row in rows if row]).reshape(-1, FIELDS)
    targets, expected = values[:, -1].copy(), [TARGET_MEAN, TARGET_STANDARD_DEVIATION]
    if len(values) != ROWS or not np.allclose([targets.mean(), targets.std()], expected, rtol=0, atol=1e-5):
        raise DataError(f"{name} has {len(values)} rows of {FIELDS} finite numbers, or a different last column. {HINT}")
    return Table(values[:, :-1].copy(), targets, "boston", str(name))


def _parse_row(line: str) -> list[float]:
    """The numbers of a line; empty unless it has 14 fields and each is a finite number."""
    try:
        values = [float(field.strip().strip('"')) for field in line.split(",")]
    except ValueError:
        return []
    return values if len(values) == FIELDS and np.isfinite(values).all() else []


def svm_boston(settings: ProblemSettings) -> Problem:
    """The problem on the Boston table, from the file in data.root or FMNAS_BOSTON."""
    return replace(_problem(lambda: boston_table(settings.data.root), "boston", 30.0), has_authors_points=True)


_problem = partial(
    table_problem,
    SPACE,
    rmse,
    objective="The objective is the root mean squared test error, averaged over 5 splits.",
)
NUSVR_DIABETES = _problem(partial(sklearn_table, "diabetes"), "diabetes", 100.0)
SVM_BOSTON = ConfigurableProblem(svm_boston, {"root": None})
