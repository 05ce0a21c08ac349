"""A support vector regression: 3 nominal and 3 continuous variables, 5 splits of one table.

    objective = root mean squared test error, averaged over the 5 splits

It is SVMBoston-6 of the CoCaBO and BO-FM papers: scikit-learn's NuSVR on standardised features. It is deterministic:
split s is numpy's RandomState(s^2) shuffling the rows, of which the first 70 % are to train on.

On the diabetes table 2,000 random points give 54.4 to 85.5, half of them above 85.4
(`python benchmarks/scales.py --problems nusvr_diabetes`); the linear kernel with C = 10, nu = 0.5 and tolerance 1 gives
54.27. The papers' values are for the Boston table, and cannot be compared with these.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fmnas.search_spaces import Configuration, Nominal, Real, Space
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings
from fmnas.trainers.tables.boston import boston_table
from fmnas.trainers.tables.tables import Table, diabetes_table, splits, table_trainer

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


def svm_boston(settings: ProblemSettings) -> Problem:
    """The problem on the Boston table, from the file in data.root or FMNAS_BOSTON."""
    return replace(_problem(lambda: boston_table(settings.data.path), "boston", penalty=30.0), has_authors_points=True)


def _problem(load: Callable[[], Table], dataset: str, penalty: float) -> Problem:
    return Problem(
        space=SPACE,
        build=lambda table, hardware: table_trainer(SPACE, rmse, table, "sklearn.svm", "a support vector regression"),
        penalty=penalty,
        objective="The objective is the root mean squared test error, averaged over 5 splits.",
        dataset=dataset,
        load=load,
    )


NUSVR_DIABETES = _problem(diabetes_table, "diabetes", penalty=100.0)
SVM_BOSTON = ConfigurableProblem(svm_boston, {"root": None})
