"""Data sets and their splits into two parts, one to train on and one held out.

Inputs are images or rows of a table; labels are ten classes. The permutation behind a split is the same everywhere:
`numpy.random.RandomState(0).shuffle`, as in the BO-FM authors' code. Arrays may be read-only and shared by the workers
of a machine.
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
"""Also the error of a training that diverged."""
IMAGE_SIZE = 28
"""Pixels along a side of an image."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """A complete set of images [n, 28, 28] and labels [n] (0 to 9), uint8, and test images if any.

    name: for reports. place: where it was found.
    digest: SHA-256 of the arrays; empty for a set whose checksums are known.
    test_on_unused: whether the images that a search did not use are its test images.
    """

    name: str
    place: str
    images: Bytes
    labels: Bytes
    test_images: Bytes | None = None
    test_labels: Bytes | None = None
    digest: str = ""
    test_on_unused: bool = False


@dataclass(frozen=True, eq=False)
class Split:
    """Inputs [n, ...] and labels [n] (uint8, 0 to 9) to train on, and others held out. Raises DataError if invalid.

    Inputs of an image trainer are uint8 [n, 28, 28], of a table float64 or uint8 [n, d].
    name: of the data set. place: where it was found.
    for_tests: whether the held-out part is test data, which no search may use; otherwise it is validation data.
    digest: SHA-256 of the complete set; empty if its checksums are known.
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
        parts = (
            ("training", self.train_inputs, self.train_labels),
            ("held-out", self.held_out_inputs, self.held_out_labels),
        )
        for part, inputs, labels in parts:
            if not len(inputs) or labels.dtype != np.uint8 or labels.shape != (len(inputs),) or labels.max() >= CLASSES:
                raise DataError(
                    f"{self.name}, {part} part: {len(inputs)} inputs, labels {labels.dtype} {labels.shape}; there must "
                    f"be at least one input, and labels must be uint8 [{len(inputs)}] from 0 to {CLASSES - 1}"
                )


def permutation(count: int) -> NDArray[np.int64]:
    """The fixed permutation of `count` images or rows."""
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)
    return order
