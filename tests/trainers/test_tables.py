"""Tables: those of scikit-learn, FashionMNIST split by class, and invalid ones."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import train_test_split

from fmnas.trainers import DataError
from fmnas.trainers.split import ImageSet
from fmnas.trainers.tables import tables
from fmnas.trainers.tables.tables import digits_table, fashion_mnist_table, sklearn_table

Numbered = Callable[[int, int], ImageSet]


def test_the_diabetes_table_is_scikit_learns() -> None:
    table = sklearn_table("diabetes")
    features, targets = load_diabetes(return_X_y=True)
    assert table.features.shape == (442, 10)
    assert np.array_equal(table.features, features)
    assert np.array_equal(table.targets, targets)
    assert (table.name, table.place) == ("diabetes", "scikit-learn")


def test_the_digits_are_split_as_published() -> None:
    table = digits_table()
    digits = load_digits()
    expected = train_test_split(digits.data, digits.target, test_size=0.3, stratify=digits.target, random_state=0)
    parts = (table.train_inputs, table.held_out_inputs, table.train_labels, table.held_out_labels)
    for ours, theirs in zip(parts, expected, strict=True):
        assert np.array_equal(ours, theirs)
    assert [len(part) for part in parts] == [1257, 540, 1257, 540]


def test_the_first_seven_tenths_of_each_class_train(numbered: Numbered) -> None:
    """200 images, of which the last 50 are test images; classes alternate, so 14 of each train and 6 validate."""
    numbered(150, 50)
    table = fashion_mnist_table(140, 60)
    assert table.train_inputs.shape == (140, 784)
    train, validation = (features[:, 0].tolist() for features in (table.train_inputs, table.held_out_inputs))
    assert train == list(range(140))
    assert validation == list(range(140, 200)), "test images are among them"
    assert table.train_labels.tolist() == [number % 10 for number in train]
    assert table.name == "fashion_mnist"


def test_smaller_parts_are_subsets_of_larger_ones(numbered: Numbered) -> None:
    numbered(150, 50)
    whole, half, few = (fashion_mnist_table(train, n) for train, n in ((140, 60), (70, 30), (7, 3)))
    for part in ("train_inputs", "held_out_inputs"):
        images = [getattr(table, part)[:, 0].tolist() for table in (whole, half, few)]
        assert set(images[2]) < set(images[1]) < set(images[0])
        assert images[1] == sorted(images[1]), "in the order of the data"
    assert np.bincount(half.train_labels).tolist() == [7] * 10, "balanced between classes"
    assert set(np.bincount(few.train_labels, minlength=10)) == {0, 1}
    assert few.train_labels.tolist() == [number % 10 for number in few.train_inputs[:, 0]]


@pytest.mark.parametrize(
    ("train", "validation", "key"), [(141, 60, "data.train"), (140, 61, "data.validation"), (0, 60, "data.train")]
)
def test_sizes_that_do_not_fit_are_named(numbered: Numbered, train: int, validation: int, key: str) -> None:
    numbered(150, 50)
    with pytest.raises(DataError, match=f"{key} = "):
        fashion_mnist_table(train, validation)


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_any_labels_are_split_by_class(labels: list[int]) -> None:
    train, validation = tables._per_class(np.array(labels, dtype=np.uint8))
    assert sorted([*train, *validation]) == list(range(len(labels)))
    for label in set(labels):
        rows = [row for row, other in enumerate(labels) if other == label]
        assert [row for row in train if labels[row] == label] == rows[: int(0.7 * len(rows))]
