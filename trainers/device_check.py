"""Whether a device can train: a trial like any other, made so small that it takes seconds."""

import numpy as np

from fmnas.search_spaces import Conditions, Trial, joint_space
from fmnas.trainers.data import Split
from fmnas.trainers.image_trainer import ImageTrainer, TrainingSettings


def train_a_little(device: str) -> Conditions | None:
    """Train a cell for one epoch on a few images of noise, twice at once, as the device does best; how that was.

    device: a torch device, such as "cuda:1". On a GPU the step is captured, replayed, and validated after.
    Raises TrainerError when there is no such device, DeviceFailedError or TrainingFailedError when it cannot.
    """
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (36, 28, 28), dtype=np.uint8), rng.integers(0, 10, 36, dtype=np.uint8)
    split = Split(images[:20], labels[:20], images[20:], labels[20:], "noise", "made up")
    trainer = ImageTrainer(split, TrainingSettings(seeds=2, batch_size=8, device=device, threads=None))
    return trainer.evaluate(Trial(0, joint_space().sample(rng), epochs=1, origin="random")).conditions
