"""Data to train and validate on: a fixed split, the same for everyone.

The split is one permutation of the images, `numpy.random.RandomState(0).shuffle`, as in the authors' code: training
images are its first, validation images its last. So smaller splits are parts of larger ones, and the two never meet.
Images stay uint8 until they are normalised; arrays may be read-only, shared by all workers of a machine.
"""

import logging
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fmnas.trainers.errors import DataError
from fmnas.trainers.fashion_mnist import Source, default_cache, find_fashion_mnist, root_from_environment
from fmnas.trainers.idx import Bytes
from fmnas.trainers.network import CLASSES, IMAGE_SIZE

logger = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Split:
    """Images [n, 28, 28] and labels [n] (0 to 9), uint8, to train and to validate on. Raises DataError if they are not.

    name: of the data set. place: where it was found, for the record.
    """

    train_images: Bytes
    train_labels: Bytes
    validation_images: Bytes
    validation_labels: Bytes
    name: str
    place: str

    def __post_init__(self) -> None:
        check_part(f"{self.name}, training part", self.train_images, self.train_labels)
        check_part(f"{self.name}, validation part", self.validation_images, self.validation_labels)


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


def permutation(count: int) -> NDArray[np.int64]:
    """The fixed permutation of `count` images."""
    order = np.arange(count)
    np.random.RandomState(0).shuffle(order)
    return order


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


def check_part(what: str, images: Bytes, labels: Bytes) -> None:
    """Raise DataError unless these are uint8 images [n, 28, 28], n >= 1, with a label from 0 to 9 each."""
    size = (IMAGE_SIZE, IMAGE_SIZE)
    if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != size or len(images) == 0:
        raise DataError(f"{what}: images {images.dtype} {images.shape}; they must be uint8 [n, 28, 28] with n >= 1")
    if labels.dtype != np.uint8 or labels.shape != images.shape[:1] or labels.max() >= CLASSES:
        raise DataError(
            f"{what}: labels {labels.dtype} {labels.shape} up to {labels.max(initial=0)}; they must be uint8 "
            f"[{len(images)}], one per image, from 0 to {CLASSES - 1}"
        )
