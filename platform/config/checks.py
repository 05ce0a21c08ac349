"""Checks of a configuration beyond its schema: between keys, with its problem, and on this machine.

A check yields a line for each thing that is wrong. The machine's checks are for a new experiment: a run directory can
be read where its data, its MLflow store and its GPU are missing.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from pydantic import ValidationError

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.config.errors import format_errors, format_unknown, format_value
from fmnas.platform.config.schema import ALL_PAIRS, AUTHORS, AUTO, INSTANT, SIMULATED, Config, DataConfig, WorkersConfig
from fmnas.platform.config.uri import TrackingError, check_uri
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import ProblemEntry, is_user_defined
from fmnas.platform.references import find_plugins
from fmnas.platform.registry import OPTIMIZERS
from fmnas.search_spaces.subspace import fixed_value_errors
from fmnas.trainers.problem import USER_SETS, Problem

Checks: TypeAlias = Mapping[Callable[[Config, ProblemEntry], Iterator[str]], frozenset[str]]
"""Check -> the top keys that it reads."""
DATA_SIZES = {"fashion_mnist": 60_000, "digits": 1_797}
"""Images for training and validation of each data set whose size is known before it is loaded."""


def _check_labels(config: Config, _: ProblemEntry) -> Iterator[str]:
    labels = [entry.label for entry in config.optimizers]
    for label in dict.fromkeys(labels):
        if labels.count(label) > 1:
            yield f"optimizers: duplicate label {label!r}: set another one, e.g. {{name: {label}, label: {label}-2}}"
    if config.hypotheses not in {ALL_PAIRS, *labels}:
        allowed = ", ".join(dict.fromkeys(labels))
        yield f"hypotheses = {config.hypotheses!r}: must be {ALL_PAIRS}, or one of {allowed}"


def _check_optimizers(config: Config, _: ProblemEntry) -> Iterator[str]:
    """Check names and options: the class of an optimizer of the registry without options is not imported."""
    for i, entry in enumerate(config.optimizers):
        if entry.use is None and entry.name not in OPTIMIZERS:
            names = [*OPTIMIZERS, *find_plugins("fmnas.optimizers")]
            unknown = format_unknown(f"optimizers.{i}", entry.name, names, "fmnas list optimizers")
            yield f"{unknown} A user-defined optimizer is FILE.py:CLASS or MODULE:CLASS."
        elif entry.use is not None or entry.options:
            try:
                options = entry.implementation.validate_options(entry.options)
                entry.implementation.caveat(options)  # a class that fails at it is refused before anything is written
            except ValidationError as error:
                schema, place = entry.implementation.options, ("optimizers", i)
                yield from format_errors(error, schema, entry.options, place, also=("concurrency", "warm_start"))
            except OptimizerError as error:
                yield f"optimizers.{i}.{error}"
            except ConfigError as error:
                yield f"optimizers.{i}.use = {format_value(entry.use)}: {error}"


def _check_initial_trials(config: Config, _: ProblemEntry) -> Iterator[str]:
    evaluations, points = config.budget.evaluations, config.initial_points
    labels: dict[str, None] = {}
    for i, entry in enumerate(config.optimizers):
        if entry.warm_start is None and evaluations > points:
            continue  # without importing its class
        try:
            takes_design = entry.implementation.takes_initial_design
        except (KeyError, ConfigError):  # there is no such optimizer: another check reports it
            continue
        if entry.warm_start is None and takes_design:
            labels[entry.label] = None
        elif entry.warm_start is not None and not takes_design:
            value = format_value(entry.warm_start)
            yield f"optimizers.{i}.warm_start = {value}: {entry.label} does not support warm_start; leave it out"
    if labels:
        yield (
            f"budget.evaluations = {evaluations}: must be greater than initial_design = {config.initial_design!r} "
            f"({points} points), which {', '.join(labels)} would use up"
        )


def _check_fixed(config: Config, entry: ProblemEntry) -> Iterator[str]:
    if config.fixed:
        yield from fixed_value_errors(entry.problem(config.problem_settings).space, config.fixed)
    if config.initial_design == AUTHORS and (config.fixed or not entry.problem().has_authors_points):
        why = "cannot be combined with fixed" if config.fixed else f"not available for {config.problem}"
        yield f"initial_design = {AUTHORS!r}: {why}; give a number of random points"


def _check_problem_keys(config: Config, entry: ProblemEntry) -> Iterator[str]:
    takes = entry.configurable
    keys = [f"data.{key}" for key in DataConfig.model_fields if key not in takes.data]
    keys += [] if takes.schedule else ["fidelity.schedule_epochs"]
    keys += [] if takes.checkpoints else ["checkpoints.every", "checkpoints.continue_promoted"]
    keys += ["objective.flops_weight", "objective.flops"] if takes.flops_weight is None else []
    for key in keys:
        section, _, name = key.partition(".")
        values = getattr(config, section)
        value = getattr(values, name)
        if value != type(values).model_fields[name].default:
            yield f"{key} = {format_value(value)}: {config.problem} does not take it; leave it out"
    data = entry.with_defaults(config.problem_settings).data
    early, validation = data.early_validation, data.validation
    if early is not None and validation is not None and early > validation:
        yield f"data.early_validation = {early}: must be at most data.validation, {validation}"


def _check_epochs(config: Config, _: ProblemEntry) -> Iterator[str]:
    epochs, planned, checkpoints = config.fidelity.epochs, config.fidelity.schedule_epochs, config.checkpoints
    if planned is not None and (planned < epochs or (planned > epochs and checkpoints.continue_promoted)):
        yield (
            f"fidelity.schedule_epochs = {planned}: must be at least fidelity.epochs, {epochs}, and equal to it with "
            "checkpoints.continue_promoted"
        )
    if checkpoints.continue_promoted and checkpoints.every is None:
        yield "checkpoints.continue_promoted = true: set checkpoints.every as well, e.g. to 5"


def _check_racing(config: Config, entry: ProblemEntry) -> Iterator[str]:
    if config.racing is not None and not config.racing < (seeds := entry.problem(config.problem_settings).seeds):
        allowed = f"must be less than seeds = {seeds}" if seeds else f"{config.problem} averages over no seeds"
        yield f"racing = {config.racing}: {allowed}; leave it out to train all seeds"


def _check_simulation(config: Config, entry: ProblemEntry) -> Iterator[str]:
    workers = config.workers
    if entry.is_recorded and workers.kind not in (AUTO, SIMULATED):
        yield (
            f"workers.kind = {format_value(workers.kind)}: must be {SIMULATED} for a recorded problem, whose trials "
            "take their recorded seconds; leave out workers.kind"
        )
    elif workers.suggestions == INSTANT and workers.kind != SIMULATED and not entry.is_recorded:
        yield f"workers.suggestions = {INSTANT!r}: only for workers.kind = {SIMULATED}, here {workers.kind}"


CHECKS: Checks = {
    _check_labels: frozenset({"optimizers", "hypotheses"}),
    _check_optimizers: frozenset({"optimizers"}),
    _check_initial_trials: frozenset({"optimizers", "initial_design", "budget"}),
    _check_fixed: frozenset({"problem", "fixed", "initial_design"}),
    _check_problem_keys: frozenset({"problem", "data", "fidelity", "checkpoints", "objective"}),
    _check_epochs: frozenset({"fidelity", "checkpoints"}),
    _check_racing: frozenset({"problem", "seeds", "racing"}),
    _check_simulation: frozenset({"problem", "workers"}),
}


def _check_data(config: Config, entry: ProblemEntry) -> Iterator[str]:
    data, root, takes = config.data, config.data.root, entry.configurable.data
    size = DATA_SIZES.get(data.name or "")
    if "name" in takes and size is not None and (data.train or 0) + (data.validation or 0) > size:
        images = f"{data.name} has {size:,} images for both"
        yield f"data.train = {data.train}, data.validation = {data.validation}: {images}; reduce one of them"
    if "name" in takes and root is None and data.name in USER_SETS:
        yield f"data.root: missing: the folder or file with the images of data.name = {data.name}"
    if root is not None and "root" in takes and not os.path.exists(root):
        yield f"data.root = {format_value(root)}: no such file or folder on this machine"


def _check_tracking(config: Config, _: ProblemEntry) -> Iterator[str]:
    if config.tracking.enabled and config.tracking.uri is not None:
        try:
            check_uri(config.tracking.uri)
        except TrackingError as error:
            yield str(error)


def _check_gpus(config: Config, _: ProblemEntry) -> Iterator[str]:
    workers = config.workers
    if workers.is_in_driver and workers.gpus:
        import torch

        if not torch.cuda.is_available():
            yield (
                f"workers.gpus = {workers.gpus:g}: this process has no GPU, and workers.kind = {workers.kind} trains "
                "in it; leave workers.gpus out, or set workers.kind to ray"
            )


def _check_cpus(config: Config, _: ProblemEntry) -> Iterator[str]:
    """Check that the workers fit on this machine's CPUs: a local Ray offers these, or fewer in a container."""
    workers, cpus = config.workers, os.cpu_count() or 1
    fit, least = int(cpus / workers.cpus + 1e-9), 1 if workers.count == AUTO else int(workers.count)
    is_local = not (workers.is_in_driver or workers.autoscale or os.environ.get("RAY_OVERRIDE_RESOURCES"))
    if is_local and fit < least:
        yield (
            f"workers.count = {workers.count}: {fit} fit on this machine's {cpus} CPUs, with workers.cpus = "
            f"{workers.cpus:g} each; lower one of them, or use a larger cluster with --address"
        )


