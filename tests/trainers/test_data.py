"""Splits: fixed, disjoint, of the sizes asked for, for search and for the final test; and invalid ones."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.trainers import DataError
from fmnas.trainers.images.batches import to_device
from fmnas.trainers.images.data import digits_set, final_split, image_set, search_split
from fmnas.trainers.problem import DataSettings
from fmnas.trainers.split import ImageSet, Split, permutation

COUNT = 60
NUMBERED = np.broadcast_to(np.arange(75, dtype=np.uint8)[:, None, None], (75, 28, 28))
SOURCE = ImageSet(
    "x", "here", NUMBERED[:COUNT], NUMBERED[:COUNT, 0, 0] % 10, NUMBERED[COUNT:], NUMBERED[COUNT:, 0, 0] % 10
)
IMAGES, LABELS = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)


def numbers(images: np.ndarray) -> list[int]:
    return images[:, 0, 0].tolist()


@given(data_=st.data())
def test_sizes_order_and_disjointness(data_: st.DataObject) -> None:
    train = data_.draw(st.integers(1, COUNT - 1))
    validation = data_.draw(st.integers(1, COUNT - train))
    split, order = search_split(SOURCE, train, validation), permutation(COUNT).tolist()
    assert numbers(split.train_inputs) == order[:train]
    assert numbers(split.held_out_inputs) == order[-validation:]
    assert set(order[:train]).isdisjoint(order[-validation:])
    assert split.train_labels.tolist() == [number % 10 for number in order[:train]]
    assert split.held_out_labels.tolist() == [number % 10 for number in order[-validation:]]


@given(data_=st.data())
def test_the_searchs_own_images_come_first_and_the_test_images_are_all(data_: st.DataObject) -> None:
    train = data_.draw(st.integers(1, COUNT - 1))
    validation = data_.draw(st.integers(1, COUNT - train))
    images = data_.draw(st.integers(1, COUNT))
    search, final = search_split(SOURCE, train, validation), final_split(SOURCE, train, validation, images)
    both = [*numbers(search.train_inputs), *numbers(search.held_out_inputs)]
    chosen = numbers(final.train_inputs)
    assert len(set(chosen)) == len(chosen) == images
    assert chosen[: len(both)] == both[:images]
    assert final.train_labels.tolist() == [number % 10 for number in chosen]
    assert numbers(final.held_out_inputs) == list(range(COUNT, 75))
    assert final.for_tests


@pytest.mark.parametrize(("train", "validation"), [(0, 5), (5, -1), (31, 30)])
def test_sizes_that_do_not_fit_are_named(train: int, validation: int) -> None:
    for split in (search_split, lambda *sizes: final_split(*sizes, 5)):
        with pytest.raises(DataError, match=rf"data\.train = {train}, data\.validation = {validation}.* 60\b"):
            split(SOURCE, train, validation)


@pytest.mark.parametrize("images", [0, -1, COUNT + 1])
def test_a_number_of_images_that_does_not_fit_is_named(images: int) -> None:
    with pytest.raises(DataError, match=rf"images = {images}.* 60\b"):
        final_split(SOURCE, 20, 20, images)


def test_the_split_has_the_name_and_place_of_its_source(numbered: Callable[[int, int], ImageSet]) -> None:
    numbered(60, 1)
    split = search_split(image_set(DataSettings("fashion_mnist")), 20, 10)
    assert (split.name, split.place) == ("fashion_mnist", "cache: here")
    assert (split.train_inputs.shape, split.held_out_inputs.shape) == ((20, 28, 28), (10, 28, 28))


def test_digits_are_tested_on_images_that_the_search_did_not_use() -> None:
    digits = digits_set()
    search, final = search_split(digits, 1000, 300), final_split(digits, 1000, 300, 1300)
    assert search.train_inputs.shape == (1000, 28, 28)
    assert search.train_inputs.max() > 250, "grey levels 0..16 become 0..255"
    assert np.array_equal(digits.images[:, 0], digits.images[:, 3]), "pixels are repeated"
    assert np.array_equal(final.train_inputs, np.concatenate([search.train_inputs, search.held_out_inputs]))
    labels = np.concatenate([search.train_labels, search.held_out_labels, final.held_out_labels])
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    with pytest.raises(DataError, match=r"images = 1301.* 1300\b"):
        final_split(digits, 1000, 300, 1301)
    with pytest.raises(DataError, match=r"data\.train = 1000, data\.validation = 797"):
        final_split(digits, 1000, 797, 10)


def test_the_permutation_is_the_authors() -> None:
    order = permutation(60_000)
    assert order[:3].tolist() == [3048, 19563, 58303]
    assert order[-3:].tolist() == [42613, 43567, 2732]
    assert np.array_equal(np.sort(order), np.arange(60_000))


@pytest.mark.parametrize(
    ("count", "labels"),
    [(0, LABELS[:0]), (3, LABELS[:2]), (3, LABELS[:, None]), (3, LABELS.astype(np.int64)), (3, LABELS + 10)],
)
def test_invalid_splits_are_refused(count: int, labels: np.ndarray) -> None:
    facts = rf"{count} inputs, labels {labels.dtype} \({len(labels)},"
    with pytest.raises(DataError, match=f"x, training part: {facts}"):
        Split(IMAGES[:count], labels, IMAGES, LABELS, "x", "here")
    with pytest.raises(DataError, match=f"x, held-out part: {facts}"):
        Split(IMAGES, LABELS, IMAGES[:count], labels, "x", "here")


@pytest.mark.parametrize("inputs", [IMAGES.astype(np.float32), IMAGES[:, :27]])
def test_a_device_takes_images_only(inputs: np.ndarray) -> None:
    for parts in ((inputs, LABELS, inputs, LABELS), (inputs, LABELS, IMAGES, LABELS), (IMAGES, LABELS, inputs, LABELS)):
        with pytest.raises(DataError, match=rf"x: inputs {inputs.dtype}"):
            to_device(Split(*parts, "x", "here"), torch.device("cpu"))
