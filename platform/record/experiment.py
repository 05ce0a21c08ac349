"""An experiment: a problem, and one run for each optimizer and repeat, each with the same budget."""

import zlib
from dataclasses import dataclass

import numpy as np

from fmnas.optimizers import Optimizer, random_design
from fmnas.optimizers.subspace import SubspaceOptimizer
from fmnas.platform.config.config import AUTHORS, Config, OptimizerConfig
from fmnas.platform.optimizers import Setting
from fmnas.platform.problems import problem
from fmnas.platform.record.ledger import RunAccount, RunBudget
from fmnas.search_spaces import Configuration, Space, Subspace, Trial
from fmnas.search_spaces.records import PROMOTION
from fmnas.trainers.problem import Problem, authors_points


@dataclass(kw_only=True)
class Run(RunAccount):
    """One optimizer, one repeat, at work.

    concurrency: how many trials it may have in flight. over: nothing more will be asked.
    """

    optimizer: Optimizer
    concurrency: int
    over: bool = False


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

    @property
    def subspace(self) -> Subspace:
        """The problem's space, and what the configuration fixes of it: the optimizers choose the rest."""
        return Subspace(self.problem.space, self.config.fixed)

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
    task = problem(config.problem, config.problem_settings)
    subspace = Subspace(task.space, config.fixed)
    runs = [_build_run(config, task, subspace, entry, r) for r in range(config.repeats) for entry in config.optimizers]
    return Experiment(config, task, tuple(runs))


def _build_run(config: Config, task: Problem, subspace: Subspace, entry: OptimizerConfig, repeat: int) -> Run:
    row = entry.row
    design = _initial_design(config, subspace.free, repeat) if row.takes_initial_design else []
    setting = Setting(
        seed=derived_seed(config.seed, repeat, zlib.crc32(entry.label.encode())),
        epochs=config.fidelity.epochs,
        evaluations=config.budget.evaluations,
        log_objective=task.log_objective,
        initial_design=tuple(design),
    )
    optimizer = row.build(subspace.free, setting, entry.options)
    if subspace.fixed:
        optimizer = SubspaceOptimizer(subspace, optimizer)
    budget = RunBudget(config.budget.evaluations * config.fidelity.epochs, config.budget.seconds)
    return Run(entry.label, repeat, budget, optimizer=optimizer, concurrency=entry.concurrency)


def _initial_design(config: Config, space: Space, repeat: int) -> list[Configuration]:
    if config.initial_design == AUTHORS:
        return authors_points(space, repeat)
    return random_design(space, config.initial_points, derived_seed(config.seed, repeat))
