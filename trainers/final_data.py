"""Data for the last word: the images that a search trained and validated on, all to train on; and test images.

The order of the images is the search's: first its training images, then its validation images, then those that it left
alone. A smaller or larger number to train on takes the first of them.
"""

from pathlib import Path

import numpy as np

from fmnas.trainers.data import Split, digits_split, fashion_mnist_source, permutation
from fmnas.trainers.errors import DataError
from fmnas.trainers.final_training import FinalSplit
from fmnas.trainers.idx import Bytes

DIGITS = 1797
"""Images of scikit-learn's digits."""


def final_fashion_mnist(
    train: int, validation: int, images: int, root: Path | None = None, cache: Path | None = None
) -> FinalSplit:
    """FashionMNIST for cells that were found with train + validation of its 60,000 training images.

    images: how many to train on. The test images are FashionMNIST's own 10,000, which `fashion_mnist_split` leaves
    alone. root, cache: as there. Raises DataError: a number that does not fit, or data that are missing or damaged.
    """
    source = fashion_mnist_source(root, cache)
    order = permutation(len(source.train_images))
    _check_images(images, len(order), "FashionMNIST has as many training images")
    used, last = order[:train], order[len(order) - validation :]
    chosen = np.concatenate([used, last, order[train : len(order) - validation]])[:images]
    return FinalSplit(
        source.train_images[chosen],
        source.train_labels[chosen],
        source.test_images,
        source.test_labels,
        "fashion_mnist",
        f"{source.place}: {source.folder}",
    )


def final_digits(train: int, validation: int, images: int) -> FinalSplit:
    """scikit-learn's digits, which have no test images of their own: those that the search left alone serve.

    Raises DataError: a number that does not fit, none left alone, or no scikit-learn.
    """
    searched = digits_split(train, validation)
    _check_images(images, train + validation, "the others of digits are to test on")
    rest = _digits_left(searched)
    return FinalSplit(
        np.concatenate([searched.train_images, searched.validation_images])[:images],
        np.concatenate([searched.train_labels, searched.validation_labels])[:images],
        *rest,
        searched.name,
        searched.place,
    )


def _digits_left(searched: Split) -> tuple[Bytes, Bytes]:
    """The digits that are in neither part of the split."""
    train, validation = len(searched.train_images), len(searched.validation_images)
    if train + validation >= DIGITS:
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: digits has {DIGITS} images and no test images of "
            "its own, so none is left to test on; search with fewer"
        )
    everything = digits_split(DIGITS - validation, validation)
    return everything.train_images[train:], everything.train_labels[train:]


def _check_images(images: int, most: int, why: str) -> None:
    if not 1 <= images <= most:
        raise DataError(f"images = {images}: it must be from 1 to {most}; {why}")
