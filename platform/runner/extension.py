"""What an extension makes of a configuration: what may grow in it, and why all else may not change.

Each trial's seed follows from the experiment's seed, its repeat and its number; each optimizer's from the experiment's
seed, the repeat and its label. So more repeats, another optimizer and a larger budget leave all that was done as it is,
and paired with all that comes: what is added is what it would have been from the beginning. One thing is not: an
optimizer that is told its budget heard of the smaller one. It goes on as one that is told of the larger one and has
these results; a replay follows it there, and every report says so.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fmnas.platform.config.errors import format_problems, format_value
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_overrides
from fmnas.platform.config.uri import with_absolute_uri
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.comparability import optimizer_settings
from fmnas.platform.experiment.configuration import FREE_TO_CHANGE, GROWING, differences, flat, is_within

REASONS = {
    "name": "its folders, and its experiment in MLflow, are called by it",
    "problem": "results on two problems cannot be compared",
    "seed": "the seeds of all trials and the initial designs follow from it",
    "initial_design": "the optimizers of a repeat begin with the same points, and the old ones have begun",
    "seeds": "an objective averaged over other seeds is another objective",
    "fidelity": "an objective after other epochs, or by another schedule, is another objective",
    "budget.trial_seconds": "a trial that timed out would have ended otherwise, or the other way round",
    "on_failure": "the optimizers have heard of failures in the old way",
    "fixed": "the optimizers have chosen from another space",
    "objective": "an objective with another weight or count of FLOPs is another objective",
    "data": "an objective on other data is another objective",
    "checkpoints.continue_promoted": "promoted trials would be trained in another way",
}
"""Why a key cannot change, by the key or its section."""

ADVICE = (
    f"Nothing was touched. What can grow: {', '.join(GROWING)}; what is free to change: {', '.join(FREE_TO_CHANGE)}. "
    "All else makes another experiment: `fmnas run` it into a directory of its own."
)


ADDING = "-o optimizers+=NEW"
"""How to say that there is to be one optimizer more."""


def extended_config(config: Config, given: Sequence[str], root: Path) -> Config:
    """The configuration with what is `given`, as `KEY=VALUE`: bare labels of optimizers that it has stand for these.

    `optimizers+=NEW` adds one; where the experiment has it already, nothing is added, so the command can be repeated.
    root: the run directory, for messages. Raises ConfigError, naming every key that cannot be so and why.
    """
    place = f"the experiment in {root}"
    if not given:
        raise ConfigError(f"{place}: say what is to grow: -o repeats=N, -o budget.evaluations=N, {ADDING}")
    data = config.model_dump(mode="json")
    keys = apply_overrides(data, given)
    known = {entry.label: entry.model_dump(mode="json") for entry in config.optimizers}
    if isinstance(data["optimizers"], list):
        data["optimizers"] = [known.get(each, each) if isinstance(each, str) else each for each in data["optimizers"]]
        if "optimizers+" in keys:
            data["optimizers"] = _each_once(data["optimizers"], known)
    wanted = check_config(data, place, ADVICE)
    refusals = [*_of_budgets(config, wanted), *_of_optimizers(config, wanted), *_of_the_rest(config, wanted)]
    if refusals:
        raise ConfigError(format_problems(place, refusals, ADVICE))
    optimizers = [*config.optimizers, *(entry for entry in wanted.optimizers if entry.label not in known)]
    extended = wanted.model_copy(update={"optimizers": optimizers})
    return extended if extended.tracking == config.tracking else with_absolute_uri(extended, Path.cwd())


def growth(before: Config, after: Config) -> dict[str, Any]:
    """Of each key that has grown what it was and is; of the optimizers, their labels."""
    old, new = _growing(before), _growing(after)
    return {key: [old[key], new[key]] for key in GROWING if old[key] != new[key]}


def taken(before: Config, after: Config) -> list[str]:
    """That what is free to change was changed, if anything was."""
    changed = differences(before, after).items()
    free = [f"{key} = {format_value(now)}" for key, (_, now) in changed if is_within(key, FREE_TO_CHANGE)]
    return [f"from now on {', '.join(free)}"] if free else []


def _growing(config: Config) -> dict[str, Any]:
    plain = flat(config) | {"optimizers": [entry.label for entry in config.optimizers]}
    return {key: plain[key] for key in GROWING}


def _each_once(entries: Sequence[Any], known: Mapping[str, Any]) -> list[Any]:
    """The entries; of those with the label of an optimizer that the experiment has, the last."""
    labels = [str(entry.get("label", entry.get("name"))) if isinstance(entry, dict) else "" for entry in entries]
    return [
        entry
        for i, (label, entry) in enumerate(zip(labels, entries, strict=True))
        if label not in known or label not in labels[i + 1 :]
    ]


def _of_budgets(config: Config, wanted: Config) -> list[str]:
    """Why what was done does not fit into less; None is no limit."""
    old, new = _growing(config), _growing(wanted)
    return [
        f"{key} = {format_value(new[key])}: the experiment has {format_value(old[key])}, and what it did is "
        "kept: give more, or leave it out"
        for key in ("repeats", "budget.evaluations", "budget.seconds")
        if new[key] is not None and (old[key] is None or new[key] < old[key])
    ]


def _of_optimizers(config: Config, wanted: Config) -> list[str]:
    """Why all that are there must stay as they are."""
    now = {entry.label: entry for entry in wanted.optimizers}
    missing = [entry.label for entry in config.optimizers if entry.label not in now]
    left_out = (
        f"optimizers: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} left out, and what was done is "
        f"kept: write {ADDING} for one more; of some of them alone a report of other directories tells"
    )
    altered = [
        f"optimizers: {entry.label} has other settings here, and did what it did with those it has: write its label "
        f"alone for it as it is, or {{name: {entry.name}, label: {entry.label}-2, KEY: VALUE}} for one more"
        for entry in config.optimizers
        if entry.label in now and optimizer_settings(entry) != optimizer_settings(now[entry.label])
    ]
    return [left_out, *altered] if missing else altered


def _of_the_rest(config: Config, wanted: Config) -> list[str]:
    """Why nothing else may change, key by key."""
    return [
        f"{key} = {format_value(now)}: the experiment has {format_value(before)}: {_reason(key)}"
        for key, (before, now) in differences(config, wanted).items()
        if not is_within(key, (*FREE_TO_CHANGE, *GROWING))
    ]


def _reason(key: str) -> str:
    return REASONS.get(key) or REASONS.get(key.partition(".")[0], "what was done was done with that")
