"""What an experiment measured, and with what optimizers: its report is read where its configuration is not."""

from collections.abc import Mapping
from typing import Any

from fmnas.comparison.numbers.notation import listed
from fmnas.comparison.summary import Remark
from fmnas.platform.config.config import AUTHORS, Config
from fmnas.platform.problems import row_of, short_name
from fmnas.search_spaces import Subspace
from fmnas.trainers.problem import Problem


def setup_of(config: Config, problem: Problem) -> list[str]:
    """Sentences: the problem, what an evaluation is, the budget, where all begin, who suggests ahead."""
    return [
        f"{short_name(config.problem)}: {_summary(config.problem, problem)}.",
        *_fixed(config, problem),
        problem.objective,
        _budget(config),
        *_beginning(config),
        *_ahead(config),
    ]


def settings_of(config: Config) -> dict[str, Mapping[str, Any]]:
    """By label: every optimizer's options, those not set with their defaults; and its name where that is another."""
    return {
        entry.label: {
            **({} if entry.name == entry.label else {"optimizer": entry.name}),
            **entry.row.complete(entry.options),
        }
        for entry in config.optimizers
    }


def remarks_of(config: Config) -> list[Remark]:
    """What a reader must know of an optimizer that its trials do not tell."""
    rows = ((entry.label, entry.row, entry.options) for entry in config.optimizers)
    told = ((label, row.optimizer.caveat(row.complete(options))) for label, row, options in rows)
    return [Remark(f"{label} {caveat}", label) for label, caveat in told if caveat]


def by_design_of(config: Config) -> dict[str, str]:
    """What chooses the new configurations of each optimizer, as its class says."""
    return {entry.label: entry.row.optimizer.chooses for entry in config.optimizers}


def _summary(name: str, problem: Problem) -> str:
    row = row_of(name)
    kinds = {"discrete": problem.space.discrete, "continuous": problem.space.continuous}
    variables = " and ".join(f"{len(some)} {kind}" for kind, some in kinds.items() if some)
    return row.summary if row is not None and row.summary else f"{variables} variables"


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
    seconds = "" if config.budget.seconds is None else f", and {config.budget.seconds:g} seconds,"
    return f"Every optimizer may spend {cost}{seconds} in each of {repeats} repeat{'s' * (repeats > 1)}."


def _beginning(config: Config) -> list[str]:
    takes = {entry.label: entry.row.takes_initial_design for entry in config.optimizers}
    takers = [label for label, does in takes.items() if does]
    if not takers or not config.initial_points:
        return []
    points = "the points of the BO-FM authors' runs" if config.initial_design == AUTHORS else "random points"
    who = "All of a repeat" if all(takes.values()) else f"Of a repeat, {listed(takers)}"
    return [f"{who} begin{'s' * (len(takers) == 1)} with the same {config.initial_points} {points}."]


def _ahead(config: Config) -> list[str]:
    several = [f"{entry.label} {entry.concurrency}" for entry in config.optimizers if entry.concurrency > 1]
    return [f"Trials in flight at once: {', '.join(several)}; one of every other."] if several else []
