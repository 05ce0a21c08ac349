"""What should be known before an experiment begins: what its configuration allows, and will not do what it is for.

Nothing here is wrong input. Each remark says what to change, as an override of `fmnas run`.
"""

import math

from fmnas.baselines.bohb import BOHB, brackets
from fmnas.baselines.regularized_evolution import RegularizedEvolution
from fmnas.comparison.numbers.paired_tests import repeats_needed
from fmnas.platform.config.config import ALL_PAIRS, Config, OptimizerConfig
from fmnas.platform.problems import problem


def remarks(config: Config) -> list[str]:
    """A line each; none for most configurations that can answer which optimizer is better."""
    found = _of_repeats(config)
    for i, entry in enumerate(config.optimizers):
        row = entry.row
        if issubclass(row.optimizer, RegularizedEvolution):
            found += _of_evolution(config, i, entry, **row.complete(entry.options))
        elif issubclass(row.optimizer, BOHB):
            found += _of_bohb(config, entry, **row.complete(entry.options))
    return found


def _of_repeats(config: Config) -> list[str]:
    """Whether the paired tests can show anything."""
    count, repeats = len(config.optimizers), config.repeats
    pairs = math.comb(count, 2) if config.hypotheses == ALL_PAIRS else count - 1
    needed = repeats_needed(pairs) if pairs else 0
    if repeats >= needed:
        return []
    what = f"{count} optimizers" if config.hypotheses == ALL_PAIRS else f"{config.hypotheses} and {count - 1} others"
    return [
        f"{repeats} repeat{'s' * (repeats > 1)} of {what}: no verdict is possible, {needed} are needed: "
        f"-o repeats={needed}"
    ]


def _of_evolution(config: Config, i: int, entry: OptimizerConfig, population: int, tournament: int) -> list[str]:
    """Whether the population is ever full, and a tournament a choice among it."""
    evaluations, key = config.budget.evaluations, f"-o optimizers.{i}"
    if population >= evaluations:
        return [
            f"{entry.label}: a population of {population} takes all of {evaluations} evaluations, so that none "
            f"is a child and all is random search: {key}.population={max(2, evaluations // 5)} leaves some"
        ]
    if tournament > population:
        return [
            f"{entry.label}: a tournament of {tournament} among {population} finds nearly always the "
            f"best of all: {key}.tournament={max(1, population // 3)} leaves others a chance"
        ]
    return []


def _of_bohb(config: Config, entry: OptimizerConfig, eta: int) -> list[str]:
    """Whether the density model ever has what it needs."""
    dimensions = len(problem(config.problem, config.problem_settings).space.names) - len(config.fixed)
    needed = results_needed(dimensions)
    epochs = epochs_to_model(config.fidelity.epochs, eta, needed)
    if epochs < config.budget.evaluations * config.fidelity.epochs:
        return []
    enough = epochs // config.fidelity.epochs + 1
    return [
        f"{entry.label}: its model needs {needed} results of one length, which take {enough} evaluations; with "
        f"{config.budget.evaluations} all that is new is drawn at random: -o budget.evaluations={enough}, or more"
    ]


def results_needed(dimensions: int) -> int:
    """How many results on one budget hpbandster's model takes: more than dimensions, for the good and for the bad."""
    return 2 * (dimensions + 1)


def epochs_to_model(epochs: int, eta: int, needed: int) -> int:
    """The epochs that BOHB, one trial at a time, has spent when a rung has the results needed for its model."""
    cycle, counts, spent = brackets(epochs, eta), dict[float, int](), 0
    while True:
        for sizes, budgets in cycle:
            for size, budget in zip(sizes, budgets, strict=True):
                missing = needed - counts.get(budget, 0)
                counts[budget] = counts.get(budget, 0) + size
                spent += min(size, missing) * round(budget)
                if size >= missing:
                    return spent
