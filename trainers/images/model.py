"""The network: a stem, three cells, a classifier (BO-FM paper, Sec. 5.3 and Supp. D.2).

This file needs torch and safetensors alone. `fmnas retrain --save` copies it beside the weights of each training:

    from model import load                        # in the folder that has this file

    network = load("seed-1.safetensors")          # of the first training; test_error_seed_1 in retrained.csv
    classes = network.predict(images)             # images: uint8 [n, 28, 28], not normalised
    names = [network.labels[i] for i in classes]

`network(normalise(images))`, of a tensor, is the logits. model.json has the cell, the configuration, the names of the
classes, and the test error of each training.

| part | input | output |
|---|---|---|
| stem: conv 3x3 | B x 1 x 28 x 28 | B x 16 x 28 x 28 |
| cell 1, both inputs are the stem's output | 16 channels | twice B x 8 x 28 x 28 |
| max pool 2x2, stride 2, padding 1; cell 2 | B x 8 x 15 x 15 | twice B x 16 x 15 x 15 |
| max pool 2x2, stride 2, padding 1; cell 3 | B x 16 x 8 x 8 | twice B x 32 x 8 x 8 |
| max pool 2x2, stride 2; concatenation | B x 32 x 8 x 8 | B x 64 x 4 x 4 |
| conv 1x1, ReLU, BatchNorm | B x 64 x 4 x 4 | B x 32 x 4 x 4 |
| fully connected | B x 512 | B x 10 |

A cell's inputs are S(-1) and S(0); its states follow, S1 to S4, each the sum of two operations on earlier ones. Its
first output, the state `output`, is S(-1) of the next cell; its second, S4, is S(0). Every convolution has a bias.
States that reach no output are not built.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

STEM_CHANNELS = 16
CELL_CHANNELS = (8, 16, 32)
SEPARABLE_GROUPS = 4  # "separable" convolutions are grouped ones
MEAN, STANDARD_DEVIATION = 0.1307, 0.3081  # of MNIST, which the paper's code also uses for FashionMNIST

States = Mapping[int, Sequence[tuple[int, str]]]
"""Number of each state that is built, ascending -> its two (input, operation)."""


class Network(nn.Module):
    """The network of a cell, with torch's default weights.

    labels: the names of the classes.
    """

    labels: Sequence[str] = tuple("0123456789")

    def __init__(self, states: States, output: int) -> None:
        super().__init__()
        widths = (STEM_CHANNELS, *CELL_CHANNELS)
        self.stem = nn.Conv2d(1, STEM_CHANNELS, 3, padding=1)
        self.cells = nn.ModuleList(CellModule(states, output, a, b) for a, b in pairwise(widths))
        self.reduction: nn.Module = nn.Conv2d(2 * CELL_CHANNELS[-1], CELL_CHANNELS[-1], 1)
        self.norm = nn.BatchNorm2d(CELL_CHANNELS[-1])
        self.classifier = nn.Linear(CELL_CHANNELS[-1] * 4 * 4, len(self.labels))

    def forward(self, images: Tensor) -> Tensor:
        """Images [B, 1, 28, 28] to logits [B, 10]."""
        stem = self.stem(images)
        return self.behind_first_cell(*self.cells[0](stem, stem))

    def behind_first_cell(self, a: Tensor, b: Tensor) -> Tensor:
        """The outputs [B, 8, 28, 28] of the first cell to logits [B, 10]."""
        for cell in self.cells[1:]:
            a, b = cell(*(functional.max_pool2d(x, 2, stride=2, padding=1) for x in (a, b)))
        x = self.join(functional.max_pool2d(a, 2), functional.max_pool2d(b, 2))
        x = self.norm(functional.relu(self.reduction(x)))
        logits: Tensor = self.classifier(x.flatten(1))
        return logits

    @torch.inference_mode()
    def predict(self, images: Any) -> Any:
        """The classes of images, uint8 [n, 28, 28] as an array or a tensor: an array [n] of integers.

        Call `eval` first, unless the network is from `load`. Raises ValueError for another type or shape.
        """
        images = images if isinstance(images, Tensor) else torch.tensor(images)  # a copy: an array may be read-only
        if images.dtype != torch.uint8 or images.shape[1:] != (28, 28):
            raise ValueError(f"images: {images.dtype} {list(images.shape)}; they must be uint8 [n, 28, 28], 0 is black")
        parts = images.to(self.classifier.weight.device).split(1000)
        return torch.cat([self(normalise(part)).argmax(dim=1) for part in parts]).cpu().numpy()

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """Concatenate the outputs of the last cell along the channels."""
        return torch.cat([a, b], dim=1)


class CellModule(nn.Module):
    """The states of a cell, and the 1x1 convolutions that map both inputs to the cell's channels."""

    def __init__(self, states: States, output: int, in_channels: int, channels: int) -> None:
        super().__init__()
        self.sources = {number: (first[0], second[0]) for number, (first, second) in states.items()}
        self.output = output
        self.inputs = nn.ModuleList(nn.Conv2d(in_channels, channels, 1) for _ in range(2))
        self.states = nn.ModuleDict(
            {str(k): StateModule(*(operation(name, channels) for _, name in pair)) for k, pair in states.items()}
        )

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs S(-1), S(0) [B, in_channels, H, W] to outputs S(output), S4 [B, channels, H, W]."""
        return self.outputs(self.inputs[0](a), self.inputs[1](b))

    def outputs(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Map inputs [B, channels, H, W] behind the 1x1 convolutions to the outputs, of the same shape."""
        values = {-1: a, 0: b}
        for state, (i, j) in self.sources.items():
            values[state] = self.states[str(state)](values[i], values[j])
        return values[self.output], values[4]


class StateModule(nn.Module):
    """One state: the sum of two operations on two inputs."""

    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        """Map two inputs [B, channels, H, W] to the state, of the same shape."""
        state: Tensor = self.first(a) + self.second(b)
        return state


def operation(name: str, channels: int) -> nn.Module:
    """The module of an operation, which preserves channels, height and width."""
    if name == "identity":
        return nn.Identity()
    kind, size = name.rstrip("0123456789x"), int(name[-1])
    if kind == "maxpool":
        return nn.MaxPool2d(size, stride=1, padding=size // 2)
    groups = SEPARABLE_GROUPS if kind == "sepconv" else 1
    conv = nn.Conv2d(channels, channels, size, padding=size // 2, groups=groups)
    return nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), conv)


def normalise(images: Tensor) -> Tensor:
    """Images [B, 28, 28] uint8 to standardised float32 [B, 1, 28, 28], the network's input."""
    return images.unsqueeze(1).float().div_(255.0).sub_(MEAN).div_(STANDARD_DEVIATION)


def load(path: str | Path) -> Network:
    """A trained network, to evaluate. path: of its weights; model.json is beside them."""
    facts = json.loads(Path(path).with_name("model.json").read_text(encoding="utf-8"))
    states = {int(number): pair for number, pair in facts["cell"]["states"].items()}
    network = Network(states, facts["cell"]["output"])
    network.load_state_dict(load_file(path))
    network.labels = facts["labels"]
    return network.eval()


def _load_pyfunc(folder: str) -> Network:
    """The first training of a folder; `mlflow.pyfunc.load_model` calls this."""
    return load(Path(folder) / "seed-1.safetensors")
