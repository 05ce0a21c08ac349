"""What a user should know before an experiment begins: its cost, and weaknesses of its design.

The cost is in trainings and epochs and, if measured, in hours on this machine. A warning is not an error: it says what
to change, as an override of `fmnas run`.
"""

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from fmnas.comparison.analysis.formatting import format_duration, join_names
from fmnas.comparison.analysis.paired_tests import repeats_needed
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.platform.config.errors import format_count
from fmnas.platform.config.schema import ALL_PAIRS, AUTO, IN_PROCESS, Config
from fmnas.platform.errors import LET_THROUGH, one_line
from fmnas.platform.problems import problem
from fmnas.platform.workers.cluster import workers_that_fit
from fmnas.search_spaces import Subspace, Trial
from fmnas.search_spaces.records import RANDOM

TIMED, TRIED = 3, 10
"""Number of random configurations to time, and to try at most, as some evaluations may fail."""


@dataclass(frozen=True)
class Cost:
    """Cost of all runs together. trainings: one per evaluation and seed. epochs: of all trainings."""

    runs: int
    evaluations: int
    trainings: int
    epochs: int

    def __str__(self) -> str:
        numbers = {"run": self.runs, "evaluation": self.evaluations, "training": self.trainings, "epoch": self.epochs}
        return ", ".join(format_count(number, what) for what, number in numbers.items()) + " in all"


def cost_of(config: Config) -> Cost:
    """Return the cost of the whole budget."""
    runs = len(config.optimizers) * config.repeats
    evaluations = runs * config.budget.evaluations
    trainings = evaluations * max(1, problem(config.problem, config.problem_settings).seeds)
    return Cost(runs, evaluations, trainings, trainings * config.fidelity.epochs)


def warm_start_cost_note(config: Config) -> list[str]:
    """Return a note if some trials of the budget come from warm starts, which are not trained again."""
    labels = [entry.label for entry in config.optimizers if entry.warm_start is not None]
    if not labels:
        return []
    begin = "begins" if len(labels) == 1 else "begin"
    return [f"Not trained of these: the trials that {join_names(labels)} {begin} with (warm_start), which are charged"]


def estimate_runtime(config: Config, clock: Callable[[], float] = time.perf_counter) -> str:
    """Return an estimate of the runtime on this machine, as text.

    The estimate is the median over TIMED random configurations, evaluated for one epoch each. Costs of configurations
    differ several times, an optimizer may prefer expensive ones, and suggestions are not included. Failures are
    reported, and other configurations tried. Raises whatever the problem's data and trainer raise.
    """
    workers = _workers(config)
    if not workers:
        need = f"workers.cpus = {config.workers.cpus:g} and workers.gpus = {config.workers.gpus:g}"
        return f"not known: this machine cannot fit a worker of {need}"
    task = problem(config.problem, config.problem_settings)
    space = Subspace(task.space, config.fixed)
    trainer, rng = task.build(task.load(), config.workers.hardware), np.random.default_rng(config.seed)
    seconds: list[float] = []
    failures: list[str] = []
    while len(seconds) < TIMED and len(seconds) + len(failures) < TRIED:
        trial = Trial(len(seconds) + len(failures), space.add_fixed(space.free.sample(rng)), 1, RANDOM)
        began = clock()
        try:
            trainer.evaluate(trial)
        except LET_THROUGH:
            raise
        except BaseException as error:
            failures.append(f"{trial.configuration}: {one_line(error)}")
        else:
            seconds.append(clock() - began)
    failed = f"; {len(failures)} failed, the first at {failures[0]}" if failures else ""
    if not seconds:
        return f"not known: none of {TRIED} random configurations could be evaluated{failed}"
    whole = median(seconds) * cost_of(config).evaluations * config.fidelity.epochs / workers
    return (
        f"about {format_duration(whole)} on {workers} worker{'s' * (workers > 1)} of this machine, without "
        f"suggestions: an epoch of an evaluation took {format_duration(median(seconds))} in the median of "
        f"{len(seconds)} random configurations{failed}"
    )


def _workers(config: Config) -> int:
    """Return how many workers fit on this machine; 0 if not even one does."""
    workers, gpus = config.workers, 0
    if workers.gpus:
        import torch

        gpus = torch.cuda.device_count()
    if workers.kind == IN_PROCESS:
        return int(workers.gpus <= gpus)
    fit = workers_that_fit([{"CPU": float(os.cpu_count() or 1), "GPU": float(gpus)}], workers.cpus, workers.gpus)
    return min(fit, config.concurrency if workers.count == AUTO else workers.count)


def design_warnings(config: Config) -> list[str]:
    """Return one warning per weakness of the design; none for most configurations."""
    warnings = _of_repeats(config)
    dimensions = len(problem(config.problem, config.problem_settings).space.names) - len(config.fixed)
    for i, entry in enumerate(config.optimizers):
        option, budget = f"-o optimizers.{i}.", "-o budget.evaluations"
        plan = SearchPlan(config.budget.evaluations, config.fidelity.epochs, dimensions, option, budget)
        text = entry.implementation.optimizer.config_warning(entry.settings, plan)
        warnings += [f"{entry.label}: {text}"] if text else []
    return warnings


def _of_repeats(config: Config) -> list[str]:
    """Return a warning if the paired tests cannot become significant."""
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
