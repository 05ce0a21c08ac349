"""Checks of a configuration beyond its schema: between keys, with its problem, and on this machine.

A check yields a line for each thing that is wrong. The machine's checks are for a run: a run directory can be read
where its data, its MLflow store and its GPU are missing.
"""

import os
from collections.abc import Callable, Iterator, Mapping

from pydantic import ValidationError

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.config.errors import format_errors, format_unknown, format_value
from fmnas.platform.config.schema import ALL_PAIRS, AUTHORS, IN_PROCESS, Config, ObjectiveConfig, OptimizerConfig
from fmnas.platform.config.uri import TrackingError, check_uri
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import PROBLEMS, ProblemEntry
from fmnas.platform.registry import OPTIMIZERS, find_plugins
from fmnas.search_spaces.subspace import fixed_value_errors
from fmnas.trainers.problem import USER_SETS, Problem

Check = Callable[[Config, ProblemEntry], Iterator[str]]

DATA_SIZES = {"fashion_mnist": 60_000, "digits": 1_797}
"""Images for training and validation of each data set whose size is known before it is loaded."""


def _supporting(supports: Callable[[ProblemEntry], object]) -> str:
    """The names of the registry's problems that support something."""
    return ", ".join(name for name, entry in PROBLEMS.items() if supports(entry))


def _check_names(config: Config, _: ProblemEntry) -> Iterator[str]:
    for i, entry in enumerate(config.optimizers):
        if entry.use is None and entry.name not in OPTIMIZERS:
            names = [*OPTIMIZERS, *find_plugins("fmnas.optimizers")]
            yield format_unknown(f"optimizers.{i}", entry.name, names, "fmnas list optimizers")
    labels = [entry.label for entry in config.optimizers]
    for label in dict.fromkeys(labels):
        if labels.count(label) > 1:
            yield f"optimizers: duplicate label {label!r}: set another one, e.g. {{name: {label}, label: {label}-2}}"


def _check_hypotheses(config: Config, _: ProblemEntry) -> Iterator[str]:
    labels = dict.fromkeys(entry.label for entry in config.optimizers)
    if config.hypotheses not in {ALL_PAIRS, *labels}:
        yield f"hypotheses = {config.hypotheses!r}: must be {ALL_PAIRS}, or one of {', '.join(labels)}"


def _check_options(config: Config, _: ProblemEntry) -> Iterator[str]:
    """Check user-defined optimizers, and others with options: the class of an optimizer without any is not imported."""
    for i, entry in enumerate(config.optimizers):
        if entry.use is None and not (entry.options and entry.name in OPTIMIZERS):
            continue
        try:
            entry.implementation.validate_options(entry.options)
        except ValidationError as error:
            schema, place = entry.implementation.options, ("optimizers", i)
            yield from format_errors(error, schema, entry.options, place, also=("concurrency", "warm_start"))
        except OptimizerError as error:
            yield f"optimizers.{i}.{error}"
        except ConfigError as error:
            yield f"optimizers.{i}.use = {format_value(entry.use)}: {error}"


def _check_design(config: Config, entry: ProblemEntry) -> Iterator[str]:
    if config.initial_design != AUTHORS:
        return
    if config.fixed:
        yield f"initial_design = {AUTHORS!r}: cannot be combined with fixed; give a number of random points"
    elif not entry.problem().has_authors_points:
        names = _supporting(lambda other: other.problem().has_authors_points)
        yield (
            f"initial_design = {AUTHORS!r}: available for {names}, not for {config.problem}; give a number of random "
            "points"
        )


def _check_budget(config: Config, _: ProblemEntry) -> Iterator[str]:
    if config.budget.evaluations > config.initial_points:
        return
    labels = dict.fromkeys(e.label for e in config.optimizers if e.warm_start is None and _takes_initial_design(e))
    if labels:
        points = f" ({config.initial_points} points)" if config.initial_design == AUTHORS else ""
        yield (
            f"budget.evaluations = {config.budget.evaluations}: must be greater than initial_design = "
            f"{config.initial_design!r}{points}, which {', '.join(labels)} would use up"
        )


def _check_warm_starts(config: Config, _: ProblemEntry) -> Iterator[str]:
    for i, entry in enumerate(config.optimizers):
        if entry.warm_start is not None and _takes_initial_design(entry) is False:
            value = format_value(entry.warm_start)
            yield f"optimizers.{i}.warm_start = {value}: {entry.label} does not support warm_start; leave it out"


def _takes_initial_design(entry: OptimizerConfig) -> bool | None:
    """Whether an optimizer takes an initial design; None for one that cannot be found, which other checks report."""
    try:
        return entry.implementation.takes_initial_design
    except (KeyError, ConfigError):
        return None


