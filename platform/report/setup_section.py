"""What an experiment measured, and with what optimizers: its report is read where its configuration is not."""

from collections.abc import Iterator, Mapping
from typing import Any

from fmnas.comparison.analysis.formatting import listed
from fmnas.comparison.summary import Remark
from fmnas.platform.config.errors import format_value
from fmnas.platform.config.schema import AUTHORS, Config, OptimizerConfig
from fmnas.platform.experiment.configuration import differences
from fmnas.platform.experiment.experiment import Experiment
from fmnas.platform.experiment.warm_start import Knowledge
from fmnas.platform.problems import ALIASES, display_name, find_problem, is_user_defined
from fmnas.platform.registry import IN_MEMORY, split_reference
from fmnas.search_spaces import Space, Subspace
from fmnas.trainers.problem import Problem

OBJECTIVE = ("problem", "fixed", "objective", "fidelity", "data", "seeds")
"""The keys of a configuration that say what an objective is; but for data.root, since what lies there says it."""


def objective_settings(config: Config, space: Space | None = None, digest: str = "") -> dict[str, Any]:
    """What an objective is, by key: where two experiments say the same here, their results can be compared.

    space: of a problem that was handed over, which its name does not tell; else None. digest: SHA-256 of data that a
    user gave; empty where none were, or it is not known yet.
    """
    plain = config.model_dump(mode="json", exclude={"data": {"root"}})
    return {
        **{key: plain[key] for key in OBJECTIVE},
        "problem": ALIASES.get(config.problem, config.problem),
        **({} if space is None else {"space": space}),
        **({"SHA-256 of the data": digest} if digest else {}),
    }


