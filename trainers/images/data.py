"""The data sets of images by name, and their splits for search and for the final test.

A split is a fixed permutation of the images: training images are its first, validation images its last. So smaller
splits are parts of larger ones, and the two never overlap. Images stay uint8 until they are normalised.

The best configurations are trained again on all images that the search used, and tested on others. The order is: the
search's training images, its validation images, the images it did not use; a number to train on takes the first.
"""

import os
from pathlib import Path

import numpy as np

from fmnas.trainers.contract import DataError, optional_module
from fmnas.trainers.images.fashion_mnist import default_cache, find_fashion_mnist
from fmnas.trainers.images.image_files import load_user_images
from fmnas.trainers.problem import USER_SETS, DataSettings
from fmnas.trainers.split import IMAGE_SIZE, ImageSet, Split, permutation


def image_set(data: DataSettings) -> ImageSet:
    """All images of the data set that the settings name.

    Raises DataError: an unknown name, no root for a set of the user's, or data that are missing or damaged.
    """
    if data.name == "fashion_mnist":
        return fashion_mnist_set(data.root)
    if data.name == "digits":
        return digits_set()
    if data.name not in USER_SETS or data.root is None:
        raise DataError(
            f"data.name = {data.name}, data.root = {data.root}: the name must be fashion_mnist, digits, or "
            f"{' or '.join(USER_SETS)} with the folder or file of its images as data.root"
        )
    return load_user_images(data.name, data.root)


def fashion_mnist_set(root: str | Path | None = None) -> ImageSet:
    """FashionMNIST's 60,000 images and 10,000 test images.

    root: the folder with the data; None: FMNAS_DATA, or the usual places if that is not set. Raises DataError: data are
    missing or damaged.
    """
    folder = root or os.environ.get("FMNAS_DATA")
    return find_fashion_mnist(Path(folder) if folder else None, default_cache())


def digits_set() -> ImageSet:
    """scikit-learn's 1,797 handwritten digits, 8x8 enlarged to 28x28: small data that need no download.

    They have no test images; those that a search did not use serve. Raises TrainerError without scikit-learn.
    """
    digits = optional_module("sklearn.datasets", "data.name = digits").load_digits()
    nearest = np.arange(IMAGE_SIZE) * digits.images.shape[-1] // IMAGE_SIZE
    enlarged = (digits.images / 16.0)[:, nearest[:, None], nearest]  # by the nearest pixel; grey levels are 0..16
    images = np.rint(enlarged * 255.0).astype(np.uint8)
    return ImageSet("digits", "scikit-learn", images, digits.target.astype(np.uint8), test_on_unused=True)


def search_split(source: ImageSet, train: int, validation: int) -> Split:
    """`train` images to train on, `validation` others to validate on. Raises DataError for sizes that do not fit."""
    order = _order(source, train, validation)
    first, last = order[:train], order[len(order) - validation :]
    parts = source.images[first], source.labels[first], source.images[last], source.labels[last]
    return Split(*parts, source.name, source.place, digest=source.digest)


def final_split(source: ImageSet, train: int, validation: int, images: int) -> Split:
    """The split to retrain and test configurations that were found with train + validation of the images.

    images: how many to train on. Raises DataError: sizes that do not fit, or no images to test on.
    """
    order = _order(source, train, validation)
    unused, last = np.split(order[train:], [len(order) - train - validation])
    order = np.concatenate([order[:train], last, unused])
    if source.test_on_unused:
        most, held_out = train + validation, (source.images[unused], source.labels[unused])
    elif source.test_images is None or source.test_labels is None:
        raise DataError(
            f"{source.name} ({source.place}): no test images, so nothing can be retrained and tested; add test_images "
            "and test_labels (in a folder, the t10k files) to the same images"
        )
    else:
        most, held_out = len(order), (source.test_images, source.test_labels)
    if not 1 <= images <= most:
        raise DataError(f"images = {images}: {source.name} has 1 to {most} images to train on that are not to test on")
    if not len(held_out[0]):
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: they use all {len(order)} images of {source.name}, "
            "so none is left to test on; search with fewer"
        )
    parts = source.images[order[:images]], source.labels[order[:images]], *held_out
    return Split(*parts, source.name, source.place, for_tests=True, digest=source.digest)


def _order(source: ImageSet, train: int, validation: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """The permutation of the images. Raises DataError for sizes that do not fit."""
    count = len(source.images)
    if min(train, validation) < 1 or train + validation > count:
        raise DataError(
            f"data.train = {train}, data.validation = {validation}: each must be at least 1, and their sum at most "
            f"{count}, the images of {source.name}"
        )
    return permutation(count)
