"""A support vector regression to tune: 3 nominal and 3 continuous variables, 5 splits of one table.

    objective = root mean squared error on the part left out, averaged over the 5 splits

It is SVMBoston-6 of the CoCaBO and BO-FM papers: scikit-learn's NuSVR on standardised features. Nothing is random:
split s is numpy's RandomState(s^2) shuffling the rows, of which the first 70 % train.

On the diabetes table 2,000 random points give 54.4 to 85.5, half of them above 85.4
(`python benchmarks/scales.py --problems nusvr_diabetes`); the linear kernel with C = 10, nu = 0.5 and tolerance 1 gives
54.27, as a test says. The papers' values are of the Boston table: these have nothing to do with them.
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
    tolerance, found = parameters.pop("tolerance"), []
    for train, test in splits(len(table.targets)):
        scaler = StandardScaler().fit(table.features[train])
        model = NuSVR(tol=tolerance, **parameters)
        model.random_state = 0  # a regression draws nothing, but would take a seed from numpy's global generator
        model.fit(scaler.transform(table.features[train]), table.targets[train])
        errors = model.predict(scaler.transform(table.features[test])) - table.targets[test]
        found.append(float(np.sqrt(np.mean(errors**2))))
    return float(np.mean(found))


def svm_boston(settings: ProblemSettings) -> Problem:
    """On the Boston table, from the file that data.root or FMNAS_BOSTON names."""
    return replace(_problem(lambda: boston_table(settings.data.path), "boston", penalty=30.0), has_authors_points=True)


def _problem(load: Callable[[], Table], dataset: str, penalty: float) -> Problem:
    return Problem(
        space=SPACE,
        build=lambda table, hardware: table_trainer(SPACE, rmse, table, "sklearn.svm", "a support vector regression"),
        penalty=penalty,
        objective="The objective is the root mean squared error on what is left out, averaged over 5 splits.",
        dataset=dataset,
        load=load,
    )


NUSVR_DIABETES = _problem(diabetes_table, "diabetes", penalty=100.0)
SVM_BOSTON = ConfigurableProblem(svm_boston, {"root": None})
