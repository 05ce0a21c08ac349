"""An experiment: a problem, and one run for each optimizer and repeat, each with the same budget.

The unit of cost is the epoch.
"""

import zlib
from dataclasses import dataclass, field

import numpy as np

from fmnas.optimizers import Optimizer, random_design
from fmnas.platform.config.config import AUTHORS, Config, OptimizerConfig
from fmnas.platform.config.optimizers import OPTIMIZERS, Setting
from fmnas.platform.config.problems import Problem, ProblemSettings, problem
from fmnas.platform.record.outcome import run_name
from fmnas.search_spaces import Configuration, Trial
from fmnas.search_spaces.records import PROMOTION
from fmnas.trainers import authors_initial_design


@dataclass
class RunBudget:
    """A run's account: a hard cap over finished, failed and pending trials.

    epochs: what the run may spend. seconds: limit on training plus suggestion, or None.
    spent: epochs of trials that ended; lost work is the platform's and is not charged.
    committed: epochs of trials in flight.
    """

    epochs: int
    seconds: float | None = None
    spent: int = 0
    committed: int = 0
    seconds_spent: float = 0.0

    def affords(self, epochs: int, suggest_seconds: float = 0.0) -> bool:
        """Whether a trial of that many epochs may start whose suggestion took so long and is not yet on the account."""
        in_time = self.seconds is None or self.seconds_spent + suggest_seconds < self.seconds
        return in_time and self.spent + self.committed + epochs <= self.epochs

    @property
    def exhausted(self) -> bool:
        """Whether not even one epoch may start."""
        return not self.affords(1)

    def commit(self, epochs: int, suggest_seconds: float) -> None:
        """A trial was asked and will run."""
        self.committed += epochs
        self.seconds_spent += suggest_seconds

    def settle(self, epochs: int, train_seconds: float) -> None:
        """A trial in flight ended, and is charged."""
        self.committed -= epochs
        self.spent += epochs
        self.seconds_spent += train_seconds

    def release(self, epochs: int) -> None:
        """A trial in flight was lost for good, and is not charged."""
        self.committed -= epochs


@dataclass
class Run:
    """One optimizer, one repeat.

    incumbent: best full-fidelity objective so far. ended: how many trials have ended. over: nothing more will be asked.
    seeds: trial -> its seed, of all that were asked.
    """

    optimizer_name: str
    repeat: int
    optimizer: Optimizer
    budget: RunBudget
    concurrency: int
    incumbent: float | None = None
    ended: int = 0
    over: bool = False
    seeds: dict[int, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """e.g. "bo-fm/repeat-0"."""
        return run_name(self.optimizer_name, self.repeat)


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the results."""

    config: Config
    problem: Problem
    runs: tuple[Run, ...]

    @property
    def epochs(self) -> int:
        """Full fidelity."""
        return self.config.fidelity.epochs

    def trial_seed(self, run: Run, trial: Trial) -> int:
        """What the trainings of a trial that the run's optimizer suggests derive their randomness from.

        That of the trial it was promoted from, where promoted trials go on.
        """
        if self.config.checkpoints.continue_promoted and trial.origin == PROMOTION and trial.parent is not None:
            return run.seeds[trial.parent]
        return derived_seed(self.config.seed, run.repeat, trial.id)


def derived_seed(*parts: int) -> int:
    """A seed below 2**32 that depends on all parts."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def build_experiment(config: Config) -> Experiment:
    """The experiment that a configuration describes, at its beginning."""
    settings = ProblemSettings(config.data, config.seeds, schedule_epochs=config.schedule_epochs)
    task = problem(config.problem, settings)
    runs = [_build_run(config, task, entry, r) for r in range(config.repeats) for entry in config.optimizers]
    return Experiment(config, task, tuple(runs))


def _build_run(config: Config, task: Problem, entry: OptimizerConfig, repeat: int) -> Run:
    row = OPTIMIZERS[entry.name]
    design = _initial_design(config, task, repeat) if row.takes_initial_design else []
    setting = Setting(
        seed=derived_seed(config.seed, repeat, zlib.crc32(entry.name.encode())),
        epochs=config.fidelity.epochs,
        evaluations=config.budget.evaluations,
        log_objective=task.log_objective,
        initial_design=tuple(design),
    )
    optimizer = row.build(task.space, setting, entry.options)
    budget = RunBudget(config.budget.evaluations * config.fidelity.epochs, config.budget.seconds)
    return Run(entry.name, repeat, optimizer, budget, entry.concurrency)


def _initial_design(config: Config, task: Problem, repeat: int) -> list[Configuration]:
    if config.initial_design == AUTHORS:
        return authors_initial_design(task.name, repeat)
    return random_design(task.space, config.initial_points, derived_seed(config.seed, repeat))
