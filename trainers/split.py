"""Data in two parts, whatever is trained on them: inputs and labels to train on, and others that are held out.

Inputs are images, whose set is whole before it is split, or the rows of a table; labels are the numbers of ten classes.
A split that a permutation makes is the same for everyone: `numpy.random.RandomState(0).shuffle`, as in the BO-FM
authors' code. Arrays may be read-only, shared by all workers of a machine.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fmnas.search_spaces.variables import Floats
from fmnas.trainers.contract import DataError

Bytes = NDArray[np.uint8]
Numbers = Floats | Bytes

CLASSES = 10
GUESSING_ERROR = 1.0 - 1.0 / CLASSES
"""What a training has that diverged, too."""
IMAGE_SIZE = 28
"""Pixels along a side of an image."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A set of images, whole. Images [n, 28, 28] and labels [n] (0 to 9), uint8; of test images None where it has none.

    name: in sentences and tables. place: where it was found.
    digest: SHA-256 of the arrays; empty where the set is known to be what its name says.
    tests_on_the_rest: whether images that a search left alone are its test images.
    """

    name: str
    place: str
    images: Bytes
    labels: Bytes
    test_images: Bytes | None = None
    test_labels: Bytes | None = None
    digest: str = ""
    tests_on_the_rest: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs [n, ...] and labels [n] (uint8, 0 to 9) to train on, and others held out. Raises DataError for others.

    The inputs of an image trainer are uint8 [n, 28, 28], of a table's float64 or uint8 [n, d].
    name: of the data set. place: where it was found, for the record.
    for_tests: whether those held out are test data, which no search may see; else a search validates on them.
    digest: SHA-256 of the whole set; empty where it is known to be what its name says.
    """

    train_inputs: Numbers
    train_labels: Bytes
    held_out_inputs: Numbers
    held_out_labels: Bytes
    name: str
    place: str
    for_tests: bool = False
    digest: str = ""

    def __post_init__(self) -> None:
        one, other = self.train_inputs.shape[1:], self.held_out_inputs.shape[1:]
        if one != other:
            raise DataError(
                f"{self.name}: an input to train on is {list(one)}, one held out {list(other)}: both must be of one "
                "shape"
            )
        _check_part(f"{self.name}, training part", self.train_inputs, self.train_labels)
        part = "test" if self.for_tests else "validation"
        _check_part(f"{self.name}, {part} part", self.held_out_inputs, self.held_out_labels)


def _check_part(what: str, inputs: Numbers, labels: Bytes) -> None:
    """Raise DataError unless there are n >= 1 inputs, with a label from 0 to 9 each."""
    if len(inputs) == 0 or labels.dtype != np.uint8 or labels.shape != (len(inputs),) or labels.max() >= CLASSES:
        raise DataError(
            f"{what}: {len(inputs)} inputs, labels {labels.dtype} {labels.shape} up to {labels.max(initial=0)}; there "
            f"must be at least one, and the labels uint8 [{len(inputs)}], from 0 to {CLASSES - 1}"
        )


def permutation(count: int) -> NDArray[np.int64]:
    """The fixed permutation of `count` images or rows."""
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)
    return order
