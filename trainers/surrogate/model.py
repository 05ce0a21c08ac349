"""The surrogate: what recorded trainings predict of others, and its file.

    surrogate = read_surrogate(Path("joint_recorded.npz"))     # `benchmarks/surrogate.py fit` wrote it
    evaluation = surrogate.draw(trial)

It predicts four numbers by ensembles of trees (`trees.py`) from the features of a training (`features.py`): the mean of
the logarithm of its error over seeds, the logarithm of its standard deviation, the share of seeds that guess or
diverge, and the logarithm of the seconds of its longest training. The error of a seed is drawn: that of guessing with
this share, else a log-normal number. So an evaluation has the noise of a real one. FLOPs are exact. Seconds grow with
the epochs: a trial costs these and `facts.overhead` more. Far from all recorded trainings it is `extrapolated`.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import exp
from pathlib import Path
from typing import Any

import numpy as np

from fmnas.search_spaces import Cell, Evaluation, Trial
from fmnas.search_spaces.files import write_aside
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.features import Features, FlopsCosts, RecordedPoints
from fmnas.trainers.surrogate.trees import Trees

ERRORS, SECONDS = ("error", "spread", "guessing"), "seconds"
MODELS = (*ERRORS, SECONDS)


@dataclass(frozen=True)
class Facts:
    """What the predicted trainings have in common.

    problem: attributes of a `Problem` that are plain data. settings: what defines the objective. sources: of the
    recorded experiments. features: their names, in order. flops: as `FlopsCosts`. seeds: trainings per evaluation.
    images: an error is a multiple of 1 / images. epochs: of the longest training. overhead: what a trial costs besides
    its epochs, in epochs. flops_weight: in the objective.
    """

    problem: Mapping[str, Any]
    settings: Mapping[str, Any]
    sources: Sequence[Mapping[str, Any]]
    features: Sequence[str]
    flops: Mapping[str, Any]
    seeds: int
    images: int
    epochs: int
    overhead: float
    flops_weight: float


@dataclass(frozen=True)
class Prediction:
    """What is predicted of a training.

    log_error, deviation: mean and standard deviation over seeds of the logarithm of its error. guessing: share of seeds
    that guess. seconds: of all seeds and epochs. extrapolated: whether the training is far from all recorded ones.
    """

    log_error: float
    deviation: float
    guessing: float
    seconds: float
    extrapolated: bool


@dataclass(frozen=True, eq=False)
class Surrogate:
    """Draws evaluations of the joint problem.

    models: the Trees of each of MODELS. recorded: what they were fitted to. name, place, digest: of its file; the
    SHA-256.
    """

    facts: Facts
    models: Mapping[str, Trees]
    recorded: RecordedPoints
    name: str = ""
    place: str = ""
    digest: str = ""

    @cached_property
    def features(self) -> Features:
        """What the models see."""
        return Features(FlopsCosts(**self.facts.flops), self.facts.epochs)

    def predict(self, trial: Trial) -> Prediction:
        """Return the prediction for a trial of at most `facts.epochs` epochs."""
        x = self.features.vector(trial.configuration, trial.epochs, trial.epochs)
        error, spread, guessing = (self.models[name].predict(x) for name in ERRORS)
        most, overhead = self.facts.epochs, self.facts.overhead
        whole = self.features.vector(trial.configuration, most, most)
        seconds = exp(self.models[SECONDS].predict(whole)) * (overhead + trial.epochs) / (overhead + most)
        extrapolated = self.recorded.are_far_from(whole)
        return Prediction(error, exp(spread), min(max(guessing, 0.0), 1.0), seconds, extrapolated)

    def draw(self, trial: Trial) -> Evaluation:
        """Return an evaluation of a trial, drawn by its seed: the same for the same trial."""
        prediction, rng = self.predict(trial), np.random.default_rng(trial.seed)
        scores = rng.standard_normal(self.facts.seeds).tolist()
        guesses = (rng.random(self.facts.seeds) < prediction.guessing).tolist()
        errors = [
            GUESSING_ERROR if guess else self._round(exp(prediction.log_error + prediction.deviation * score))
            for score, guess in zip(scores, guesses, strict=True)
        ]
        costs, mean = self.features.flops, sum(errors) / len(errors)
        flops = costs.count(Cell.from_configuration(trial.configuration))
        ratio = flops / costs.largest
        return Evaluation(
            objective=mean + self.facts.flops_weight * ratio,
            epochs=trial.epochs,
            errors=tuple(errors),
            flops=flops,
            flops_ratio=ratio,
            seconds=prediction.seconds,
            diverged=any(guesses),
            extrapolated=prediction.extrapolated,
        )

    def _round(self, error: float) -> float:
        return min(round(error * self.facts.images) / self.facts.images, GUESSING_ERROR)


def write_surrogate(path: Path, surrogate: Surrogate) -> None:
    """Write a surrogate to a .npz file, which is replaced at once."""
    recorded = surrogate.recorded
    arrays: dict[str, Any] = {"header": np.array(json.dumps(vars(surrogate.facts)))}
    arrays |= {"recorded": recorded.X, "recorded_scale": recorded.scale, "recorded_limit": np.array(recorded.limit)}
    for name, trees in surrogate.models.items():
        arrays |= trees.to_arrays(name)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_aside(path, buffer.getvalue())


def read_surrogate(path: Path) -> Surrogate:
    """Return the surrogate of a file."""
    content = path.read_bytes()
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        facts = Facts(**json.loads(str(file["header"])))
        models = {name: Trees.from_arrays(file, name) for name in MODELS}
        recorded = RecordedPoints(file["recorded"], file["recorded_scale"], float(file["recorded_limit"]))
    return Surrogate(facts, models, recorded, path.stem, str(path), sha256(content).hexdigest())
