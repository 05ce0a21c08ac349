"""The joint problem: the NASNet-derived cell and an SGD schedule, on FashionMNIST (BO-FM paper, Sec. 5.3).

On other images of the same shape it is the same problem, and so it is with another weight of FLOPs.
"""

from dataclasses import replace

import numpy as np

from fmnas.search_spaces import Conditions, Trial, joint_space
from fmnas.trainers.contract import Trainer
from fmnas.trainers.images.data import final_split, image_set, search_split
from fmnas.trainers.images.image_trainer import (
    FLOPS_WEIGHT,
    FinalTrainer,
    ImageTrainer,
    TrainingSettings,
)
from fmnas.trainers.images.user_images import title
from fmnas.trainers.problem import ConfigurableProblem, Hardware, Problem, ProblemSettings
from fmnas.trainers.split import GUESSING_ERROR, Split


def joint(settings: ProblemSettings) -> Problem:
    """The problem with these settings, whose data and weight are complete.

    Models see the logarithm of its objective, but for a weight of 0: then the objective may be 0.
    """
    data, weight, called = settings.data, settings.flops_weight, title(settings.data.name or "", settings.data.path)
    train, validation, batch_size = data.train, data.validation, data.batch_size
    assert train is not None
    assert validation is not None
    assert batch_size is not None
    assert weight is not None

    def load() -> Split:
        return search_split(image_set(data), train, validation)

    def load_final(images: int) -> Split:
        return final_split(image_set(data), train, validation, images)

    def build(split: Split, hardware: Hardware) -> Trainer:
        how = TrainingSettings(
            settings.seeds,
            batch_size,
            device=hardware.device,
            threads=hardware.threads,
            arrangement=hardware.arrangement,
            flops_weight=weight,
            flops=settings.flops,
        )
        if split.for_tests:
            return FinalTrainer(split, how)  # for as many epochs as it is told, each planned for its own
        searched = replace(how, schedule_epochs=settings.schedule_epochs, early_validation=data.early_validation)
        return ImageTrainer(split, searched, checkpoints=settings.checkpoints)

    return Problem(
        space=joint_space(),
        build=build,
        penalty=GUESSING_ERROR + weight,
        epochs=25,
        log_objective=weight > 0,
        has_authors_points=True,
        objective=_in_words(settings, called),
        seeds=settings.seeds,
        dataset=called,
        load=load,
        load_final=load_final,
    )


def _in_words(settings: ProblemSettings, images: str) -> str:
    """What an evaluation measures. images: what they are called."""
    data, weight = settings.data, settings.flops_weight
    counted = " (as pthflops counts them)" * (settings.flops == "pthflops")
    flops = f" + {weight} x FLOPs / FLOPs of the largest cell{counted}" if weight else ""
    early = "" if data.early_validation is None else f" (before the last epoch, on {data.early_validation:,} of them)"
    return (
        f"An evaluation trains a cell {settings.seeds} times, each from another seed, on {data.train:,} images of "
        f"{images}, and measures the error on {data.validation:,} others{early}. The objective is that error, "
        f"averaged over the seeds{',' * bool(flops)}{flops}."
    )


JOINT = ConfigurableProblem(
    joint,
    {
        "name": "fashion_mnist",
        "root": None,
        "train": 30_000,
        "validation": 30_000,
        "batch_size": 32,
        "early_validation": None,
    },
    checkpoints=True,
    schedule=True,
    flops_weight=FLOPS_WEIGHT,
)


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