def differing(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[str]:
    """A line for each value that differs, of the keys that both have: `key = OURS and THEIRS`."""
    for key in ours:
        if key in theirs and ours[key] != theirs[key]:
            for name, (mine, other) in differences({key: ours[key]}, {key: theirs[key]}).items():
                yield f"{name} = {format_value(mine)} and {format_value(other)}"


def competitor(entry: OptimizerConfig) -> dict[str, Any]:
    """All that decides what an optimizer suggests, whether said or by default, and how many trials it has in flight."""
    plain = entry.model_dump(mode="json", include={"name", "use", "concurrency", "warm_start"})
    return {**plain, **entry.settings}


def setup_of(config: Config, problem: Problem) -> list[str]:
    """Sentences: the problem, what an evaluation is, the budget, where all begin, who suggests ahead."""
    return [
        f"{display_name(config.problem)}: {_summary(config.problem, problem)}.",
        *_fixed(config, problem),
        *_own_words(config, problem),
        problem.objective,
        _budget(config),
        *_beginning(config),
        *_ahead(config),
    ]


def settings_of(config: Config) -> dict[str, Mapping[str, Any]]:
    """By label: every optimizer's options, those not set with their defaults; its name, where that is another, and whom
    its first trials are of, where it began with an earlier experiment's.
    """
    return {
        entry.label: {
            **({} if entry.name == entry.label else {"optimizer": entry.name}),
            **({} if entry.warm_start is None else {"warm_start": entry.warm_start}),
            **entry.settings,
        }
        for entry in config.optimizers
    }


def searched_of(config: Config) -> dict[str, int]:
    """What a full training of the search has, of what a retraining may have less of."""
    images = {} if config.data.train is None else {"images": config.data.train}
    return {"epochs": config.fidelity.epochs, **images, "seeds": config.seeds}


def remarks_of(config: Config) -> list[Remark]:
    """What a reader must know of an optimizer that its trials do not tell."""
    told = ((entry.label, entry.implementation.optimizer.caveat(entry.settings)) for entry in config.optimizers)
    return [Remark(f"{label} {caveat}", label) for label, caveat in told if caveat]


def warm_starts_of(experiment: Experiment) -> list[str]:
    """A sentence or two for each optimizer that begins with trials of an earlier experiment: what that does to it."""
    config, knowledge = experiment.config, experiment.knowledge
    return [_begins(entry, config, knowledge) for entry in config.optimizers if entry.warm_start is not None]


def _begins(entry: OptimizerConfig, config: Config, knowledge: Mapping[str, Knowledge]) -> str:
    """With how many trials of whom, what is charged for them, and what was another there."""
    known = knowledge[entry.label]
    counts = sorted({len(trials) for trials in known.trials[: config.repeats]})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    trials = f"{many} trial{'s' * (counts[-1] > 1)} of {known.directory} ({known.label})"
    name = display_name(config.problem)
    code = f"function {name}" if split_reference(config.problem)[0] == IN_MEMORY else f"file of {name}"
    altered = f" The {code} was another one there." if known.altered else ""
    return (
        f"{entry.label} begins with {trials}{' in each repeat' * (config.repeats > 1)}, charged as {many} of its "
        f"{config.budget.evaluations} evaluations, with the seconds of their trainings; wall-clock times hold none of "
        f"these.{altered}{_unpaired(entry, config, knowledge)}"
    )


def _unpaired(entry: OptimizerConfig, config: Config, knowledge: Mapping[str, Knowledge]) -> str:
    """Whom it would begin like without that, and does not."""
    begins = {label: (known.experiment, known.label) for label, known in knowledge.items()}
    takers = [each.label for each in config.optimizers if each.implementation.takes_initial_design]
    others = [label for label in takers if begins.get(label) != begins[entry.label]]
    if not others:
        return ""
    begin, them = ("begins", "it") if len(others) == 1 else ("begin", "them")
    return f" That is not what {listed(others)} {begin} with: its pairing with {them} is weaker by that."


def _summary(name: str, problem: Problem) -> str:
    row = find_problem(name)
    kinds = {"discrete": problem.space.discrete, "continuous": problem.space.continuous}
    variables = " and ".join(f"{len(some)} {kind}" for kind, some in kinds.items() if some)
    return row.summary if row is not None and row.summary else f"{variables} variables"


def _own_words(config: Config, problem: Problem) -> list[str]:
    """The description of a user's own problem, and the data that it names."""
    if not is_user_defined(config.problem):
        return []
    data = f"Data: {problem.dataset}" if problem.dataset else ""
    texts = filter(None, (problem.description, data))
    return [text if text.endswith((".", "!", "?")) else f"{text}." for text in texts]


def _fixed(config: Config, problem: Problem) -> list[str]:
    """What the optimizers do not choose."""
    subspace = Subspace(problem.space, config.fixed)
    if not subspace.fixed:
        return []
    values = ", ".join(f"{name} = {value}" for name, value in subspace.fixed.items())
    return [f"Fixed in every trial: {values}. The optimizers choose {listed(subspace.free.names)}."]


def _budget(config: Config) -> str:
    evaluations, epochs, repeats = config.budget.evaluations, config.fidelity.epochs, config.repeats
    cost = f"{evaluations} evaluations" if epochs == 1 else f"{evaluations} evaluations of {epochs} epochs"
    seconds = "" if config.budget.seconds is None else f", and {config.budget.seconds:,.10g} seconds,"
    return f"Every optimizer may spend {cost}{seconds} in each of {repeats} repeat{'s' * (repeats > 1)}."


def _beginning(config: Config) -> list[str]:
    plain = [entry for entry in config.optimizers if entry.warm_start is None]
    takers = [entry.label for entry in plain if entry.implementation.takes_initial_design]
    if not takers or not config.initial_points:
        return []
    points = "points" if config.initial_points > 1 else "point"
    which = f"random {points}"
    if config.initial_design == AUTHORS:
        which = "points drawn in the way of the BO-FM authors" if config.seed else "points of the BO-FM authors' runs"
    who = "All of a repeat" if len(takers) == len(config.optimizers) else f"Of a repeat, {listed(takers)}"
    return [f"{who} begin{'s' * (len(takers) == 1)} with the same {config.initial_points} {which}."]


def _ahead(config: Config) -> list[str]:
    several = [f"{entry.label} {entry.concurrency}" for entry in config.optimizers if entry.concurrency > 1]
    return [f"Trials in flight at once: {', '.join(several)}; one of every other."] if several else []
