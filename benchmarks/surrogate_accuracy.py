"""How well the models of the surrogate of the joint problem predict what they were not fitted to (surrogate.py)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau, norm
from surrogate_data import Floats
from surrogate_models import Recorded

from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.model import MODELS

PARTS = 10
LEVELS, DRAWS = (0.5, 0.9), 20
HEAD_OF_ACCURACY = (
    "| predicted results | number | R2 of log error | predicted - recorded | tau | best hundred | best tenth |",
    "|---|---|---|---|---|---|---|",
)


def divide(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of the part, of PARTS, in which each observation is predicted, [n]; a group is in one part."""
    return np.random.default_rng(0).permutation(groups.max() + 1)[groups] % PARTS


def predict_in_parts(recorded: Recorded) -> dict[str, Floats]:
    """Predict each observation by models that saw nothing of its group."""
    parts = divide(recorded.groups)
    predicted = {name: np.zeros(len(parts)) for name in MODELS}
    for part in range(PARTS):
        rows = parts == part
        for name, values in recorded.predict(recorded.fit(~rows), rows).items():
            predicted[name][rows] = values
    return predicted


def predict_by_others(recorded: Recorded, rows: NDArray[np.bool_]) -> dict[str, Floats]:
    """Predict these rows by models that saw none of their configurations."""
    is_new = ~np.isin(recorded.groups, recorded.groups[rows])
    return recorded.predict(recorded.fit(is_new), rows)


def predict_repeats(recorded: Recorded) -> dict[str, Floats]:
    """Predict the observations of each repeat by models that saw none of its configurations; others are 0, [n]."""
    predicted = {name: np.zeros(len(recorded.repeats)) for name in MODELS}
    for repeat in sorted({*recorded.repeats.tolist()} - {-1}):
        rows = recorded.repeats == repeat
        for name, values in predict_by_others(recorded, rows).items():
            predicted[name][rows] = values
    return predicted


def expected_errors(predicted: dict[str, Floats]) -> Floats:
    """Return the mean errors of trainings."""
    guessing = predicted["guessing"].clip(0.0, 1.0)
    means = np.exp(predicted["error"] + np.exp(predicted["spread"]) ** 2 / 2)
    return np.asarray(guessing * GUESSING_ERROR + (1.0 - guessing) * means)


def lines_of_accuracy(recorded: Recorded, weight: float) -> Iterator[str]:
    """Yield a table of how well results at full fidelity are predicted."""
    full = recorded.is_full
    every = predict_in_parts(recorded)
    yield from HEAD_OF_ACCURACY
    of_full = {name: values[full] for name, values in every.items()}
    yield line_of_accuracy("all, in ten parts", recorded, full, of_full, weight)
    optimizers = sorted({one.optimizer for one in recorded.observations})
    for optimizer in optimizers if len(optimizers) > 1 else ():
        rows = recorded.optimizer_is(optimizer)
        predicted = predict_by_others(recorded, rows)
        kept = {name: values[full[rows]] for name, values in predicted.items()}
        yield line_of_accuracy(f"{optimizer}, by the others", recorded, rows & full, kept, weight)
    if len({*recorded.repeats.tolist()} - {-1}) > 1:
        rows = full & (recorded.repeats >= 0)
        kept = {name: values[rows] for name, values in predict_repeats(recorded).items()}
        yield line_of_accuracy("a repeat of the last file, by all else", recorded, rows, kept, weight)
    yield line_of_noise_alone("a perfect prediction, by the noise alone", recorded, full, of_full, weight)
    yield ""
    yield from lines_of_noise(recorded, every)


def line_of_accuracy(label: str, recorded: Recorded, rows: Any, predicted: dict[str, Floats], weight: float) -> str:
    """Return a row of the table: how well these rows are predicted. weight: of the FLOPs in the objective."""
    chosen = [one for one, kept in zip(recorded.observations, rows, strict=True) if kept]
    ratios = weight * np.array([one.flops_ratio for one in chosen])
    truth = np.array([one.errors for one in chosen]).mean(axis=1) + ratios
    objective, logs = expected_errors(predicted) + ratios, recorded.targets["error"][rows]
    apart = predicted["error"] - logs
    r2 = 1.0 - np.nanmean(apart**2) / np.nanvar(logs)
    taus = " | ".join(f"{tau:.2f}" for tau in taus_of_best(objective, truth))
    return f"| {label} | {len(truth)} | {r2:.2f} | {np.nanmean(apart):+.3f} | {taus} |"


def line_of_noise_alone(label: str, recorded: Recorded, rows: Any, predicted: dict[str, Floats], weight: float) -> str:
    """Return a row of the table: what the noise leaves of predictions that are the truth."""
    chosen = [one for one, kept in zip(recorded.observations, rows, strict=True) if kept]
    ratios = weight * np.array([one.flops_ratio for one in chosen])
    taus = taus_of_truth(predicted, ratios, len(chosen[0].errors))
    return f"| {label} | {len(chosen)} | – | – | " + " | ".join(f"{tau:.2f}" for tau in taus) + " |"


def taus_of_best(predicted: Floats, truth: Floats) -> list[float]:
    """Return Kendall's tau of all results, of the best hundred, and of the best tenth."""
    return [tau_of_best(predicted, truth, count) for count in (len(truth), 100, round(len(truth) / 10))]


def taus_of_truth(predicted: dict[str, Floats], ratios: Floats, seeds: int) -> Floats:
    """Return the taus if the predictions were the truth, which is measured with `seeds` trainings; mean of DRAWS.

    ratios: what the FLOPs add to the objective.
    """
    rng, count = np.random.default_rng(0), len(ratios)
    objective = expected_errors(predicted) + ratios
    taus = []
    for _ in range(DRAWS):
        scores = np.exp(predicted["spread"])[:, None] * rng.standard_normal((count, seeds))
        errors = np.minimum(np.exp(predicted["error"][:, None] + scores), GUESSING_ERROR)
        guesses = rng.random((count, seeds)) < predicted["guessing"][:, None]
        measured = np.where(guesses, GUESSING_ERROR, errors).mean(axis=1) + ratios
        taus.append(taus_of_best(objective, measured))
    return np.mean(taus, axis=0)


def tau_of_best(predicted: Floats, truth: Floats, count: int) -> float:
    """Kendall's tau of the `count` results with the lowest truth."""
    best = truth.argsort(kind="stable")[:count]
    return float(kendalltau(predicted[best], truth[best])[0])


def lines_of_noise(recorded: Recorded, predicted: dict[str, Floats]) -> Iterator[str]:
    """Yield how often the error of a seed is in its interval around the mean of the others."""
    errors = np.array([one.errors for one in recorded.observations])
    last = np.array([one.is_last for one in recorded.observations])
    sane = last & (errors < GUESSING_ERROR).all(axis=1)
    logs, seeds = np.log(np.maximum(errors[sane], 1e-3)), errors.shape[1]
    means = (logs.sum(axis=1, keepdims=True) - logs) / (seeds - 1)
    scores = (logs - means) / (np.exp(predicted["spread"][sane])[:, None] * np.sqrt(seeds / (seeds - 1)))
    for level in LEVELS:
        inside = float((np.abs(scores) <= norm.ppf(0.5 + level / 2)).mean())
        yield f"share of seeds in the {level:.0%} interval of the noise = {inside:.3f}"
    yield f"share of seeds that guess: recorded = {(errors[last] >= GUESSING_ERROR).mean():.4f}, " + (
        f"predicted = {predicted['guessing'][last].clip(0, 1).mean():.4f}"
    )
