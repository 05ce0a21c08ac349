"""Which experiments and optimizers can be compared: what must agree, and what weakens a comparison."""

from collections.abc import Iterator, Mapping
from typing import Any

from fmnas.platform.config.errors import format_value
from fmnas.platform.config.schema import Config, OptimizerConfig
from fmnas.platform.experiment.configuration import diff
from fmnas.platform.experiment.experiment import Experiment
from fmnas.platform.experiment.warm_start import WarmStartData
from fmnas.platform.problems import ALIASES
from fmnas.platform.registry import IN_MEMORY, split_reference
from fmnas.search_spaces import Space

OBJECTIVE_KEYS = ("problem", "fixed", "objective", "fidelity", "data", "seeds")
"""The configuration keys that define the objective."""


def objective_settings(config: Config, space: Space | None = None, digest: str = "") -> dict[str, Any]:
    """Return what defines the objective, by key: results are comparable if these settings are equal.

    data.root is left out, because the digest of user data identifies them. space: of a problem that exists in memory
    only; else None. digest: SHA-256 of user data; empty if there are none or it is not known yet.
    """
    plain = config.model_dump(mode="json", exclude={"data": {"root"}})
    return {
        **{key: plain[key] for key in OBJECTIVE_KEYS},
        "problem": ALIASES.get(config.problem, config.problem),
        **({} if space is None else {"space": space}),
        **({"SHA-256 of the data": digest} if digest else {}),
    }


def optimizer_settings(entry: OptimizerConfig) -> dict[str, Any]:
    """Return everything that decides what an optimizer suggests: its class, options, concurrency and warm start."""
    plain = entry.model_dump(mode="json", include={"name", "use", "concurrency", "warm_start"})
    return {**plain, **entry.settings}


def format_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield `key = OURS and THEIRS` for every value that differs, of the keys that both have."""
    common = [key for key in ours if key in theirs and ours[key] != theirs[key]]
    changed = diff({key: ours[key] for key in common}, {key: theirs[key] for key in common})
    for key, (our_value, their_value) in changed.items():
        yield f"{key} = {format_value(our_value)} and {format_value(their_value)}"


def warm_start_notes(experiment: Experiment) -> list[str]:
    """Return a note for every optimizer with a warm start: its trials, their cost, and what it does to the pairing."""
    entries = [entry for entry in experiment.config.optimizers if entry.warm_start is not None]
    return [_warm_start_note(entry, experiment.config, experiment.warm_starts) for entry in entries]


def _warm_start_note(entry: OptimizerConfig, config: Config, warm_starts: Mapping[str, WarmStartData]) -> str:
    source = warm_starts[entry.label]
    counts = sorted({len(trials) for trials in source.trials[: config.repeats]})
    count = "-".join(map(str, counts[:: max(1, len(counts) - 1)]))
    code = "function" if split_reference(config.problem)[0] == IN_MEMORY else "file"
    other_code = f" The {code} of the problem was different there." if source.altered else ""
    starts = {label: (other.experiment, other.label) for label, other in warm_starts.items()}
    takers = [competitor.label for competitor in config.optimizers if competitor.implementation.takes_initial_design]
    unpaired = [label for label in takers if starts.get(label) != starts[entry.label]]
    pairing = f" Its pairing with {', '.join(unpaired)} is weaker: they start from other trials." if unpaired else ""
    return (
        f"Warm start of {entry.label}: {count} trials per repeat from {source.directory} ({source.label}), charged as "
        f"{count} of {config.budget.evaluations} evaluations; wall-clock times exclude them.{other_code}{pairing}"
    )


def budget_change_notes(changes: Mapping[str, Any], config: Config) -> dict[str, str]:
    """Return label -> note for every optimizer that knows its budget and whose budget an extension changed.

    changes: of the extension. config: of the experiment after it.
    """
    before, after = changes.get("budget.evaluations", (0, 0))
    if before == after:
        return {}
    labels = [entry.label for entry in config.optimizers if entry.implementation.takes_budget]
    existing = changes.get("optimizers", (labels,))[0]
    text = (
        f"knows the size of its budget: {before} evaluations before the extension, {after} after it. A run that had "
        "the larger budget from its start could have suggested other trials."
    )
    return {label: f"{label} {text}" for label in labels if label in existing}


def format_extension(changes: Mapping[str, Any]) -> str:
    """Return e.g. "repeats 3 -> 5, optimizers + tpe"."""
    texts = []
    for key, (before, after) in changes.items():
        if isinstance(after, list):
            texts.append(f"{key} + {', '.join(name for name in after if name not in before)}")
        else:
            texts.append(f"{key} {before} -> {'no limit' if after is None else after}")
    return ", ".join(texts)
