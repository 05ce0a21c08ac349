"""What an experiment costs: in trainings and epochs, and, by a measurement, in hours on this machine."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import numpy as np

from fmnas.comparison.numbers.notation import duration, listed
from fmnas.platform.config.config import Config
from fmnas.platform.errors import one_line
from fmnas.platform.problems import problem
from fmnas.search_spaces import Subspace, Trial
from fmnas.search_spaces.records import RANDOM
from fmnas.trainers.problem import Hardware

TIMED, TRIED = 3, 10
"""How many random configurations are timed, and at most tried: some problems cannot evaluate every one."""


@dataclass(frozen=True)
class Cost:
    """Of all runs together. trainings: of an evaluation's seeds each; epochs: of one training, times their number."""

    runs: int
    evaluations: int
    trainings: int
    epochs: int

    def __str__(self) -> str:
        return (
            f"{self.runs} run{'s' * (self.runs != 1)}, {self.evaluations:,} evaluations, {self.trainings:,} trainings, "
            f"{self.epochs:,} epochs in all"
        )


def cost_of(config: Config) -> Cost:
    """What the budget comes to when all of it is spent."""
    runs = len(config.optimizers) * config.repeats
    evaluations = runs * config.budget.evaluations
    trainings = evaluations * max(1, problem(config.problem, config.problem_settings).seeds)
    return Cost(runs, evaluations, trainings, trainings * config.fidelity.epochs)


def not_trained(config: Config) -> list[str]:
    """A word on the trials of that budget that are known before: how many they are, their run directories tell."""
    labels = [entry.label for entry in config.optimizers if entry.warm_start is not None]
    if not labels:
        return []
    begin = "begins" if len(labels) == 1 else "begin"
    return [f"Not trained of these: the trials that {listed(labels)} {begin} with (warm_start), which are charged"]


def measured(config: Config, clock: Callable[[], float] = time.perf_counter) -> str:
    """How long that would take on this machine, in words.

    It is the median of TIMED random configurations, evaluated for one epoch each, one after the other. Configurations
    differ by several times, an optimizer may prefer dear ones, and suggestions are not in it. Those that fail are told
    of, and others tried. Raises what the problem's data and the making of its trainer raise.
    """
    task = problem(config.problem, config.problem_settings)
    space = Subspace(task.space, config.fixed)
    trainer, rng = task.build(task.load(), Hardware()), np.random.default_rng(config.seed)
    seconds: list[float] = []
    failures: list[str] = []
    while len(seconds) < TIMED and len(seconds) + len(failures) < TRIED:
        trial = Trial(len(seconds) + len(failures), space.complete(space.free.sample(rng)), 1, RANDOM)
        began = clock()
        try:
            trainer.evaluate(trial)
        except Exception as error:
            failures.append(f"{trial.configuration}: {one_line(error)}")
        else:
            seconds.append(clock() - began)
    failed = f"; {len(failures)} failed, the first at {failures[0]}" if failures else ""
    if not seconds:
        return f"not known: none of {TRIED} random configurations could be evaluated{failed}"
    workers = _workers(config)
    whole = median(seconds) * cost_of(config).evaluations * config.fidelity.epochs / workers
    return (
        f"about {duration(whole)} on {workers} worker{'s' * (workers > 1)} of this machine, without suggestions: an "
        f"epoch of an evaluation took {duration(median(seconds))} in the median of {len(seconds)} random "
        f"configurations{failed}"
    )


def _workers(config: Config) -> int:
    """How many would train at once here."""
    if config.workers.kind == "in-process":
        return 1
    fitting = max(1, int((os.cpu_count() or 1) / config.workers.cpus))
    wanted = len(config.optimizers) * config.repeats if config.workers.count == "auto" else config.workers.count
    return min(fitting, wanted)
