"""Tables: scikit-learn's as they are, FashionMNIST split by class, and what cannot be a table."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from fmnas.search_spaces import errors
from fmnas.trainers import DataError, TrainerError
from fmnas.trainers.images import data
from fmnas.trainers.split import ImageSet
from fmnas.trainers.tables import tables
from fmnas.trainers.tables.tables import Table, diabetes_table, digits_table, fashion_mnist_table

CLASSES, PER_CLASS = 10, 20  # 14 of each class train, 6 validate
TEST = 50  # the last 50 of the 200 numbered images are the test images


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A FashionMNIST of 200 images, each filled with its own number; the classes take turns."""
    count = CLASSES * PER_CLASS
    images = np.broadcast_to(np.arange(count, dtype=np.uint8)[:, None, None], (count, 28, 28))
    labels = (np.arange(count) % CLASSES).astype(np.uint8)
    source = ImageSet(
        "fashion_mnist", f"cache: {tmp_path}", images[:-TEST], labels[:-TEST], images[-TEST:], labels[-TEST:]
    )
    monkeypatch.setattr(data, "find_fashion_mnist", lambda root, cache: source)


def test_the_diabetes_table_is_scikit_learns() -> None:
    table = diabetes_table()
    features, targets = load_diabetes(return_X_y=True)
    assert table.features.shape == (442, 10)
    assert np.array_equal(table.features, features)
    assert np.array_equal(table.targets, targets)
    assert (table.name, table.place) == ("diabetes", "scikit-learn")


def test_the_digits_are_split_as_published() -> None:
    table = digits_table()
    digits = load_digits()
    expected = train_test_split(digits.data, digits.target, test_size=0.3, stratify=digits.target, random_state=0)
    found = (table.train_inputs, table.held_out_inputs, table.train_labels, table.held_out_labels)
    for ours, theirs in zip(found, expected, strict=True):
        assert np.array_equal(ours, theirs)
    assert [len(part) for part in found] == [1257, 540, 1257, 540]


@pytest.mark.usefixtures("numbered")
def test_of_each_class_the_first_seven_tenths_train() -> None:
    table = fashion_mnist_table(140, 60)
    assert table.train_inputs.shape == (140, 784)
    train, validation = (features[:, 0].tolist() for features in (table.train_inputs, table.held_out_inputs))
    assert train == list(range(140)), "image 0 to 139: the classes take turns"
    assert validation == list(range(140, 200)), "test images are among them"
    assert table.train_labels.tolist() == [number % 10 for number in train]
    assert table.name == "fashion_mnist"


@pytest.mark.usefixtures("numbered")
def test_smaller_parts_lie_within_larger_ones() -> None:
    whole, half, few = (fashion_mnist_table(train, n) for train, n in ((140, 60), (70, 30), (7, 3)))
    for part in ("train_inputs", "held_out_inputs"):
        images = [getattr(table, part)[:, 0].tolist() for table in (whole, half, few)]
        assert set(images[2]) < set(images[1]) < set(images[0])
        assert images[1] == sorted(images[1]), "in the order of the data"
    assert np.bincount(half.train_labels).tolist() == [7] * 10, "as many of each class"
    assert set(np.bincount(few.train_labels, minlength=10)) == {0, 1}
    assert few.train_labels.tolist() == [number % 10 for number in few.train_inputs[:, 0]]


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (141, 60, "data.train = 141: it must be from 1 to 140"),
        (140, 61, "data.validation = 61: it must be from 1 to 60"),
        (0, 60, "data.train = 0: it must be from 1 to 140"),
    ],
)
def test_more_than_there_are(train: int, validation: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        fashion_mnist_table(train, validation)


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_any_labels_are_split_by_class(labels: list[int]) -> None:
    train, validation = tables._per_class(np.array(labels, dtype=np.uint8))
    assert sorted([*train, *validation]) == list(range(len(labels)))
    for label in set(labels):
        mine = [row for row, given in enumerate(labels) if given == label]
        taken = [row for row in train if labels[row] == label]
        assert taken == mine[: int(0.7 * len(mine))]


FEATURES, TARGETS = np.zeros((3, 2)), np.zeros(3)


@pytest.mark.parametrize(
    ("features", "targets", "what"),
    [
        (FEATURES[:2], TARGETS, "features"),
        (FEATURES[:, 0], TARGETS, "features"),
        (FEATURES.astype(np.float32), TARGETS, "features float32"),
        (FEATURES * np.nan, TARGETS, "features"),
        (FEATURES, TARGETS + np.inf, "targets"),
        (FEATURES, FEATURES, "features|targets"),
        (FEATURES[:0], TARGETS[:0], "features"),
    ],
)
def test_arrays_that_are_no_table(features: np.ndarray, targets: np.ndarray, what: str) -> None:
    with pytest.raises(DataError, match=f"x: ({what}).*finite float64"):
        Table(features, targets, "x", "here")


@pytest.mark.parametrize("load", [diabetes_table, digits_table])
def test_without_scikit_learn_it_says_how_to_get_it(
    load: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(name, name=name)
        return import_module(name)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(TrainerError, match="needs scikit-learn, which is not installed: pip install scikit-learn"):
        load()
