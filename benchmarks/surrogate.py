"""Fit the surrogate of the joint problem to recorded trainings, and say how well it predicts.

    fmnas record DIR --out FILE.npz                                     # of each recorded experiment
    python benchmarks/surrogate.py fit FILE.npz [FILE.npz ...] --out trainers/surrogate/joint_recorded.npz
    python benchmarks/surrogate.py validate FILE.npz [FILE.npz ...]

The settings of the last file are those of the problem; seconds are those on its device. A trial is seen at its last
epoch and, if all epochs were validated on as many images, at each epoch.

`validate` predicts every result at full fidelity by models that saw no training of its network and schedule: in ten
parts, for each optimizer by models that saw none of its trials, and for each repeat of the last file likewise.
Kendall's tau is of predicted and recorded objectives; that of the best hundred, of those with the lowest recorded
objectives. The last row says what the noise would leave of a perfect prediction: it takes the predictions for the
truth. Noise: how often the error of one seed is in the interval that the predicted deviation gives, around the mean of
the other seeds. Predicted - recorded is of log errors: +0.01 is 1% too high.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from command import run_command
from numpy.typing import NDArray
from scipy.special import digamma
from scipy.stats import kendalltau, norm
from sklearn.ensemble import GradientBoostingRegressor

from fmnas.search_spaces import Cell, Configuration, joint_space
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images.network import count_flops
from fmnas.trainers.recorded import identify
from fmnas.trainers.recorded_table import RecordedResult, RecordedTable, TableHeader, read_table
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.features import Features, FlopsCosts, RecordedPoints
from fmnas.trainers.surrogate.model import MODELS, Facts, Surrogate, write_surrogate
from fmnas.trainers.surrogate.trees import Trees

Floats = NDArray[np.float64]
LARGE, SMALL = {"n_estimators": 500, "learning_rate": 0.03}, {"n_estimators": 150, "learning_rate": 0.05}
COMMON = {"max_depth": 4, "subsample": 0.5, "max_features": 0.25, "min_samples_leaf": 4, "random_state": 0}
SETTINGS: dict[str, dict[str, Any]] = {
    "error": LARGE,
    "spread": {**SMALL, "max_depth": 2, "min_samples_leaf": 20},
    "guessing": {**SMALL, "min_samples_leaf": 8},
    "seconds": LARGE,
}
"""Of the gradient boosting behind each model."""
PARTS = 10
LEVELS, DRAWS = (0.5, 0.9), 20
FAR = 0.95
"""The share of the recorded trainings that are not far from the others."""
HEAD_OF_ACCURACY = (
    "| predicted results | number | R2 of log error | predicted - recorded | tau | best hundred | best tenth |",
    "|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Observation:
    """The errors of a training's seeds after `epoch` of its `length` epochs.

    group: what was trained. optimizer: that asked for it. seconds: of all seeds; NaN before the last epoch, and for a
    training on another device than that of the last file. repeat: of the last file's experiment; -1 in other files.
    """

    configuration: Configuration
    length: int
    epoch: int
    errors: tuple[float, ...]
    flops_ratio: float
    seconds: float
    group: int
    optimizer: str
    repeat: int = -1

    @property
    def is_last(self) -> bool:
        """Whether the training ended there."""
        return self.epoch == self.length


def read_observations(tables: Sequence[RecordedTable]) -> list[Observation]:
    """Return what was observed in all finished trials."""
    groups: dict[Any, int] = {}
    observations = []
    last = tables[-1]
    device = next(filter(None, map(device_of, map(last.result, range(len(last))))), None)
    for table in tables:
        is_whole = table.header.settings["data"]["early_validation"] is None
        for row in range(len(table)):
            result = table.result(row)
            if (evaluation := result.evaluation) is None:
                continue
            configuration, length = result.trial.configuration, result.trial.epochs
            group = groups.setdefault(identify(configuration), len(groups))
            optimizer, repeat = result.run.rsplit("/repeat-", 1)
            for epoch in range(1 if is_whole else length, length + 1):
                errors = tuple(curve[epoch - 1] for curve in evaluation.seed_curves)
                is_timed = epoch == length and device_of(result) == device
                seconds = evaluation.seconds if is_timed else np.nan
                rest = evaluation.flops_ratio or 0.0, seconds, group, optimizer, int(repeat) if table is last else -1
                observations.append(Observation(configuration, length, epoch, errors, *rest))
    return observations


def device_of(result: RecordedResult) -> str | None:
    """Return the device that trained, None if it is unknown or the trial failed."""
    conditions = result.evaluation.conditions if result.evaluation else None
    return conditions.device if conditions else None


def measure_flops() -> FlopsCosts:
    """Return what an operation costs, by exchanging one of a cell whose states are all live."""
    inputs = ((-1, 0), (0, 1), (1, 2), (2, 3))

    def count(*first: str) -> int:
        names = [*first, *["identity"] * (8 - len(first))]
        return count_flops(Cell(inputs, tuple(zip(names[::2], names[1::2], strict=True)), output=3))

    constant = count()
    costs = {name: count(name) - constant for name in OPERATIONS}
    return FlopsCosts(constant, costs, count(*["conv5x5"] * 8))


def targets_of(observations: Sequence[Observation], most: int) -> dict[str, Floats]:
    """Return what each model shall predict; NaN where nothing was observed. most: epochs of the longest training."""
    errors = np.array([observation.errors for observation in observations])
    guesses = errors >= GUESSING_ERROR
    logs = np.log(np.where(guesses, np.nan, np.maximum(errors, 1e-3)))
    with np.errstate(invalid="ignore", divide="ignore"):
        counts = (~guesses).sum(axis=1)
        means = np.nansum(logs, axis=1) / np.where(counts > 0, counts, np.nan)
        deviations = np.where(counts == errors.shape[1], logs.std(axis=1, ddof=1), np.nan)
    freedom = errors.shape[1] - 1
    bias = (digamma(freedom / 2) - np.log(freedom / 2)) / 2  # of the logarithm of a normal sample's deviation
    return {
        "error": means,
        "spread": np.log(np.maximum(deviations, 1e-3)) - bias,
        "guessing": guesses.mean(axis=1),
        "seconds": np.log([one.seconds if one.length == most else np.nan for one in observations]),
    }


def fit_models(X: NDArray[np.float32], targets: dict[str, Floats]) -> dict[str, Trees]:
    """Fit each model to the rows that have its target; features X [n, F]."""
    models = {}
    for name in MODELS:
        known = ~np.isnan(targets[name])
        models[name] = to_trees(
            GradientBoostingRegressor(**{**COMMON, **SETTINGS[name]}).fit(X[known], targets[name][known])
        )
    return models


def to_trees(fitted: GradientBoostingRegressor) -> Trees:
    """Return scikit-learn's ensemble as arrays."""
    parts, roots, first = [], [], 0
    for tree in (estimator.tree_ for estimator in fitted.estimators_[:, 0]):
        nodes = np.arange(tree.node_count)
        is_leaf = tree.children_left < 0
        low, high = (
            np.where(is_leaf, nodes, children) + first for children in (tree.children_left, tree.children_right)
        )
        features, thresholds = np.where(is_leaf, 0, tree.feature), np.where(is_leaf, 0.0, tree.threshold)
        parts.append((features, thresholds, low, high, fitted.learning_rate * tree.value[:, 0, 0]))
        roots.append(first)
        first += tree.node_count
    features, thresholds, low, high, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Trees(
        np.array(roots, dtype=np.int32),
        features.astype(np.int16),
        thresholds,
        low.astype(np.int32),
        high.astype(np.int32),
        values,
        np.array(fitted.init_.constant_.item()),
    )


