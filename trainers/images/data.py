"""Images to train on and images held out: a fixed split, the same for everyone.

The split is one permutation of the images: training images are its first, validation images its last. So smaller
splits are parts of larger ones, and the two never meet. Images stay uint8 until they are normalised.

For the last word on a configuration, the images that its search trained and validated on are all to train on, and test
images are held out. The order is the search's: first its training images, then its validation images, then those that
it left alone. A smaller or larger number to train on takes the first of them.
"""

import logging
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.contract import DataError
from fmnas.trainers.images.fashion_mnist import Source, default_cache, find_fashion_mnist, root_from_environment
from fmnas.trainers.images.given import ImageSet
from fmnas.trainers.split import IMAGE_SIZE, Bytes, Split, permutation

logger = logging.getLogger(__name__)


def fashion_mnist_split(
    train: int = 30_000, validation: int = 30_000, root: Path | None = None, cache: Path | None = None
) -> Split:
    """FashionMNIST's 60,000 training images, split; its test images are left alone.

    train, validation: how many images, at least 1 each and 60,000 together.
    root: the folder with the data; FMNAS_DATA if None, and the usual places if that is not set.
    cache: where fetched data are kept; `default_cache()` if None.
    Raises DataError: sizes that do not fit, or data that are missing or damaged.
    """
    source = fashion_mnist_source(root, cache)
    place = f"{source.place}: {source.folder}"
    return _split(source.train_images, source.train_labels, (train, validation), ("fashion_mnist", place))


def fashion_mnist_source(root: Path | None = None, cache: Path | None = None) -> Source:
    """FashionMNIST whole; root and cache as for `fashion_mnist_split`. Raises DataError as that does."""
    return find_fashion_mnist(root or root_from_environment(), cache or default_cache())


def digits_split(train: int, validation: int) -> Split:
    """scikit-learn's 1,797 handwritten digits, 8x8 enlarged to 28x28: small data that need no network.

    Raises DataError: sizes that do not fit, or no scikit-learn.
    """
    try:
        digits = import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise DataError("data.name = digits needs scikit-learn: pip install scikit-learn") from None
    images = _enlarge(digits.images / 16.0)  # their grey levels are 0..16
    return _split(images, digits.target.astype(np.uint8), (train, validation), ("digits", "scikit-learn"))


def _split(images: Bytes, labels: Bytes, sizes: tuple[int, int], names: tuple[str, str]) -> Split:
    (train, validation), (name, place) = sizes, names
    for key, size in (("data.train", train), ("data.validation", validation)):
        if size < 1:
            raise DataError(f"{key} = {size}: it must be at least 1")
    if train + validation > len(images):
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: {name} has {len(images)} images for both, "
            f"so their sum must not exceed {len(images)}"
        )
    order = permutation(len(images))
    first, last = order[:train], order[len(order) - validation :]
    logger.info("%s (%s): %d images to train on, %d to validate on", name, place, train, validation)
    return Split(images[first], labels[first], images[last], labels[last], name, place)


def _enlarge(images: NDArray[np.float64]) -> Bytes:
    """Grey levels [n, 8, 8] in [0, 1] to uint8 [n, 28, 28]: each pixel is its nearest one's, exact on any machine."""
    nearest = np.arange(IMAGE_SIZE) * images.shape[-1] // IMAGE_SIZE
    return np.rint(images[:, nearest[:, None], nearest] * 255.0).astype(np.uint8)


DIGITS = 1797
"""Images of scikit-learn's digits."""


def final_fashion_mnist(
    train: int, validation: int, images: int, root: Path | None = None, cache: Path | None = None
) -> Split:
    """FashionMNIST for cells that were found with train + validation of its 60,000 training images.

    images: how many to train on. The test images are FashionMNIST's own 10,000, which `fashion_mnist_split` leaves
    alone. root, cache: as there. Raises DataError: a number that does not fit, or data that are missing or damaged.
    """
    source = fashion_mnist_source(root, cache)
    _check_images(images, len(source.train_images), "FashionMNIST has as many training images")
    chosen = _searched_first(len(source.train_images), (train, validation))[:images]
    return Split(
        source.train_images[chosen],
        source.train_labels[chosen],
        source.test_images,
        source.test_labels,
        "fashion_mnist",
        f"{source.place}: {source.folder}",
        for_tests=True,
    )


def _searched_first(count: int, sizes: tuple[int, int]) -> NDArray[np.int64]:
    """The order of images to train on in the end: those that the search trained and validated on come first."""
    order, (train, validation) = permutation(count), sizes
    return np.concatenate([order[:train], order[count - validation :], order[train : count - validation]])


def given_split(found: ImageSet, train: int, validation: int) -> Split:
    """A set that a user gives, split; its test images are left alone. Raises DataError: sizes that do not fit."""
    split = _split(found.images, found.labels, (train, validation), (found.name, _place(found)))
    return replace(split, digest=found.digest)


def final_given(found: ImageSet, train: int, validation: int, images: int) -> Split:
    """The same for cells that were found with train + validation of its images, which is tested on its test images.

    images: how many to train on. Raises DataError: a number that does not fit, or no test images.
    """
    if found.test_images is None or found.test_labels is None:
        raise DataError(
            f"data.root = {found.place}: it has no test images, so there is nothing to retrain for: give test_images "
            "and test_labels (of a folder, the t10k files) beside the same images"
        )
    _check_images(images, len(found.images), f"{found.name} has as many images that are none of its test images")
    chosen = _searched_first(len(found.images), (train, validation))[:images]
    return Split(
        found.images[chosen],
        found.labels[chosen],
        found.test_images,
        found.test_labels,
        found.name,
        _place(found),
        for_tests=True,
        digest=found.digest,
    )


def _place(found: ImageSet) -> str:
    return f"given: {found.place}, SHA-256 {found.digest}"


def final_digits(train: int, validation: int, images: int) -> Split:
    """scikit-learn's digits, which have no test images of their own: those that the search left alone serve.

    Raises DataError: a number that does not fit, none left alone, or no scikit-learn.
    """
    searched = digits_split(train, validation)
    _check_images(images, train + validation, "the others of digits are to test on")
    rest = _digits_left(searched)
    return Split(
        np.concatenate([searched.train_inputs, searched.held_out_inputs])[:images],
        np.concatenate([searched.train_labels, searched.held_out_labels])[:images],
        *rest,
        searched.name,
        searched.place,
        for_tests=True,
    )


def _digits_left(searched: Split) -> tuple[Bytes, Bytes]:
    """The digits that are in neither part of the split."""
    train, validation = len(searched.train_inputs), len(searched.held_out_inputs)
    if train + validation >= DIGITS:
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: digits has {DIGITS} images and no test images of "
            "its own, so none is left to test on; search with fewer"
        )
    everything = digits_split(DIGITS - validation, validation)
    return everything.train_inputs[train:], everything.train_labels[train:]


def _check_images(images: int, most: int, why: str) -> None:
    if not 1 <= images <= most:
        raise DataError(f"images = {images}: it must be from 1 to {most}; {why}")
