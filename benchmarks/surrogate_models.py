"""The models of the surrogate of the joint problem, fitted to observations (surrogate_data.py)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor
from surrogate_data import Floats, Observation, targets_of

from fmnas.search_spaces import Cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images.network import count_flops
from fmnas.trainers.surrogate.features import Features, FlopsCosts, RecordedPoints
from fmnas.trainers.surrogate.model import MODELS
from fmnas.trainers.surrogate.trees import Trees

LARGE, SMALL = {"n_estimators": 500, "learning_rate": 0.03}, {"n_estimators": 150, "learning_rate": 0.05}
COMMON = {"max_depth": 4, "subsample": 0.5, "max_features": 0.25, "min_samples_leaf": 4, "random_state": 0}
SETTINGS: dict[str, dict[str, Any]] = {
    "error": LARGE,
    "spread": {**SMALL, "max_depth": 2, "min_samples_leaf": 20},
    "guessing": {**SMALL, "min_samples_leaf": 8},
    "seconds": LARGE,
}
"""Of the gradient boosting behind each model."""
FAR = 0.95
"""The share of the recorded trainings that are not far from the others."""


def fit_models(X: NDArray[np.float32], targets: dict[str, Floats]) -> dict[str, Trees]:
    """Fit each model to the rows that have its target; features X [n, F]."""
    models = {}
    for name in MODELS:
        known = ~np.isnan(targets[name])
        models[name] = to_trees(
            GradientBoostingRegressor(**{**COMMON, **SETTINGS[name]}).fit(X[known], targets[name][known])
        )
    return models


def to_trees(fitted: GradientBoostingRegressor) -> Trees:
    """Return scikit-learn's ensemble as arrays."""
    parts, roots, first = [], [], 0
    for tree in (estimator.tree_ for estimator in fitted.estimators_[:, 0]):
        nodes = np.arange(tree.node_count)
        is_leaf = tree.children_left < 0
        low, high = (
            np.where(is_leaf, nodes, children) + first for children in (tree.children_left, tree.children_right)
        )
        features, thresholds = np.where(is_leaf, 0, tree.feature), np.where(is_leaf, 0.0, tree.threshold)
        parts.append((features, thresholds, low, high, fitted.learning_rate * tree.value[:, 0, 0]))
        roots.append(first)
        first += tree.node_count
    features, thresholds, low, high, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Trees(
        np.array(roots, dtype=np.int32),
        features.astype(np.int16),
        thresholds,
        low.astype(np.int32),
        high.astype(np.int32),
        values,
        np.array(fitted.init_.constant_.item()),
    )


@dataclass(frozen=True)
class Recorded:
    """Observations as arrays. X: [n, F]. fit_rows: fits the models to some of them."""

    observations: Sequence[Observation]
    X: NDArray[np.float32]
    targets: dict[str, Floats]
    fit_rows: Callable[[NDArray[np.float32], dict[str, Floats]], dict[str, Any]] = fit_models

    @property
    def groups(self) -> NDArray[np.int64]:
        """What was trained, [n]."""
        return np.array([observation.group for observation in self.observations])

    @property
    def is_full(self) -> NDArray[np.bool_]:
        """Which observations are results at full fidelity, [n]."""
        most = max(one.length for one in self.observations)
        return np.array([one.is_last and one.length == most for one in self.observations])

    def optimizer_is(self, name: str) -> NDArray[np.bool_]:
        """Which observations an optimizer asked for, [n]."""
        return np.array([observation.optimizer == name for observation in self.observations])

    @property
    def repeats(self) -> NDArray[np.int64]:
        """The repeat of each observation, [n]."""
        return np.array([observation.repeat for observation in self.observations])

    def fit(self, rows: NDArray[np.bool_]) -> dict[str, Trees]:
        """Fit models to these rows."""
        return self.fit_rows(self.X[rows], {name: target[rows] for name, target in self.targets.items()})

    def predict(self, models: Mapping[str, Trees], rows: NDArray[np.bool_]) -> dict[str, Floats]:
        """Predict these rows."""
        return {name: np.array([trees.predict(x) for x in self.X[rows]]) for name, trees in models.items()}


def arrange(observations: Sequence[Observation], features: Features) -> Recorded:
    """Return observations as arrays."""
    X = np.stack([features.vector(one.configuration, one.length, one.epoch) for one in observations])
    return Recorded(observations, X, targets_of(observations, features.most))


def place_points(recorded: Recorded) -> RecordedPoints:
    """Return the results at full fidelity as points. The limit: FAR of them have another training within it."""
    X, groups = recorded.X[recorded.is_full], recorded.groups[recorded.is_full]
    deviations = recorded.X.std(axis=0, dtype=float)
    points = RecordedPoints(np.ascontiguousarray(X.T), np.where(deviations > 0, deviations, np.inf), np.inf)
    nearest = [points.distances(x)[groups != group].min() for x, group in zip(X, groups, strict=True)]
    return replace(points, limit=float(np.quantile(nearest, FAR)))


def measure_flops() -> FlopsCosts:
    """Return what an operation costs, by exchanging one of a cell whose states are all live."""
    inputs = ((-1, 0), (0, 1), (1, 2), (2, 3))

    def count(*first: str) -> int:
        names = [*first, *["identity"] * (8 - len(first))]
        return count_flops(Cell(inputs, tuple(zip(names[::2], names[1::2], strict=True)), output=3))

    constant = count()
    costs = {name: count(name) - constant for name in OPERATIONS}
    return FlopsCosts(constant, costs, count(*["conv5x5"] * 8))