DRIVER_CHECKS: Checks = {
    _check_data: frozenset({"problem", "data"}),
    _check_tracking: frozenset({"tracking"}),
    _check_gpus: frozenset({"problem", "optimizers", "workers"}),
}
"""Checks that this machine has what a driver needs. These and the next take a resolved configuration."""
LOCAL_CHECKS: Checks = {**DRIVER_CHECKS, _check_cpus: frozenset({"problem", "optimizers", "workers"})}
"""Checks that it has what driver and workers need."""


def _find_fixed_fidelity(config: Config, problem: Problem) -> Iterator[str]:
    """Yield why epochs or seeds make no difference to a problem of the registry."""
    if config.seeds != Config.model_fields["seeds"].default and config.seeds != problem.seeds:
        seeds = f"averages {problem.seeds} seeds" if problem.seeds > 1 else "has no seeds to average"
        yield f"seeds = {config.seeds}: an evaluation of {config.problem} {seeds}"
    if config.fidelity.epochs > 1 and problem.function is not None:
        yield (
            f"fidelity.epochs = {config.fidelity.epochs}: {config.problem} has the same value after any number of "
            "epochs, for which multi-fidelity optimizers pay less"
        )


def find_ineffective_keys(config: Config, entry: ProblemEntry) -> Iterator[str]:
    """Yield each value that was set and has no effect, and why. config: resolved."""
    workers = config.workers
    if workers.is_in_driver:
        fields, values = WorkersConfig.model_fields, vars(workers)
        names = (*(() if workers.is_simulated else ("count",)), "cpus", "attempts", "autoscale")
        keys = [f"workers.{key}" for key in names if values[key] != fields[key].default]
        if not workers.is_simulated:
            keys += [f"optimizers.{i}.concurrency" for i, one in enumerate(config.optimizers) if one.concurrency > 1]
        if keys:
            how = "evaluates" if workers.is_simulated else "runs"
            yield f"{', '.join(keys)}: workers.kind = {workers.kind} {how} one trial at a time here"
    if workers.is_simulated and workers.system_metrics:
        yield f"workers.system_metrics: workers.kind = {workers.kind} takes the time of a trial from its result"
    if not is_user_defined(entry.name):
        yield from _find_fixed_fidelity(config, entry.problem(config.problem_settings))
    tracking = [f"tracking.{key}" for key in ("uri", "experiment") if getattr(config.tracking, key) is not None]
    if tracking and not config.tracking.enabled:
        yield f"{', '.join(tracking)}: tracking.enabled = false"
