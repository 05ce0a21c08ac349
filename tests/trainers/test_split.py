"""What can be split, and what cannot; and the permutation that does it."""

import numpy as np
import pytest
import torch

from fmnas.trainers import DataError
from fmnas.trainers.images.batches import to_device
from fmnas.trainers.split import Split, permutation

IMAGES, LABELS = np.zeros((3, 28, 28), np.uint8), np.zeros(3, np.uint8)


def test_the_permutation_is_the_authors() -> None:
    order = permutation(60_000)
    assert order[:3].tolist() == [3048, 19563, 58303]
    assert order[-3:].tolist() == [42613, 43567, 2732]
    assert np.array_equal(np.sort(order), np.arange(60_000))


@pytest.mark.parametrize("inputs", [IMAGES, np.zeros((3, 2))], ids=["images", "a table"])
@pytest.mark.parametrize(
    ("count", "labels", "message"),
    [
        (0, LABELS[:0], "0 inputs"),
        (3, LABELS[:2], r"3 inputs, labels uint8 \(2,\)"),
        (3, LABELS[:, None], r"3 inputs, labels uint8 \(3, 1\)"),
        (3, LABELS.astype(np.int64), "3 inputs, labels int64"),
        (3, LABELS + 10, r"3 inputs, labels uint8 \(3,\) up to 10; .* uint8 \[3\], from 0 to 9"),
    ],
)
def test_arrays_that_are_no_split(inputs: np.ndarray, count: int, labels: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=f"x, training part: {message}"):
        Split(inputs[:count], labels, inputs, LABELS, "x", "here")
    with pytest.raises(DataError, match=f"x, validation part: {message}"):
        Split(inputs, LABELS, inputs[:count], labels, "x", "here")


def test_both_parts_are_of_one_shape() -> None:
    with pytest.raises(DataError, match=r"x: an input to train on is \[28, 28\], one held out \[27, 28\]"):
        Split(IMAGES, LABELS, IMAGES[:, :27], LABELS, "x", "here")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [(IMAGES.astype(np.float32), r"float32 \(3, 28, 28\)"), (IMAGES[:, :27], r"uint8 \(3, 27, 28\)")],
)
def test_inputs_that_are_no_images_reach_no_device(inputs: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=rf"x: inputs {message}; images must be uint8 \[n, 28, 28\]"):
        to_device(Split(inputs, LABELS, inputs, LABELS, "x", "here"), torch.device("cpu"))