def measure_overhead(observations: Sequence[Observation], most: int) -> float:
    """Return what a trial costs besides its epochs, in epochs: by what was trained for one epoch and for `most`."""
    timed = [one for one in observations if not np.isnan(one.seconds)]
    seconds = {(one.group, one.length): one.seconds for one in timed}
    pairs = [(short, seconds.get((group, most))) for (group, length), short in seconds.items() if length == 1]
    ratios = [longest / short for short, longest in pairs if longest is not None]
    ratio = float(np.median(ratios)) if ratios else most
    return max(0.0, (most - ratio) / (ratio - 1.0))


def describe_facts(headers: Sequence[TableHeader], features: Features, observations: Sequence[Observation]) -> Facts:
    """Return the facts of a surrogate of these tables, whose problem is that of the last."""
    header = headers[-1]
    names = list(features.describe(joint_space().sample(np.random.default_rng(0)), 1, 1))
    description = (
        "Drawn from a surrogate of recorded trainings of the joint problem, with their noise. It says little of longer "
        "trainings on more images: docs/joint.md."
    )
    objective = f"Nothing is trained; what is drawn is this. {header.problem['objective']}"
    costs = features.flops
    return Facts(
        problem={**header.problem, "name": "joint_recorded", "description": description, "objective": objective},
        settings=header.settings,
        sources=[source for one in headers for source in one.sources],
        features=names,
        flops={"constant": costs.constant, "operations": costs.operations, "largest": costs.largest},
        seeds=len(observations[0].errors),
        images=header.settings["data"]["validation"],
        epochs=features.most,
        overhead=measure_overhead(observations, features.most),
        flops_weight=header.settings["objective"]["flops_weight"],
    )


