"""Keys of a configuration that depend on other keys.

The default of workers.kind, the values of a file that an override makes meaningless, and values without effect.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from fmnas.platform.config.errors import format_value
from fmnas.platform.config.schema import (
    ALL_PAIRS,
    AUTHORS,
    IN_PROCESS,
    RAY,
    Config,
    DataConfig,
    WorkersConfig,
    default_initial_points,
)
from fmnas.platform.config.user_problem import find_entry
from fmnas.platform.problems import ProblemEntry, display_name, is_user_defined
from fmnas.search_spaces import FmnasError
from fmnas.trainers.problem import Problem

PLACEHOLDERS: Mapping[str, Any] = {
    "name": "unnamed",
    "problem": "func2c",
    "optimizers": ["random"],
    "budget": {"evaluations": 1},
    "fidelity": {"epochs": 1},
}
"""Values for required keys that are missing or wrong, so that the other keys can be checked."""


def default_kind(workers: WorkersConfig, entry: ProblemEntry, concurrency: Iterable[int]) -> str:
    """The kind of workers for workers.kind = auto: in-process for a function that takes milliseconds, else Ray.

    Setting count, cpus, gpus or an optimizer's concurrency asks for Ray's workers. concurrency: of each optimizer.
    """
    wants_workers = workers.model_fields_set & {"count", "cpus", "gpus"} or any(number > 1 for number in concurrency)
    return IN_PROCESS if entry.takes_milliseconds and not wants_workers else RAY


def fall_back(data: dict[str, Any], before: Mapping[str, Any], overridden: Collection[str]) -> Iterator[str]:
    """Change the values of the file that an override makes meaningless; yields a line for each change.

    data: the configuration with its overrides, which is changed. before: the file's. overridden: the keys of the
    overrides. Values of overrides stay, and so do values that are wrong in the file itself.
    """
    chosen, labels = before.get("hypotheses"), _find_labels(data)
    is_removed = chosen in _find_labels(before) and labels and chosen not in labels
    if is_removed and not _is_overridden("hypotheses", overridden):
        data["hypotheses"] = ALL_PAIRS
        yield f"hypotheses = {ALL_PAIRS}: {chosen}, of the configuration, is not one of these optimizers"
    try:
        entry = find_entry(data.get("problem"))
        if entry is not None:
            if _is_overridden("problem", overridden):
                yield from _drop_keys_of_old_problem(data, entry, overridden)
            yield from _replace_authors_points(data, entry, overridden)
    except FmnasError:  # the check of the problem reports it
        return


def _drop_keys_of_old_problem(data: dict[str, Any], entry: ProblemEntry, overridden: Collection[str]) -> Iterator[str]:
    """Drop what the file sets of its problem and the problem of the override does not take."""
    takes = entry.configurable
    foreign = {
        "data": set(DataConfig.model_fields) - set(takes.data),
        "objective": {"flops_weight"} if takes.flops_weight is None else set(),
        "checkpoints": set() if takes.checkpoints else {"every", "continue_promoted"},
        "fixed": {*data["fixed"]} - {*entry.problem().space.names} if isinstance(data.get("fixed"), dict) else set(),
    }
    dropped = []
    for section, names in foreign.items():
        values = data.get(section)
        for name in list(values) if isinstance(values, dict) else ():
            if name in names and not _is_overridden(f"{section}.{name}", overridden):
                del data[section][name]
                dropped.append(f"{section}.{name}")
    if isinstance(entry.target, Problem) and "seeds" in data and not _is_overridden("seeds", overridden):
        del data["seeds"]
        dropped.append("seeds")
    if dropped:
        yield f"{display_name(entry.name)} does not take {', '.join(dropped)} of the configuration: left out"


def _replace_authors_points(data: dict[str, Any], entry: ProblemEntry, overridden: Collection[str]) -> Iterator[str]:
    """Replace the authors' points by random ones if an override makes them unavailable."""
    if data.get("initial_design") != AUTHORS or _is_overridden("initial_design", overridden):
        return
    if _is_overridden("problem", overridden) and not entry.problem().has_authors_points:
        why = f"the authors' points are not available for {display_name(entry.name)}"
    elif _is_overridden("fixed", overridden) and data.get("fixed"):
        why = "the authors' points cannot be combined with fixed"
    else:
        return
    budget = data.get("budget")
    evaluations = budget.get("evaluations") if isinstance(budget, dict) else None
    if isinstance(evaluations, int) and evaluations > 0:
        data["initial_design"] = default_initial_points(evaluations)
        yield f"initial_design = {data['initial_design']} random points: {why}"


def find_ineffective_keys(config: Config, overridden: Collection[str]) -> Iterator[str]:
    """A line for values that were set and have no effect. overridden: the keys of the overrides."""
    workers = config.workers
    if workers.kind == IN_PROCESS:
        set_keys = [f"workers.{key} = {format_value(getattr(workers, key))}" for key in _find_ray_keys(workers)]
        set_keys += [
            f"optimizers.{i}.concurrency = {entry.concurrency}"
            for i, entry in enumerate(config.optimizers)
            if entry.concurrency > 1
        ]
        if set_keys:
            yield f"without effect: {', '.join(set_keys)}: workers.kind = {IN_PROCESS} runs one trial at a time here"
    entry = find_entry(config.problem)
    is_set = _is_overridden("seeds", overridden) or config.seeds != Config.model_fields["seeds"].default
    if entry is not None and not is_user_defined(entry.name) and is_set and not entry.problem().seeds:
        yield f"without effect: seeds = {config.seeds}: an evaluation of {config.problem} has no seeds to average"
    tracking = [f"tracking.{key}" for key in ("uri", "experiment") if getattr(config.tracking, key) is not None]
    if tracking and not config.tracking.enabled:
        yield f"without effect: {', '.join(tracking)}: tracking.enabled = false"


def _find_ray_keys(workers: WorkersConfig) -> list[str]:
    """The keys with a value other than the default that only Ray's workers use."""
    fields = type(workers).model_fields
    return [key for key in ("count", "cpus", "attempts") if getattr(workers, key) != fields[key].default]


def _is_overridden(key: str, overridden: Collection[str]) -> bool:
    """Whether an override names the key, something in it or the section around it."""
    return any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in overridden)


def _find_labels(data: Mapping[str, Any]) -> list[Any]:
    """The labels of the optimizers in a configuration's plain data."""
    entries = data.get("optimizers")
    items = entries if isinstance(entries, list) else []
    mappings = [item if isinstance(item, dict) else {"name": item} for item in items]
    return [entry.get("label", entry.get("name")) for entry in mappings]
