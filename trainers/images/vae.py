"""A variational autoencoder on FashionMNIST, small enough for a CPU; the space is that of MiVaBO (vae_space.py).

The objective is the negative log-likelihood of held-out images in nats, estimated with 32 importance samples each
(Burda et al. 2015). Images are binarised: pixels are drawn with their grey levels as probabilities; for training they
are drawn again in each step.

| | MiVaBO | vae_fmnist_small |
|---|---|---|
| images to train on, held out | 60,000, 10,000 | 6,000, 500 |
| epochs | 32 | 2 |

Values of the two cannot be compared: the paper prints none for FashionMNIST, and 91.3 to 106.7 nats for MNIST. Its text
leaves open how few fully connected layers are wired. Here the outputs for mean and log variance, F2 of 2 d_z units in
the paper, are always there, as is the layer to the deconvolutions or pixels. `encoder_layers` is the number of layers
of F1's units before it, `decoder_layers` of F3 (d_z units) and F4 after z; a layer of 0 units is absent. An output
padding may reach the stride, which torch does not allow in a ConvTranspose2d: the added rows have the bias alone, or
the values that the padding removed.
"""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, conv_transpose2d, pad

from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import (
    Clock,
    EvaluationStoppedError,
    Report,
    Stop,
    check_trial,
    never_stop,
    no_report,
)
from fmnas.trainers.images.data import image_set, search_split
from fmnas.trainers.images.image_files import dataset_name
from fmnas.trainers.images.vae_space import PIXELS, SMALLEST, VAE_SPACE
from fmnas.trainers.problem import ConfigurableProblem, Hardware, Problem, ProblemSettings
from fmnas.trainers.split import Split

BATCH, IMPORTANCE_SAMPLES, EPOCHS = 128, 32, 2
PENALTY = PIXELS**2 * math.log(2.0)
"""The value of uniform pixels, 543.4: also of diverged trainings, and of all worse ones. The paper rounds it to 500."""


