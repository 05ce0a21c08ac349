"""Small splits and trials, and torch's threads put back after each test."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from fmnas.search_spaces import Configuration, Trial
from fmnas.trainers.split import Split

CHEAP = {"op1": "conv1x1", "op2": "identity", "op3": "maxpool3x3", "op4": "identity", "op5": "identity"}
CHEAP |= {"op6": "identity", "op7": "sepconv3x3", "op8": "identity", "in2": "0,1", "in3": "-1,0", "in4": "0,1"}
SCHEDULE = {"learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4}
SCHEDULE |= {"lr_reduction": 0.5, "reduction_point_1": 0.5, "reduction_point_2": 0.5}


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def configuration() -> Configuration:
    """A point of the joint space that trains in no time: two small convolutions, S2 and S3 dead."""
    return {**SCHEDULE, **CHEAP, "output": 1}


@pytest.fixture
def make_trial(configuration: Configuration) -> Callable[..., Trial]:
    """Trial 0 with some of its fields or variables replaced."""

    def make(epochs: int = 2, seed: int = 5, **values: object) -> Trial:
        return Trial(0, {**configuration, **values}, epochs=epochs, origin="random", seed=seed)

    return make


@pytest.fixture(scope="session")
def noise_split() -> Split:
    """23 + 17 images of noise, read-only, as workers get them."""
    rng = np.random.default_rng(0)
    arrays = [
        rng.integers(0, 256, (23, 28, 28), dtype=np.uint8),
        rng.integers(0, 10, 23, dtype=np.uint8),
        rng.integers(0, 256, (17, 28, 28), dtype=np.uint8),
        rng.integers(0, 10, 17, dtype=np.uint8),
    ]
    for array in arrays:
        array.flags.writeable = False
    return Split(*arrays, name="noise", place="a test")