@dataclass(frozen=True)
class Recorded:
    """Observations as arrays. X: [n, F]. fit_rows: fits the models to some of them."""

    observations: Sequence[Observation]
    X: NDArray[np.float32]
    targets: dict[str, Floats]
    fit_rows: Callable[[NDArray[np.float32], dict[str, Floats]], dict[str, Any]] = fit_models

    @property
    def groups(self) -> NDArray[np.int64]:
        """What was trained, [n]."""
        return np.array([observation.group for observation in self.observations])

    @property
    def is_full(self) -> NDArray[np.bool_]:
        """Which observations are results at full fidelity, [n]."""
        most = max(one.length for one in self.observations)
        return np.array([one.is_last and one.length == most for one in self.observations])

    def optimizer_is(self, name: str) -> NDArray[np.bool_]:
        """Which observations an optimizer asked for, [n]."""
        return np.array([observation.optimizer == name for observation in self.observations])

    @property
    def repeats(self) -> NDArray[np.int64]:
        """The repeat of each observation, [n]."""
        return np.array([observation.repeat for observation in self.observations])

    def fit(self, rows: NDArray[np.bool_]) -> dict[str, Trees]:
        """Fit models to these rows."""
        return self.fit_rows(self.X[rows], {name: target[rows] for name, target in self.targets.items()})

    def predict(self, models: Mapping[str, Trees], rows: NDArray[np.bool_]) -> dict[str, Floats]:
        """Predict these rows."""
        return {name: np.array([trees.predict(x) for x in self.X[rows]]) for name, trees in models.items()}


def arrange(observations: Sequence[Observation], features: Features) -> Recorded:
    """Return observations as arrays."""
    X = np.stack([features.vector(one.configuration, one.length, one.epoch) for one in observations])
    return Recorded(observations, X, targets_of(observations, features.most))


def place_points(recorded: Recorded) -> RecordedPoints:
    """Return the results at full fidelity as points. The limit: FAR of them have another training within it."""
    X, groups = recorded.X[recorded.is_full], recorded.groups[recorded.is_full]
    deviations = recorded.X.std(axis=0, dtype=float)
    points = RecordedPoints(np.ascontiguousarray(X.T), np.where(deviations > 0, deviations, np.inf), np.inf)
    nearest = [points.distances(x)[groups != group].min() for x, group in zip(X, groups, strict=True)]
    return replace(points, limit=float(np.quantile(nearest, FAR)))


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


def main() -> None:
    """Fit, or print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("fit", "validate"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tables = [read_table(path) for path in arguments.files]
    observations = read_observations(tables)
    features = Features(measure_flops(), max(one.length for one in observations))
    recorded = arrange(observations, features)
    print(f"trials = {sum(one.is_last for one in observations)}, trainings = {recorded.groups.max() + 1}")
    facts = describe_facts([table.header for table in tables], features, observations)
    if arguments.command == "validate":
        print("\n".join(lines_of_accuracy(recorded, facts.flops_weight)))
        return
    models = recorded.fit(np.ones(len(observations), dtype=bool))
    surrogate = Surrogate(facts, models, place_points(recorded))
    write_surrogate(arguments.out, surrogate)
    print(f"{arguments.out}: bytes = {arguments.out.stat().st_size:,}")


if __name__ == "__main__":
    run_command(main)
