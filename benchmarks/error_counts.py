"""Errors of small classifiers, which are counts: many configurations have exactly the same one. For suite.py.

Each objective is the share of wrong predictions in five folds of a table of scikit-learn, so a multiple of 1 / rows.

| problem | rows | real | integer or ordinal | nominal | classifier |
|---|---|---|---|---|---|
| knn_wine, knn_digits | 178, 300 | 1 | 1 | 2 | nearest neighbours |
| tree_digits, tree_cancer | 300, 200 | 1 | 3 | 2 | a decision tree |
| svc_wine | 178 | 2 | | 3 | support vectors |
"""

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Integer, Nominal, Real
from fmnas.trainers import objective
from fmnas.trainers.problem import Problem

Configuration = Mapping[str, Any]

SCALING = Nominal("scaling", ("none", "standard", "minmax", "robust"))
NEIGHBOURS = [
    Integer("neighbours", 1, 40),
    Real("power", 0.5, 5.0),
    Nominal("weights", ("uniform", "distance")),
    SCALING,
]
TREE = [
    Real("least_decrease", 1e-5, 0.1, log=True),
    Integer("depth", 1, 15),
    Integer("least_leaf", 1, 20),
    Integer("features", 1, 10),
    Nominal("criterion", ("gini", "entropy", "log_loss")),
    Nominal("splitter", ("best", "random")),
]
SUPPORT_VECTORS = [
    Real("C", 1e-3, 1e4, log=True),
    Real("gamma", 1e-5, 10.0, log=True),
    Nominal("kernel", ("linear", "rbf", "poly", "sigmoid")),
    SCALING,
    Nominal("class_weight", ("equal", "balanced")),
]


@cache
def load_table(name: str, rows: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return X and y of at most `rows` rows of scikit-learn's wine, digits or cancer table, in a fixed order."""
    from sklearn import datasets

    load = {"wine": datasets.load_wine, "digits": datasets.load_digits, "cancer": datasets.load_breast_cancer}[name]
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:rows]
    return X[order], y[order]


def make_scaler(name: str) -> Any:
    """Return a scaler by its value of SCALING."""
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, RobustScaler, StandardScaler

    scalers = {
        "none": FunctionTransformer,
        "standard": StandardScaler,
        "minmax": MinMaxScaler,
        "robust": RobustScaler,
    }
    return scalers[name]()


def count_errors(classifier: Any, scaling: str, X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Return the share of wrong predictions in five folds."""
    from sklearn.model_selection import StratifiedKFold, cross_val_predict
    from sklearn.pipeline import make_pipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that max_iter ended a fit, which is part of the problem
        predicted = cross_val_predict(make_pipeline(make_scaler(scaling), classifier), X, y, cv=StratifiedKFold(5))
    return float((predicted != y).mean())


def neighbours_on(table: str, rows: int) -> Callable[[Configuration], float]:
    """Return the objective of nearest neighbours."""

    def error(configuration: Configuration) -> float:
        from sklearn.neighbors import KNeighborsClassifier

        classifier = KNeighborsClassifier(
            configuration["neighbours"], weights=configuration["weights"], p=configuration["power"], algorithm="brute"
        )
        return count_errors(classifier, configuration["scaling"], *load_table(table, rows))

    return error


def tree_on(table: str, rows: int) -> Callable[[Configuration], float]:
    """Return the objective of a decision tree."""

    def error(configuration: Configuration) -> float:
        from sklearn.tree import DecisionTreeClassifier

        classifier = DecisionTreeClassifier(
            criterion=configuration["criterion"],
            splitter=configuration["splitter"],
            max_depth=configuration["depth"],
            min_samples_leaf=configuration["least_leaf"],
            max_features=configuration["features"],
            min_impurity_decrease=configuration["least_decrease"],
            random_state=0,
        )
        return count_errors(classifier, "none", *load_table(table, rows))

    return error


def support_vectors_on(table: str, rows: int) -> Callable[[Configuration], float]:
    """Return the objective of support vectors."""

    def error(configuration: Configuration) -> float:
        from sklearn.svm import SVC

        weights = None if configuration["class_weight"] == "equal" else "balanced"
        classifier = SVC(
            C=configuration["C"],
            gamma=configuration["gamma"],
            kernel=configuration["kernel"],
            class_weight=weights,
            max_iter=5_000,
        )
        return count_errors(classifier, configuration["scaling"], *load_table(table, rows))

    return error


knn_wine: Problem = objective(NEIGHBOURS)(neighbours_on("wine", 178))
knn_digits: Problem = objective(NEIGHBOURS)(neighbours_on("digits", 300))
tree_digits: Problem = objective(TREE)(tree_on("digits", 300))
tree_cancer: Problem = objective(TREE)(tree_on("cancer", 200))
svc_wine: Problem = objective(SUPPORT_VECTORS)(support_vectors_on("wine", 178))