class Convolution(nn.Conv2d):
    """A convolution whose padding is the total of both sides, the second of which gets the odd row."""

    def __init__(self, inputs: int, values: Mapping[str, Any], name: str) -> None:
        super().__init__(inputs, values[f"{name}_channels"], values[f"{name}_filter"], values[f"{name}_stride"])
        total = values[f"{name}_padding"]
        self.sides = (total // 2, total - total // 2) * 2

    def forward(self, x: Tensor) -> Tensor:
        """Return the maps [n, channels, w, w]."""
        return super().forward(pad(x, self.sides))


class Deconvolution(nn.ConvTranspose2d):
    """A transposed convolution with any output padding."""

    def __init__(self, inputs: int, outputs: int, values: Mapping[str, Any], name: str) -> None:
        super().__init__(inputs, outputs, values[f"{name}_filter"], values[f"{name}_stride"])
        self.removed, self.added = values[f"{name}_padding"], values[f"{name}_output_padding"]

    def forward(self, x: Tensor, output_size: list[int] | None = None) -> Tensor:
        """Return the maps [n, outputs, w, w]."""
        full = conv_transpose2d(x, self.weight, None, self.stride)
        end = self.added - self.removed  # negative: rows to remove
        assert self.bias is not None
        return pad(full, (-self.removed, end) * 2) + self.bias[:, None, None]


class Autoencoder(nn.Module):
    """The network of a configuration."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__()
        self.latent = int(values["latent"])
        convolutions: list[nn.Module] = []
        channels, size = 1, PIXELS
        for name in ("c1", "c2")[: values["convolutions"]]:
            convolutions += [Convolution(channels, values, name), nn.ReLU()]
            channels = values[f"{name}_channels"]
            size = (size - values[f"{name}_filter"] + values[f"{name}_padding"]) // values[f"{name}_stride"] + 1
        widths = [channels * size**2, *([values["f1_units"]] * values["encoder_layers"]), 2 * self.latent]
        self.encoder = nn.Sequential(*convolutions, nn.Flatten(), *_fully_connected(widths))
        first = values["d1_channels"]
        widths = [self.latent, *(self.latent, values["f4_units"])[: values["decoder_layers"]], first * SMALLEST**2]
        layers = _fully_connected(widths)
        if values["deconvolutions"]:
            second = values["d2_channels"]
            layers += [
                nn.ReLU(),
                nn.Unflatten(1, (first, SMALLEST, SMALLEST)),
                Deconvolution(first, second, values, "d1"),
            ]
            layers += [nn.ReLU(), Deconvolution(second, 1, values, "d2"), nn.Flatten()]
        self.decoder = nn.Sequential(*layers)

    def log_weights(self, x: Tensor, samples: int, rng: torch.Generator) -> Tensor:
        """Return log p(x, z) - log q(z | x) [samples, n] of binary images [n, 784]; their mean is the ELBO."""
        mean, log_variance = self.encoder(x.view(-1, 1, PIXELS, PIXELS)).chunk(2, 1)
        noise = torch.randn(samples, *mean.shape, generator=rng)
        z = mean + noise * (0.5 * log_variance).exp()
        logits = self.decoder(z.flatten(0, 1)).view(samples, len(x), -1)
        log_p = -binary_cross_entropy_with_logits(logits, x.expand_as(logits), reduction="none").sum(-1)
        return log_p + 0.5 * (noise.square() - z.square() + log_variance).sum(-1)


def _fully_connected(widths: list[int]) -> list[nn.Module]:
    """Layers between these widths with ReLUs; one of width 0 is absent."""
    present = [width for width in widths if width]
    layers: list[nn.Module] = []
    for one, other in pairwise(present):
        layers += [nn.Linear(one, other), nn.ReLU()]
    return layers[:-1]


@dataclass(frozen=True)
class Images:
    """Grey levels in [0, 1] to train on, [n, 784], and fixed binary images held out."""

    train: Tensor
    held_out: Tensor

    @classmethod
    def from_split(cls, split: Split) -> "Images":
        """Binarise the held-out images by generator 0."""
        train, held_out = (
            torch.tensor(part.reshape(len(part), -1) / 255.0, dtype=torch.float32)
            for part in (split.train_inputs, split.held_out_inputs)
        )
        return cls(train, torch.bernoulli(held_out, generator=torch.Generator().manual_seed(0)))


class VAETrainer:
    """Evaluates trials by training for `trial.epochs` epochs, on CPUs.

    The learning rate is multiplied by its decay after each epoch. Same configuration, epochs, seed, data and threads:
    same evaluation, except its seconds.
    """

    def __init__(self, split: Split, threads: int = 1, clock: Clock = time.perf_counter) -> None:
        self.space, self._images, self._threads, self._clock = VAE_SPACE, Images.from_split(split), threads, clock

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Train, with a report of the objective after each epoch.

        Raises SpaceError for a configuration outside the space, TrainerError for invalid epochs or an invalid seed,
        EvaluationStoppedError once `stop`, called before each step, returns true.
        """
        start = self._clock()
        check_trial(trial, self.space)
        threads = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        try:
            values = self._train(trial, report, stop)
        finally:
            torch.set_num_threads(threads)
        curve = tuple(min(value, PENALTY) for value in values)
        seconds, diverged = self._clock() - start, math.isinf(values[-1])
        return Evaluation(curve[-1], trial.epochs, errors=curve[-1:], curve=curve, seconds=seconds, diverged=diverged)

    def _train(self, trial: Trial, report: Report, stop: Stop) -> list[float]:
        """Return the negative log-likelihood after each epoch; inf if it is not finite."""
        values, rng = trial.configuration, torch.Generator().manual_seed(trial.seed % 2**63)
        with torch.random.fork_rng(devices=[]):  # layers draw their weights from the global generator
            torch.manual_seed(trial.seed % 2**63)
            network = Autoencoder(values)
        optimizer = torch.optim.Adam(
            network.parameters(), float(values["learning_rate"]), weight_decay=float(values["weight_decay"])
        )
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, float(values["learning_rate_decay"]))
        curve: list[float] = []
        for epoch in range(1, trial.epochs + 1):
            for rows in torch.randperm(len(self._images.train), generator=rng).split(BATCH):
                x = torch.bernoulli(self._images.train[rows], generator=rng)
                loss = -network.log_weights(x, 1, rng).mean()
                if stop():
                    raise EvaluationStoppedError(f"trial {trial.id} was cancelled in epoch {epoch}")
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            schedule.step()
            curve.append(self.negative_log_likelihood(network))
            report(0, epoch, min(curve[-1], PENALTY))
        return curve

    def negative_log_likelihood(self, network: Autoencoder) -> float:
        """Return the estimate in nats; inf for a value that is not finite."""
        rng, total = torch.Generator().manual_seed(0), 0.0
        with torch.no_grad():
            for x in self._images.held_out.split(BATCH):
                weights = network.log_weights(x, IMPORTANCE_SAMPLES, rng)
                total -= float((weights.logsumexp(0) - math.log(IMPORTANCE_SAMPLES)).sum())
        value = total / len(self._images.held_out)
        return value if math.isfinite(value) else math.inf


def vae_fmnist_small(settings: ProblemSettings) -> Problem:
    """The problem, for settings without missing data keys."""
    data = settings.data
    assert data.train
    assert data.validation
    train, validation, name = data.train, data.validation, dataset_name(data.name or "", data.root)

    def build(split: Any, hardware: Hardware) -> VAETrainer:
        return VAETrainer(split, hardware.threads)

    return Problem(
        space=VAE_SPACE,
        build=build,
        penalty=PENALTY,
        epochs=EPOCHS,
        objective=f"The objective is the negative log-likelihood of {validation:,} images of {name} in nats, by a "
        f"network trained on {train:,} others.",
        seeds=1,
        dataset=name,
        load=lambda: search_split(image_set(data), train, validation),
    )


VAE_FMNIST_SMALL = ConfigurableProblem(
    vae_fmnist_small, {"name": "fashion_mnist", "root": None, "train": 6_000, "validation": 500}
)
