"""Sets of images, by the name that settings give; and their splits, to search on and for the last word.

The split is one permutation of the images: training images are its first, validation images its last. So smaller
splits are parts of larger ones, and the two never meet. Images stay uint8 until they are normalised.

For the last word on a configuration, the images that its search trained and validated on are all to train on, and test
images are held out. The order is the search's: first its training images, then its validation images, then those that
it left alone. A smaller or larger number to train on takes the first of them.
"""

import logging
from importlib import import_module
from pathlib import Path

import numpy as np

from fmnas.search_spaces.variables import Floats
from fmnas.trainers.contract import DataError
from fmnas.trainers.images.fashion_mnist import default_cache, find_fashion_mnist, path_from_environment
from fmnas.trainers.images.user_images import read_given
from fmnas.trainers.problem import USER_SETS, DataSettings
from fmnas.trainers.split import IMAGE_SIZE, Bytes, ImageSet, Split, permutation

logger = logging.getLogger(__name__)


def image_set(data: DataSettings) -> ImageSet:
    """The set that the settings name, whole.

    Raises DataError: a name of none, a set of the user's without a place, or data that are missing or damaged.
    """
    if data.name == "fashion_mnist":
        return fashion_mnist_set(data.path)
    if data.name == "digits":
        return digits_set()
    if data.name not in USER_SETS:
        raise DataError(f"data.name = {data.name}: it must be fashion_mnist, digits, {' or '.join(USER_SETS)}")
    if data.path is None:
        raise DataError(f"data.root: missing; data.name = {data.name} needs the place of its files, which is not known")
    return read_given(data.name, data.path)


def fashion_mnist_set(root: Path | None = None) -> ImageSet:
    """FashionMNIST's 60,000 images and 10,000 test images.

    root: the folder with the data; FMNAS_DATA if None, and the usual places if that is not set. Raises DataError: data
    that are missing or damaged.
    """
    return find_fashion_mnist(root or path_from_environment("FMNAS_DATA"), default_cache())


def digits_set() -> ImageSet:
    """scikit-learn's 1,797 handwritten digits, 8x8 enlarged to 28x28: small data that need no network.

    They have no test images: those that a search left alone serve. Raises DataError without scikit-learn.
    """
    try:
        found = import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise DataError("data.name = digits needs scikit-learn: pip install scikit-learn") from None
    images = _enlarge(found.images / 16.0)  # their grey levels are 0..16
    return ImageSet("digits", "scikit-learn", images, found.target.astype(np.uint8), tests_on_the_rest=True)


def _enlarge(images: Floats) -> Bytes:
    """Grey levels [n, 8, 8] in [0, 1] to uint8 [n, 28, 28]: each pixel is its nearest one's, exact on any machine."""
    nearest = np.arange(IMAGE_SIZE) * images.shape[-1] // IMAGE_SIZE
    return np.rint(images[:, nearest[:, None], nearest] * 255.0).astype(np.uint8)


def search_split(found: ImageSet, train: int, validation: int) -> Split:
    """So many images to train on and to validate on; test images are left alone.

    Raises DataError: sizes below 1, or more together than there are images.
    """
    _check_sizes(found, train, validation)
    order = permutation(len(found.images))
    first, last = order[:train], order[len(order) - validation :]
    logger.info("%s (%s): %d images to train on, %d to validate on", found.name, _place(found), train, validation)
    parts = found.images[first], found.labels[first], found.images[last], found.labels[last]
    return Split(*parts, found.name, _place(found), digest=found.digest)


def final_split(found: ImageSet, train: int, validation: int, images: int) -> Split:
    """For configurations that were found with train + validation of its images: all of these to train on, and tests.

    images: how many to train on. Raises DataError: sizes that do not fit, or nothing to test on.
    """
    _check_sizes(found, train, validation)
    order = permutation(len(found.images))
    rest, last = np.split(order[train:], [len(order) - train - validation])
    searched = np.concatenate([order[:train], last])
    if found.tests_on_the_rest:
        most, why = len(searched), f"the others of {found.name} are to test on"
        held_out = found.images[rest], found.labels[rest]
    elif found.test_images is None or found.test_labels is None:
        raise DataError(
            f"data.root = {found.place}: it has no test images, so there is nothing to retrain for: give test_images "
            "and test_labels (of a folder, the t10k files) beside the same images"
        )
    else:
        most, why = len(order), f"{found.name} has as many images that are none of its test images"
        held_out = found.test_images, found.test_labels
    if not 1 <= images <= most:
        raise DataError(f"images = {images}: it must be from 1 to {most}; {why}")
    if not len(held_out[0]):
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: {found.name} has {len(order)} images and no test "
            "images of its own, so none is left to test on; search with fewer"
        )
    chosen = np.concatenate([searched, rest])[:images]
    parts = found.images[chosen], found.labels[chosen], *held_out
    return Split(*parts, found.name, _place(found), for_tests=True, digest=found.digest)


def _place(found: ImageSet) -> str:
    """For the record."""
    return f"given: {found.place}, SHA-256 {found.digest}" if found.digest else found.place


def _check_sizes(found: ImageSet, train: int, validation: int) -> None:
    for key, size in (("data.train", train), ("data.validation", validation)):
        if size < 1:
            raise DataError(f"{key} = {size}: it must be at least 1")
    if train + validation > (count := len(found.images)):
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: {found.name} has {count} images for both, so their "
            f"sum must not exceed {count}"
        )