def _check_data(config: Config, entry: ProblemEntry) -> Iterator[str]:
    values = {key: value for key, value in config.data if value is not None}
    if not values:
        return
    known = entry.configurable.data
    if unknown := [key for key in values if key not in known]:
        has_data = not isinstance(entry.target, Problem) or entry.target.dataset
        none = "none, its data are fixed" if has_data else "none, it has no data"
        allowed = ", ".join(f"data.{key}" for key in known) or none
        for key in unknown:
            value = format_value(values[key])
            yield f"data.{key} = {value}: {config.problem} does not take it (it takes {allowed}); leave it out"
        return
    early, resolved = config.data.early_validation, entry.with_defaults(config.problem_settings).data
    if resolved.name in USER_SETS and resolved.root is None:
        yield f"data.root: missing; data.name = {resolved.name} needs a folder with its IDX files, or an .npz file"
    elif early is not None and resolved.validation is not None and early > resolved.validation:
        yield f"data.early_validation = {early}: must be at most data.validation, {resolved.validation}"


def _check_schedule(config: Config, entry: ProblemEntry) -> Iterator[str]:
    epochs, planned = config.fidelity.epochs, config.fidelity.schedule_epochs
    if planned is None:
        return
    line = f"fidelity.schedule_epochs = {planned}:"
    if not entry.configurable.schedule:
        names = _supporting(lambda other: other.configurable.schedule)
        yield f"{line} {config.problem} has no learning-rate schedule ({names} has); leave it out"
    elif planned < epochs:
        yield f"{line} must be at least fidelity.epochs, {epochs}"
    elif planned > epochs and config.checkpoints.continue_promoted:
        yield f"{line} must be fidelity.epochs, {epochs}, with checkpoints.continue_promoted; leave it out"


def _check_checkpoints(config: Config, entry: ProblemEntry) -> Iterator[str]:
    values = {key: value for key, value in config.checkpoints if value is not None and value is not False}
    if values and not entry.configurable.checkpoints:
        names = _supporting(lambda other: other.configurable.checkpoints)
        for key, value in values.items():
            yield (
                f"checkpoints.{key} = {format_value(value)}: {config.problem} does not support checkpoints ({names} "
                "does); leave it out"
            )
    elif config.checkpoints.continue_promoted and config.checkpoints.every is None:
        yield "checkpoints.continue_promoted = true: set checkpoints.every as well, e.g. to 5"


def _check_objective(config: Config, entry: ProblemEntry) -> Iterator[str]:
    if entry.configurable.flops_weight is not None:
        return
    for key, value in config.objective:
        if value != getattr(ObjectiveConfig(), key):
            names = _supporting(lambda other: other.configurable.flops_weight is not None)
            allowed = f"{config.problem} has no FLOPs term ({names} has); leave it out"
            yield f"objective.{key} = {format_value(value)}: {allowed}"


def _check_fixed(config: Config, entry: ProblemEntry) -> Iterator[str]:
    if config.fixed:
        yield from fixed_value_errors(entry.problem(config.problem_settings).space, config.fixed)


def _check_size(config: Config, entry: ProblemEntry) -> Iterator[str]:
    data = entry.with_defaults(config.problem_settings).data
    size = DATA_SIZES.get(data.name or "")
    if size is not None and (data.train or 0) + (data.validation or 0) > size:
        yield (
            f"data.train = {data.train}, data.validation = {data.validation}: {data.name} has {size:,} images for "
            "both; reduce one of them"
        )


def _check_root(config: Config, entry: ProblemEntry) -> Iterator[str]:
    root = config.data.root
    if root is not None and "root" in entry.configurable.data and not os.path.exists(root):
        yield f"data.root = {format_value(root)}: no such file or folder on this machine"


def _check_store(config: Config, _: ProblemEntry) -> Iterator[str]:
    if config.tracking.enabled and config.tracking.uri is not None:
        try:
            check_uri(config.tracking.uri)
        except TrackingError as error:
            yield str(error)


def _check_device(config: Config, _: ProblemEntry) -> Iterator[str]:
    if config.workers.kind != IN_PROCESS or not config.workers.gpus:
        return
    import torch

    if not torch.cuda.is_available():
        yield (
            f"workers.gpus = {config.workers.gpus:g}: this process has no GPU, and workers.kind = {IN_PROCESS} trains "
            "in it; leave workers.gpus out, or set workers.kind to ray"
        )


CHECKS: Mapping[Check, tuple[str, ...]] = {
    _check_names: ("optimizers",),
    _check_hypotheses: ("optimizers", "hypotheses"),
    _check_options: ("optimizers",),
    _check_design: ("problem", "initial_design", "fixed"),
    _check_budget: ("optimizers", "initial_design", "budget"),
    _check_warm_starts: ("optimizers",),
    _check_data: ("problem", "data"),
    _check_schedule: ("problem", "fidelity", "checkpoints"),
    _check_checkpoints: ("problem", "checkpoints"),
    _check_objective: ("problem", "objective"),
    _check_fixed: ("problem", "fixed"),
}
"""Check -> the keys that it reads."""
MACHINE_CHECKS: Mapping[Check, tuple[str, ...]] = {
    _check_size: ("problem", "data"),
    _check_root: ("problem", "data"),
    _check_store: ("tracking",),
    _check_device: ("workers",),
}
