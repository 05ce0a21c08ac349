"""Which experiments and optimizers can be compared: what must agree, what it costs, and what weakens a comparison."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from fmnas.optimizers.optimizer import SearchPlan
from fmnas.platform.config.errors import format_count, format_value
from fmnas.platform.config.schema import ALL_PAIRS, Config
from fmnas.platform.errors import truncate
from fmnas.platform.experiment.configuration import diff
from fmnas.platform.experiment.warm_start import WarmStartData
from fmnas.platform.problems import problem, resolve_alias
from fmnas.search_spaces import Space

OBJECTIVE_KEYS = ("problem", "fixed", "objective", "fidelity", "data", "seeds")
"""The configuration keys that define the objective."""


def objective_settings(config: Config, space: Space, digest: str = "") -> dict[str, Any]:
    """Return what defines the objective, by key: results are comparable if these settings are equal.

    data.root is left out, because the digest of user data identifies them. space: of the problem. digest: SHA-256 of
    user data; empty if there are none or it is not known yet.
    """
    plain = config.model_dump(mode="json", exclude={"data": {"root"}})
    return {
        **{key: plain[key] for key in OBJECTIVE_KEYS},
        "problem": resolve_alias(config.problem),
        "space": space,
        **({"SHA-256 of the data": digest} if digest else {}),
    }


def format_differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """Yield `key = OURS and THEIRS` for every value that differs, of the keys that both have."""
    common = [key for key in ours if key in theirs and ours[key] != theirs[key]]
    if "space" in common:
        common.remove("space")
        yield from _space_differences(ours["space"], theirs["space"])
    changed = diff({key: ours[key] for key in common}, {key: theirs[key] for key in common})
    for key, (our_value, their_value) in changed.items():
        yield f"{key} = {format_value(our_value)} and {format_value(their_value)}"


def _space_differences(ours: Space, theirs: Space) -> Iterator[str]:
    """Yield `variable NAME = OURS and THEIRS` for each that differs or is missing; then all names, and constraints."""
    first, second = (
        {f"variable {variable.name}": repr(variable) for variable in space.variables}
        | {"variables": ", ".join(space.names), "constraints": ", ".join(map(repr, space.constraints)) or "none"}
        for space in (ours, theirs)
    )
    for key in {**first, **second}:
        if first.get(key) != second.get(key):
            yield f"{key} = {truncate(first.get(key, 'none'))} and {truncate(second.get(key, 'none'))}"


def format_cost(config: Config) -> str:
    """Return the cost of the budgets of all runs: a training per evaluation and seed, and the epochs of all of them."""
    runs = len(config.optimizers) * config.repeats
    evaluations = runs * config.budget.evaluations
    trainings = evaluations * max(1, problem(config.problem, config.problem_settings).seeds)
    epochs = trainings * config.fidelity.epochs
    counts = {"run": runs, "evaluation": evaluations, "training": trainings, "epoch": epochs}
    return ", ".join(format_count(count, noun) for noun, count in counts.items()) + " in all"


def design_warnings(config: Config, present: Collection[str] = ()) -> list[str]:
    """Return a warning if the paired tests cannot become significant, and those of the optimizers.

    A warning is not an error: it says what to change, as an override of `fmnas run`. present: labels of optimizers of
    an extended experiment, whose options cannot change: advice on these is left out.
    """
    from fmnas.comparison.analysis.paired_tests import repeats_needed

    warnings = []
    count, repeats = len(config.optimizers), config.repeats
    is_all = config.hypotheses == ALL_PAIRS
    pairs = math.comb(count, 2) if is_all else count - 1
    needed = repeats_needed(pairs) if pairs else 0
    if repeats < needed:
        tested = f"{count} optimizers" if is_all else f"{config.hypotheses} and {count - 1} others"
        warnings.append(
            f"{format_count(repeats, 'repeat')} of {tested}: no verdict is possible, {needed} are needed: "
            f"-o repeats={needed}"
        )
    dimensions = len(problem(config.problem, config.problem_settings).space.names) - len(config.fixed)
    for i, entry in enumerate(config.optimizers):
        option, budget = f"-o optimizers.{i}.", "-o budget.evaluations"
        plan = SearchPlan(config.budget.evaluations, config.fidelity.epochs, dimensions, option, budget)
        text = entry.implementation.config_warning(entry.settings, plan)
        is_fixed = entry.label in present and option in text
        warnings += [f"{entry.label}: {text}"] if text and not is_fixed else []
    return warnings


def warm_start_notes(config: Config, warm_starts: Mapping[str, WarmStartData]) -> list[str]:
    """Return a note for every optimizer with a warm start: its trials, their cost, and what it does to the pairing."""
    notes = []
    for label, source in warm_starts.items():
        count = "-".join(map(str, sorted({min(map(len, source.trials)), max(map(len, source.trials))})))
        trials = "1 trial" if count == "1" else f"{count} trials"
        other_code = " The code of the problem was different there." if source.altered else ""
        notes.append(
            f"Warm start of {label}: {trials} per repeat from {source.directory} ({source.label}), charged as "
            f"{count} of {config.budget.evaluations} evaluations; wall-clock times exclude them.{other_code} Its "
            "pairing with optimizers that start from other trials is weaker."
        )
    return notes


def budget_change_notes(changes: Mapping[str, Any], config: Config) -> dict[str, str]:
    """Return label -> note for every optimizer that knows its budget and whose budget an extension changed.

    changes: of the extension. config: of the experiment after it.
    """
    before, after = changes.get("budget.evaluations", (0, 0))
    existing = changes.get("optimizers", ([entry.label for entry in config.optimizers],))[0]
    return {
        entry.label: f"{entry.label} knows the size of its budget: {before} evaluations before the extension, {after} "
        "after it. A run that had the larger budget from its start could have suggested other trials."
        for entry in config.optimizers
        if before != after and entry.label in existing and entry.implementation.takes_budget
    }


def format_extension(changes: Mapping[str, Any]) -> str:
    """Return e.g. "repeats 3 -> 5, optimizers + tpe"."""
    texts = []
    for key, (before, after) in changes.items():
        if isinstance(after, list):
            texts.append(f"{key} + {', '.join(name for name in after if name not in before)}")
        else:
            texts.append(f"{key} {before} -> {'no limit' if after is None else after}")
    return ", ".join(texts)
