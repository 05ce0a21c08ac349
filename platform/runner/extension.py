"""Extending an experiment: which values may grow, and why all others must stay unchanged.

The seed of a trial follows from the experiment's seed, its repeat and its number, and that of an optimizer from the
experiment's seed, the repeat and its label. So more repeats, another optimizer and a larger budget leave the results so
far unchanged, and paired with those to come. One thing differs: an optimizer that knows its budget knew the smaller
one before; reports state that.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fmnas.platform.config.errors import format_problems, format_value
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_overrides
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.comparability import optimizer_settings
from fmnas.platform.experiment.configuration import EXTENDABLE_KEYS, MUTABLE_KEYS, diff, flatten, is_under

HINT = (
    f"Nothing was written. {', '.join(EXTENDABLE_KEYS)} may grow, and {', '.join(MUTABLE_KEYS)} may change. For any "
    "other change, `fmnas run` the configuration in a new directory."
)
ADD_OPTIMIZER = "-o optimizers+=NEW"


def extended_config(config: Config, overrides: Sequence[str], root: Path) -> Config:
    """Return the configuration with overrides, as `KEY=VALUE`, with the labels of optimizers replaced by their entries.

    `optimizers+=NEW` adds one; repeating it adds nothing. root: the run directory, for messages.
    Raises ConfigError, naming every key, if an override would change what was done.
    """
    place = f"the experiment in {root}"
    if not overrides:
        raise ConfigError(f"{place}: nothing to extend: pass -o repeats=N, -o budget.evaluations=N or {ADD_OPTIMIZER}")
    data = config.model_dump(mode="json")
    keys = apply_overrides(data, overrides)
    known = {entry.label: entry.model_dump(mode="json") for entry in config.optimizers}
    if isinstance(data["optimizers"], list):
        data["optimizers"] = [
            known.get(optimizer, optimizer) if isinstance(optimizer, str) else optimizer
            for optimizer in data["optimizers"]
        ]
        if "optimizers+" in keys:
            data["optimizers"] = _without_repetitions(data["optimizers"], known)
    after = check_config(data, place, HINT)
    check_extension(config, after, root)
    added = [entry for entry in after.optimizers if entry.label not in known]
    return after.model_copy(update={"optimizers": [*config.optimizers, *added]})


def check_extension(before: Config, after: Config, root: Path) -> None:
    """Raise ConfigError, naming every key, if a configuration changes what was done with an earlier one."""
    errors = [*_budget_errors(before, after), *_optimizer_errors(before, after), *_other_errors(before, after)]
    if errors:
        raise ConfigError(format_problems(f"the experiment in {root}", errors, HINT))


def extension_changes(before: Config, after: Config) -> dict[str, Any]:
    """Return key -> [before, after] of what has grown; optimizers by their labels."""
    old, new = _extendable_values(before), _extendable_values(after)
    return {key: [old[key], new[key]] for key in EXTENDABLE_KEYS if old[key] != new[key]}


def format_changed_settings(before: Config, after: Config) -> str:
    """Return e.g. "workers.count = 4" of what changed in MUTABLE_KEYS; empty if nothing did."""
    changed = diff(before, after).items()
    return ", ".join(f"{key} = {format_value(now)}" for key, (_, now) in changed if is_under(key, MUTABLE_KEYS))


def _extendable_values(config: Config) -> dict[str, Any]:
    plain = flatten(config) | {"optimizers": [entry.label for entry in config.optimizers]}
    return {key: plain[key] for key in EXTENDABLE_KEYS}


def _without_repetitions(entries: Sequence[Any], known: Mapping[str, Any]) -> list[Any]:
    """Return the entries; of several with the label of an existing optimizer, the last."""
    labels = [str(entry.get("label", entry.get("name"))) if isinstance(entry, dict) else "" for entry in entries]
    return [
        entry
        for i, (label, entry) in enumerate(zip(labels, entries, strict=True))
        if label not in known or label not in labels[i + 1 :]
    ]


def _budget_errors(before: Config, after: Config) -> list[str]:
    old, new = _extendable_values(before), _extendable_values(after)
    return [  # None means no limit
        f"{key} = {format_value(new[key])}: cannot be lowered from {format_value(old[key])}"
        for key in ("repeats", "budget.evaluations", "budget.seconds")
        if new[key] is not None and (old[key] is None or new[key] < old[key])
    ]


def _optimizer_errors(before: Config, after: Config) -> list[str]:
    now = {entry.label: entry for entry in after.optimizers}
    missing = [entry.label for entry in before.optimizers if entry.label not in now]
    errors = [f"optimizers: {label} cannot be removed: write {ADD_OPTIMIZER} to add one" for label in missing]
    return errors + [
        f"optimizers: the options of {entry.label} cannot change: add it again with a new label, "
        f"{{name: {entry.name}, label: {entry.label}-2, KEY: VALUE}}"
        for entry in before.optimizers
        if entry.label in now and optimizer_settings(entry) != optimizer_settings(now[entry.label])
    ]


def _other_errors(before: Config, after: Config) -> list[str]:
    return [
        f"{key} = {format_value(now)}: cannot change; the experiment has {format_value(earlier)}"
        for key, (earlier, now) in diff(before, after).items()
        if not is_under(key, (*MUTABLE_KEYS, *EXTENDABLE_KEYS))
    ]
