"""What is wrong in a configuration that the types of its keys do not show.

Each check returns a line for each problem that it finds. It reads the keys that stand beside it in `CHECKS`, so it can
run where other keys are wrong.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pydantic import ValidationError

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.config.dependent_keys import ALL_PAIRS, AUTHORS
from fmnas.platform.config.sections import IN_PROCESS, OptimizerConfig
from fmnas.platform.config.uri import TrackingError, check_uri
from fmnas.platform.errors import ConfigError
from fmnas.platform.messages import describe, shown, unknown
from fmnas.platform.optimizers import OPTIMIZERS
from fmnas.platform.problems import ALIASES, PROBLEMS, Row
from fmnas.search_spaces.subspace import misfits
from fmnas.trainers.problem import USER_SETS, Problem, ProblemSettings

if TYPE_CHECKING:
    from fmnas.platform.config.config import Config

Check = Callable[["Config", Row | None], list[str]]
SIZES = {"fashion_mnist": 60_000, "digits": 1_797}
"""Images of each data set that is known before it is loaded; its test images are not among them."""


def _check_problem(config: "Config", row: Row | None) -> list[str]:
    if row is not None:
        return []
    wrong = unknown("problem", config.problem, [*PROBLEMS, *ALIASES], "fmnas list problems")
    return [f"{wrong} One of your own is FILE.py:NAME or MODULE:NAME."]


def _check_names(config: "Config", _: Row | None) -> list[str]:
    labels = [entry.label for entry in config.optimizers]
    return [
        unknown(f"optimizers.{i}", entry.name, list(OPTIMIZERS), "fmnas list optimizers")
        for i, entry in enumerate(config.optimizers)
        if entry.use is None and entry.name not in OPTIMIZERS
    ] + [
        f"optimizers: {label!r} is given twice: leave one out or, to compare its options, tell them apart by labels: "
        f"{{name: {label}, label: {label}-2, KEY: VALUE}}"
        for label in dict.fromkeys(labels)
        if labels.count(label) > 1
    ]


def _check_hypotheses(config: "Config", _: Row | None) -> list[str]:
    labels = dict.fromkeys(entry.label for entry in config.optimizers)
    if config.hypotheses in {ALL_PAIRS, *labels}:
        return []
    return [
        f"hypotheses = {config.hypotheses!r}: it must be {ALL_PAIRS}, for every pair, or the one optimizer of this "
        f"configuration that is tested against each of the rest: {', '.join(labels)}"
    ]


def _check_options(config: "Config", _: Row | None) -> list[str]:
    """Of the optimizers that have some, or are a user's: the others' defaults are good, and they need not be loaded."""
    found = []
    for i, entry in enumerate(config.optimizers):
        if entry.use is not None or (entry.options and entry.name in OPTIMIZERS):
            try:
                entry.row.complete(entry.options)
            except ValidationError as error:
                schema, place, besides = entry.row.options, ("optimizers", i), ("concurrency", "warm_start")
                found += [describe(each, schema, place, besides) for each in error.errors()]
            except OptimizerError as error:
                found.append(f"optimizers.{i}.{error}")
            except (ConfigError, TypeError) as error:
                found.append(f"optimizers.{i}.use = {shown(entry.use)}: {error}")
    return found


def _check_design(config: "Config", row: Row | None) -> list[str]:
    if config.initial_design != AUTHORS or row is None:
        return []
    if config.fixed:
        why = "of the whole space, and fixed leaves a part of it"
    elif not _has_authors_points(row):
        able = ", ".join(name for name, other in PROBLEMS.items() if _has_authors_points(other))
        why = f"known for {able}, not for {config.problem}"
    else:
        return []
    return [f"initial_design = {AUTHORS!r}: the authors' points are {why}; give a number of random points"]


def _has_authors_points(row: Row) -> bool:
    return row.problem(ProblemSettings()).has_authors_points


def _check_budget(config: "Config", _: Row | None) -> list[str]:
    if config.budget.evaluations > config.initial_points:
        return []
    takers = dict.fromkeys(
        entry.label for entry in config.optimizers if entry.warm_start is None and _takes_design(entry)
    )
    if not takers:
        return []
    points = f" ({config.initial_points} points)" if config.initial_design == AUTHORS else ""
    return [
        f"budget.evaluations = {config.budget.evaluations}: it must exceed initial_design = "
        f"{config.initial_design!r}{points}, or {', '.join(takers)} would have nothing left to choose; "
        "raise the one or lower the other"
    ]


def _check_warm_starts(config: "Config", _: Row | None) -> list[str]:
    return [
        f"optimizers.{i}.warm_start = {shown(entry.warm_start)}: {entry.label} takes no initial design, in whose place "
        "an optimizer hears of earlier trials; leave it out"
        for i, entry in enumerate(config.optimizers)
        if entry.warm_start is not None and _takes_design(entry) is False
    ]


def _takes_design(entry: OptimizerConfig) -> bool | None:
    """None where there is no such optimizer, which is said of its `name` or `use`."""
    try:
        return entry.row.takes_initial_design
    except (KeyError, ConfigError):
        return None


def _check_data(config: "Config", row: Row | None) -> list[str]:
    given = {key: value for key, value in config.data if value is not None}
    if row is None or not given:
        return []
    takes = row.settable.data
    has_none = isinstance(row.found, Problem) and not row.found.dataset
    without = "none, it has no data" if has_none else "none, its data are fixed"
    taken = ", ".join(f"data.{key}" for key in takes) or without
    found = [
        f"data.{key} = {shown(value)}: {config.problem} does not take it (of data.* it takes {taken}); leave it out"
        for key, value in given.items()
        if key not in takes
    ]
    early, complete = config.data.early_validation, row.complete(config.problem_settings).data
    if not found and complete.name in USER_SETS and complete.root is None:
        found.append(
            f"data.root: missing; data.name = {complete.name} needs a folder with its IDX files, or an .npz file"
        )
    if not found and early is not None and complete.validation is not None and early > complete.validation:
        found.append(f"data.early_validation = {early}: it must be at most data.validation, {complete.validation}")
    return found


def _check_checkpoints(config: "Config", row: Row | None) -> list[str]:
    chosen = config.checkpoints
    wanted = {key: value for key, value in chosen if value is not None and value is not False}
    if row is not None and wanted and not row.settable.checkpoints:
        able = ", ".join(name for name, other in PROBLEMS.items() if other.settable.checkpoints)
        return [
            f"checkpoints.{key} = {shown(value)}: {config.problem} keeps no checkpoints ({able} does); leave it out"
            for key, value in wanted.items()
        ]
    if chosen.continue_promoted and chosen.every is None:
        return [
            "checkpoints.continue_promoted = true: it needs checkpoints.every, the epochs between two checkpoints; "
            "set that, e.g. to 5, or leave continue_promoted out"
        ]
    return []


def _check_objective(config: "Config", row: Row | None) -> list[str]:
    weight = config.objective.flops_weight
    if row is None or weight is None or row.settable.flops_weight is not None:
        return []
    able = ", ".join(name for name, other in PROBLEMS.items() if other.settable.flops_weight is not None)
    return [
        f"objective.flops_weight = {shown(weight)}: the objective of {config.problem} has no FLOPs in it (that of "
        f"{able} does); leave it out"
    ]


def _check_fixed(config: "Config", row: Row | None) -> list[str]:
    return misfits(row.problem(config.problem_settings).space, config.fixed) if row and config.fixed else []


def _check_size(config: "Config", row: Row | None) -> list[str]:
    if row is None:
        return []
    data = row.complete(config.problem_settings).data
    most = SIZES.get(data.name or "")
    if most is None or data.train is None or data.validation is None or data.train + data.validation <= most:
        return []
    return [
        f"data.train = {data.train}, data.validation = {data.validation}: {data.name} has {most:,} images for both; "
        "give fewer of one or the other"
    ]


def _check_root(config: "Config", row: Row | None) -> list[str]:
    root = config.data.root
    if root is None or row is None or "root" not in row.settable.data or os.path.exists(root):
        return []
    return [f"data.root = {shown(root)}: there is no such file or folder on this machine; give the one with the data"]


def _check_store(config: "Config", _: Row | None) -> list[str]:
    if not config.tracking.enabled or config.tracking.uri is None:
        return []
    try:
        check_uri(config.tracking.uri)
    except TrackingError as error:
        return [str(error)]
    return []


def _check_device(config: "Config", _: Row | None) -> list[str]:
    if config.workers.kind != IN_PROCESS or not config.workers.gpus:
        return []
    import torch

    if torch.cuda.is_available():
        return []
    return [
        f"workers.gpus = {config.workers.gpus:g}: workers.kind = {IN_PROCESS} trains in this process, which has no "
        "GPU; leave workers.gpus out, or take workers.kind = ray"
    ]


CHECKS: dict[Check, tuple[str, ...]] = {
    _check_problem: ("problem",),
    _check_names: ("optimizers",),
    _check_hypotheses: ("optimizers", "hypotheses"),
    _check_options: ("optimizers",),
    _check_design: ("problem", "initial_design", "fixed"),
    _check_budget: ("optimizers", "initial_design", "budget"),
    _check_warm_starts: ("optimizers",),
    _check_data: ("problem", "data"),
    _check_checkpoints: ("problem", "checkpoints"),
    _check_objective: ("problem", "objective"),
    _check_fixed: ("problem", "fixed"),
}
"""Check -> the keys that it reads. A check returns what is wrong, given the row of the problem, if there is one."""

CHECKS_HERE: dict[Check, tuple[str, ...]] = {
    _check_size: ("problem", "data"),
    _check_root: ("problem", "data"),
    _check_store: ("tracking",),
    _check_device: ("workers",),
}
"""The same of what must be on the machine that runs it."""
