"""Splits: fixed, disjoint, of the sizes asked for; and what cannot be a split."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.trainers import DataError
from fmnas.trainers.images import data
from fmnas.trainers.images.data import digits_set, fashion_mnist_set, image_set, search_split
from fmnas.trainers.problem import DataSettings
from fmnas.trainers.split import ImageSet, permutation

COUNT = 60


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, object]:
    """A FashionMNIST of 60 images, each filled with its own number; records what it was asked for."""
    images = np.broadcast_to(np.arange(COUNT, dtype=np.uint8)[:, None, None], (COUNT, 28, 28))
    labels = (np.arange(COUNT) % 10).astype(np.uint8)
    asked: dict[str, object] = {}

    def find(root: Path | None, cache: Path) -> ImageSet:
        asked.update(root=root, cache=cache)
        return ImageSet("fashion_mnist", f"cache: {tmp_path}", images, labels, images[:1], labels[:1])

    monkeypatch.setattr(data, "find_fashion_mnist", find)
    return asked


def numbers(images: np.ndarray) -> list[int]:
    """Which of the numbered images these are."""
    return [int(image[0, 0]) for image in images]


@given(data_=st.data())
def test_sizes_order_and_disjointness(data_: st.DataObject) -> None:
    train = data_.draw(st.integers(1, COUNT - 1))
    validation = data_.draw(st.integers(1, COUNT - train))
    images = np.broadcast_to(np.arange(COUNT, dtype=np.uint8)[:, None, None], (COUNT, 28, 28))
    split = search_split(ImageSet("x", "here", images, images[:, 0, 0] % 10), train, validation)
    order = permutation(COUNT).tolist()
    assert numbers(split.train_inputs) == order[:train]
    assert numbers(split.held_out_inputs) == order[-validation:]
    assert set(order[:train]).isdisjoint(order[-validation:])
    assert split.train_labels.tolist() == [number % 10 for number in order[:train]]
    assert split.held_out_labels.tolist() == [number % 10 for number in order[-validation:]]


def test_the_split_says_what_and_where(
    numbered: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FMNAS_CACHE", str(tmp_path / "c"))
    split = search_split(image_set(DataSettings("fashion_mnist", str(tmp_path / "r"))), 20, 10)
    assert (split.name, split.place) == ("fashion_mnist", f"cache: {tmp_path}")
    assert (split.train_inputs.shape, split.held_out_inputs.shape) == ((20, 28, 28), (10, 28, 28))
    assert numbered == {"root": tmp_path / "r", "cache": tmp_path / "c"}


def test_the_environment_is_asked_only_where_nothing_is_given(
    numbered: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FMNAS_DATA", "/data")
    monkeypatch.setenv("FMNAS_CACHE", "/cache")
    fashion_mnist_set()
    assert numbered == {"root": Path("/data"), "cache": Path("/cache")}
    fashion_mnist_set(Path("/given"))
    assert numbered["root"] == Path("/given")


@pytest.mark.usefixtures("numbered")
@pytest.mark.parametrize(
    ("train", "validation", "message"),
    [
        (0, 5, "data.train = 0: it must be at least 1"),
        (5, -1, "data.validation = -1: it must be at least 1"),
        (31, 30, "data.train = 31, data.validation = 30: fashion_mnist has 60 images .* must not exceed 60"),
    ],
)
def test_sizes_that_do_not_fit_are_named(train: int, validation: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        search_split(fashion_mnist_set(), train, validation)


def test_digits() -> None:
    split = search_split(digits_set(), 1_000, 797)
    assert split.name == "digits"
    assert split.train_inputs.shape == (1_000, 28, 28)
    assert split.train_inputs.max() > 250, "grey levels 0..16 become 0..255"
    labels = np.concatenate([split.train_labels, split.held_out_labels])
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    with pytest.raises(DataError, match="must not exceed 1797"):
        search_split(digits_set(), 1_000, 798)


def test_enlarging_repeats_pixels_in_place() -> None:
    image = np.zeros((2, 8, 8))
    image[0] = 0.5
    image[1, 0, 7] = 1.0
    enlarged = data._enlarge(image)
    assert np.unique(enlarged[0]).tolist() == [128]
    rows, columns = enlarged[1].nonzero()
    assert (set(rows), set(columns)) == (set(range(4)), {25, 26, 27})
    assert enlarged[1].max() == 255


def test_digits_without_scikit_learn_is_an_error_that_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str, package: str | None = None) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(data, "import_module", absent)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        image_set(DataSettings("digits"))
