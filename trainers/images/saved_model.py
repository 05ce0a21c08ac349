"""The files of trained networks, from which they are loaded and evaluated without fmnas.

    model.py              the network in plain torch, how to load it, and the normalisation of its images
    model.json            the cell and everything else about the trainings
    seed-1.safetensors    the weights and BatchNorm statistics of the first training; one file for each

model.py is a copy of the module that trains. A training that diverged is saved as it ended; the stacked arrangement,
which GPUs use, has set its parameters to zero. The names of FashionMNIST's classes are those of its authors (Xiao,
Rasul, Vollgraf 2017). Unlike torch's own format, safetensors holds numbers alone: nothing in it can run when it is
loaded.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.torch import save

from fmnas.search_spaces import Cell, Evaluation, Trial
from fmnas.trainers.images import model
from fmnas.trainers.images.training import Weights
from fmnas.trainers.split import CLASSES, Split

_FASHION = "T-shirt/top Trouser Pullover Dress Coat Sandal Shirt Sneaker Bag"
LABELS = {"fashion_mnist": (*_FASHION.split(), "Ankle boot")}
"""Data set -> the names of its classes; of any other, they are the digits."""


def saved_files(trial: Trial, split: Split, evaluation: Evaluation, weights: Sequence[Weights]) -> dict[str, bytes]:
    """Return name -> content. weights: of each training. split: with the test images of the evaluation."""
    tensors = [{name: value.detach().cpu().clone() for name, value in part.items()} for part in weights]
    return {
        "model.py": Path(model.__file__).read_bytes(),
        **{f"seed-{number}.safetensors": save(part) for number, part in enumerate(tensors, start=1)},
        "model.json": json.dumps(saved_facts(trial, split, evaluation), indent=2).encode(),
    }


def saved_facts(trial: Trial, split: Split, evaluation: Evaluation) -> dict[str, Any]:
    """Return what `model.json` has.

    cell, labels: what `model.load` reads. normalisation: what `model.normalise` does. The rest tells which trainings
    these are: how they were done, on which data, and their results.
    """
    cell = Cell.from_configuration(trial.configuration)
    return {
        "cell": {"states": cell.states, "output": cell.output},
        "labels": (not split.digest and LABELS.get(split.name)) or tuple(map(str, range(CLASSES))),
        "normalisation": {"divide_by": 255, "mean": model.MEAN, "standard_deviation": model.STANDARD_DEVIATION},
        "configuration": trial.configuration,
        "dataset": split.name,
        "images": len(split.train_inputs),
        "epochs": trial.epochs,
        "seed": trial.seed,
        "test_images": len(split.held_out_inputs),
        "test_errors": evaluation.errors,
        "flops": evaluation.flops,
        "conditions": asdict(evaluation.conditions) if evaluation.conditions else None,
    }
