"""Small splits, trials and data sets; torch's threads are restored after each test."""

import gzip
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.search_spaces import Configuration, Trial
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images import data
from fmnas.trainers.images.image_files import IDX_FILES
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.split import ImageSet, Split

CHEAP = {"op1": "conv1x1", "op2": "identity", "op3": "maxpool3x3", "op4": "identity", "op5": "identity"}
CHEAP |= {"op6": "identity", "op7": "sepconv3x3", "op8": "identity", "in2": "0,1", "in3": "-1,0", "in4": "0,1"}
SCHEDULE = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4}
SCHEDULE |= {"lr_reduction": 0.5, "reduction_point_1": 0.5, "reduction_point_2": 0.5}


class Reports(list[tuple[int, int, float]]):
    """The reports of an evaluation."""

    def __call__(self, *report: Any) -> None:
        self.append(report)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def configuration() -> Configuration:
    """A point of the joint space that is fast to train: two small convolutions, S2 and S3 dead."""
    return {**SCHEDULE, **CHEAP, "output": 1}


@pytest.fixture
def make_trial(configuration: Configuration) -> Callable[..., Trial]:
    """Trial 0, with other epochs, another seed or other values."""

    def make(epochs: int = 2, seed: int = 5, **values: object) -> Trial:
        return Trial(0, {**configuration, **values}, epochs=epochs, origin="random", seed=seed)

    return make


@pytest.fixture(scope="session")
def noise_split() -> Split:
    """23 + 17 images of noise, read-only, as in workers."""
    rng = np.random.default_rng(0)
    arrays = []
    for count in (23, 17):
        arrays += [rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), rng.integers(0, 10, count, dtype=np.uint8)]
    for array in arrays:
        array.flags.writeable = False
    return Split(*arrays, name="noise", place="a test")


@pytest.fixture
def make_trainer(noise_split: Split) -> Callable[..., ImageTrainer]:
    """Makes a trainer on the noise, or another split, with a constant clock; other keywords are settings."""

    def make(split: Split | None = None, checkpoints: Checkpoints | None = None, **settings: Any) -> ImageTrainer:
        chosen = TrainingSettings(**{"seeds": 3, "batch_size": 8, **settings})
        return ImageTrainer(split or noise_split, chosen, clock=lambda: 0.0, checkpoints=checkpoints)

    return make


@pytest.fixture
def reports() -> Reports:
    """A list that is a `Report`, too: called, it appends."""
    return Reports()


@pytest.fixture
def numbered(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], ImageSet]:
    """Replaces FashionMNIST by images that are filled with their numbers, and labels number % 10."""

    def make(count: int, tests: int) -> ImageSet:
        images = np.broadcast_to(np.arange(count + tests, dtype=np.uint8)[:, None, None], (count + tests, 28, 28))
        labels = (np.arange(count + tests) % 10).astype(np.uint8)
        parts = images[:count], labels[:count], images[count:], labels[count:]
        source = ImageSet("fashion_mnist", "cache: here", *parts)
        monkeypatch.setattr(data, "find_fashion_mnist", lambda root, cache: source)
        return source

    return make


@pytest.fixture
def write_idx() -> Callable[..., Path]:
    """Writes up to four arrays as IDX files into a folder."""

    def write(folder: Path, *arrays: np.ndarray, packed: bool = False) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, array in zip(IDX_FILES, arrays, strict=False):
            content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
        return folder

    return write
