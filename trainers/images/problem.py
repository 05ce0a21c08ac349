"""The joint problem: the NASNet-derived cell and an SGD schedule, on FashionMNIST (BO-FM paper, Sec. 5.3).

Other images of the same shape and another weight of FLOPs are supported.
"""

import numpy as np

from fmnas.search_spaces import Conditions, Trial, joint_space
from fmnas.trainers.contract import Trainer
from fmnas.trainers.images.data import final_split, image_set, search_split
from fmnas.trainers.images.image_files import dataset_name
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer
from fmnas.trainers.images.settings import FLOPS_WEIGHT, TrainingSettings
from fmnas.trainers.problem import ConfigurableProblem, Hardware, Problem, ProblemSettings
from fmnas.trainers.split import GUESSING_ERROR, Split


def joint(settings: ProblemSettings) -> Problem:
    """The problem for settings without missing data keys or a missing weight.

    Models see the logarithm of its objective, unless the weight is 0: then the objective may be 0.
    """
    data, weight = settings.data, settings.flops_weight
    dataset = dataset_name(data.name or "", data.root)
    train, validation, batch_size = data.train, data.validation, data.batch_size
    assert train
    assert validation
    assert batch_size
    assert weight is not None

    def build(split: Split, hardware: Hardware) -> Trainer:
        training = TrainingSettings(
            settings.seeds,
            batch_size,
            device=hardware.device,
            threads=hardware.threads,
            arrangement=hardware.arrangement,
            schedule_epochs=None if split.for_tests else settings.schedule_epochs,
            early_validation=data.early_validation,
            flops_weight=weight,
            flops=settings.flops,
        )
        if split.for_tests:
            return FinalTrainer(split, training)
        return ImageTrainer(split, training, checkpoints=settings.checkpoints)

    flops = f" + {weight} x FLOPs / FLOPs of the largest cell, by the convention {settings.flops}" if weight else ""
    times, error = f"{settings.seeds} times", "its average over the trainings"
    if settings.seeds == 1:
        times, error = "once", "that error"
    early = "" if data.early_validation is None else f" ({data.early_validation:,} before the last epoch)"
    return Problem(
        space=joint_space(),
        build=build,
        penalty=GUESSING_ERROR + weight,
        epochs=25,
        log_objective=weight > 0,
        has_authors_points=True,
        objective=f"An evaluation trains a cell {times} on {train:,} images of {dataset}, and measures "
        f"the error on {validation:,} others{early}. The objective is {error}{flops}.",
        seeds=settings.seeds,
        dataset=dataset,
        objectives={"validation error": 1.0, "FLOPs / FLOPs of the largest cell": 1.0},
        load=lambda: search_split(image_set(data), train, validation),
        load_final=lambda images: final_split(image_set(data), train, validation, images),
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


def smoke_test_device(device: str) -> Conditions | None:
    """Train a cell for one epoch on a few noise images, with two seeds, as the device does best; return how.

    device: a torch device, such as "cuda:1". On a GPU the step is captured and replayed.
    Raises TrainerError if there is no such device, DeviceFailedError or TrainingFailedError if it cannot train.
    """
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (36, 28, 28), dtype=np.uint8), rng.integers(0, 10, 36, dtype=np.uint8)
    split = Split(images[:20], labels[:20], images[20:], labels[20:], "noise", "generated")
    trainer = ImageTrainer(split, TrainingSettings(seeds=2, batch_size=8, device=device, threads=None))
    return trainer.evaluate(Trial(0, joint_space().sample(rng), epochs=1, origin="random")).conditions
