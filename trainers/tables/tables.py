"""Tables to learn from: scikit-learn's small ones, and FashionMNIST as a table.

A `Table` has one target per row and is split several times; a table with one fixed split is a `Split`. Arrays may be
read-only and shared by the workers of a machine.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats
from fmnas.trainers.contract import DataError, optional_module
from fmnas.trainers.functions.objective import FunctionTrainer
from fmnas.trainers.images.data import fashion_mnist_set
from fmnas.trainers.problem import Data, Problem
from fmnas.trainers.split import Bytes, Split, permutation

TRAINING_SHARE = 0.7
"""The share of rows to train on, as in the published protocols."""


@dataclass(frozen=True, eq=False)
class Table:
    """Features [n, d] and targets [n] of a regression, or class numbers, float64.

    name: of the data set. place: where it was found.
    """

    features: Floats
    targets: Floats
    name: str
    place: str


def table_problem(
    space: Space, measure: Callable[..., float], load: Callable[[], Data], dataset: str, penalty: float, objective: str
) -> Problem:
    """A problem whose objective is measure(table, configuration), for the `Table` or `Split` that `load` reads.

    objective: a sentence on what `measure` returns.
    """

    def build(table: Any, hardware: object) -> FunctionTrainer:
        return FunctionTrainer(space, partial(measure, table))

    return Problem(space, build, penalty, objective=objective, dataset=dataset, load=load)


def sklearn_table(name: str) -> Table:
    """A table of scikit-learn; TrainerError without that package.

    diabetes: 442 patients, 10 features, the progression of diabetes after a year (Efron et al., 2004).
    wine: 178 wines, 13 measurements, and one of three growers (0, 1, 2) as target (Dua and Graff 2019).
    """
    load = getattr(optional_module("sklearn.datasets", f"the {name} table"), f"load_{name}")
    features, targets = load(return_X_y=True)
    return Table(features, targets.astype(np.float64), name, "scikit-learn")


def splits(count: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The training rows and the test rows of each of the 5 splits of the published protocols."""
    for split in range(5):
        order = np.arange(count)
        np.random.RandomState(split**2).shuffle(order)
        size = int(TRAINING_SHARE * count)
        yield order[:size], order[size:]


def digits_table(scaled: bool = False) -> Split:
    """scikit-learn's 1,797 handwritten digits as 64 grey levels: 1,257 to train and 540 to validate on.

    scaled: HyBO's preprocessing, with grey levels in [0, 1] and `train_test_split` with seed 42; otherwise stratified
    with seed 0; both as in the published code. The scale includes the validation rows.
    """
    digits = optional_module("sklearn.datasets", "the digits table").load_digits()
    from sklearn.model_selection import train_test_split
    from sklearn.preprocessing import MinMaxScaler

    inputs = MinMaxScaler().fit_transform(digits.data) if scaled else digits.data
    labels = digits.target.astype(np.uint8)
    settings = {"stratify": None, "random_state": 42} if scaled else {"stratify": labels, "random_state": 0}
    train, validation, train_labels, validation_labels = train_test_split(
        inputs, labels, train_size=TRAINING_SHARE, **settings
    )
    return Split(train, train_labels, validation, validation_labels, "digits", "scikit-learn")


def fashion_mnist_table(train: int, validation: int, root: str | Path | None = None) -> Split:
    """All 70,000 images of FashionMNIST as 784 grey levels: of each class the first 70 % to train on, others held out.

    This is the protocol of the XGBFashionMNIST benchmark. Its images are the training images, then the test images.
    train, validation: 1 to 49,000 and 1 to 21,000; fewer are a fixed random part, balanced between classes and in the
    same order. Smaller parts are subsets of larger ones.
    root: as for `fashion_mnist_set`. Raises DataError as it does, and for sizes that do not fit.
    """
    source = fashion_mnist_set(root)
    assert source.test_images is not None
    assert source.test_labels is not None
    images = np.concatenate([source.images, source.test_images])
    labels = np.concatenate([source.labels, source.test_labels])
    first, last = (
        _part(rows, labels, size, f"data.{name}")
        for rows, size, name in zip(_per_class(labels), (train, validation), ("train", "validation"), strict=True)
    )
    features = images.reshape(len(images), -1)
    return Split(features[first], labels[first], features[last], labels[last], source.name, source.place)


def _per_class(labels: Bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The training rows, the first 70 % of each class, and the validation rows; both ascending."""
    is_training = _place_in_class(labels) < (TRAINING_SHARE * np.bincount(labels)[labels]).astype(int)
    return np.flatnonzero(is_training), np.flatnonzero(~is_training)


def _place_in_class(labels: Bytes) -> NDArray[np.int64]:
    """How many earlier rows have the same label [n]."""
    order = np.argsort(labels, kind="stable")
    places = np.empty(len(labels), dtype=np.int64)
    places[order] = np.arange(len(labels)) - np.searchsorted(labels[order], labels[order])
    return places


def _part(rows: NDArray[np.int64], labels: Bytes, size: int, key: str) -> NDArray[np.int64]:
    """`size` of the rows, balanced between classes: the first of a permutation, one of each class in turn."""
    if not 1 <= size <= len(rows):
        raise DataError(f"{key} = {size}: it must be from 1 to {len(rows)}, the number of images")
    shuffled = rows[permutation(len(rows))]
    return np.sort(shuffled[np.argsort(_place_in_class(labels[shuffled]), kind="stable")[:size]])
