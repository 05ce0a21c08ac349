"""An experiment: a problem, and one run for each optimizer and repeat, each with the same budget."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from fmnas.optimizers import Optimizer, Suggestion, random_design
from fmnas.optimizers.subspace import SubspaceOptimizer
from fmnas.platform.config.schema import AUTHORS, Config, OptimizerConfig
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.ledger import RunAccount, RunBudget
from fmnas.platform.experiment.warm_start import NOTHING, Knowledge, WarmStart
from fmnas.platform.problems import problem
from fmnas.platform.registry import OptimizerContext
from fmnas.search_spaces import Subspace, Trial
from fmnas.search_spaces.records import PROMOTION
from fmnas.trainers.problem import Problem, authors_points


@dataclass(kw_only=True)
class Run(RunAccount):
    """One optimizer, one repeat, at work.

    concurrency: how many trials it may have in flight. warm_start: what it knows at its beginning. over: its optimizer
    asks for no more that its budget affords.
    """

    optimizer: Optimizer
    concurrency: int
    warm_start: WarmStart = field(default_factory=WarmStart)
    over: bool = False

    @property
    def done(self) -> bool:
        """Whether nothing more can be asked, as things stand: what is in flight may be lost, and not be charged."""
        return self.over or super().done


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the results. knowledge: by label, what optimizers know at their beginning."""

    config: Config
    problem: Problem
    runs: tuple[Run, ...]
    knowledge: Mapping[str, Knowledge] = field(default_factory=dict)

    @property
    def epochs(self) -> int:
        """Full fidelity."""
        return self.config.fidelity.epochs

    @property
    def subspace(self) -> Subspace:
        """The problem's space, and what the configuration fixes of it: the optimizers choose the rest."""
        return Subspace(self.problem.space, self.config.fixed)

    def issued(self, run: Run, trial: Trial) -> Trial:
        """A trial that the run's optimizer suggests as it goes on record, with a configuration of its own.

        Raises OptimizerError as `WarmStart`.
        """
        copied = replace(trial, configuration=dict(trial.configuration), seed=self.trial_seed(run, trial))
        return run.warm_start.marked(copied)

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


def build_experiment(config: Config, knowledge: Mapping[str, Knowledge] = NOTHING, heard: bool = True) -> Experiment:
    """The experiment that a configuration describes, at its beginning.

    knowledge: by label, of every optimizer with a warm_start. heard: whether its optimizers are to be asked; without
    that, none is built. Raises RunDirectoryError where one has no knowledge.
    """
    task = problem(config.problem, config.problem_settings)
    subspace = Subspace(task.space, config.fixed)
    runs = [
        Run(
            entry.label,
            repeat,
            RunBudget(config.budget.evaluations * config.fidelity.epochs, config.budget.seconds),
            optimizer=_optimizer(config, task, subspace, entry, repeat, known) if heard else NotAsked(task.space),
            concurrency=entry.concurrency,
            warm_start=known,
        )
        for repeat in range(config.repeats)
        for entry in config.optimizers
        for known in (_warm_start(entry, repeat, knowledge),)
    ]
    return Experiment(config, task, tuple(runs), knowledge)


class NotAsked(Optimizer):
    """Stands for an optimizer in an experiment that is only read."""

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        raise RunDirectoryError("an experiment that is only read has no optimizers to ask")


def _optimizer(
    config: Config, task: Problem, subspace: Subspace, entry: OptimizerConfig, repeat: int, known: WarmStart
) -> Optimizer:
    row = entry.implementation
    design = [subspace.reduce(trial.configuration) for trial in known.trials]
    if not design and row.takes_initial_design:
        if config.initial_design == AUTHORS:
            # Seed 0 repeats the authors' runs 0, 1, 2, ...; any other seed is a fresh sample by their recipe.
            design = authors_points(subspace.free, derived_seed(config.seed, repeat) if config.seed else repeat)
        else:
            design = random_design(subspace.free, config.initial_points, derived_seed(config.seed, repeat))
    setting = OptimizerContext(
        seed=derived_seed(config.seed, repeat, zlib.crc32(entry.label.encode())),
        epochs=config.fidelity.epochs,
        evaluations=config.budget.evaluations,
        log_objective=task.log_objective,
        initial_design=tuple(design),
    )
    optimizer = row.build(subspace.free, setting, entry.options)
    return SubspaceOptimizer(subspace, optimizer) if subspace.fixed else optimizer


def _warm_start(entry: OptimizerConfig, repeat: int, knowledge: Mapping[str, Knowledge]) -> WarmStart:
    if entry.warm_start is None:
        return WarmStart()
    known = knowledge.get(entry.label)
    if known is None or repeat >= len(known.trials):
        raise RunDirectoryError(
            f"{entry.label}: warm_start = {entry.warm_start!r}, and its journal does not hold what repeat {repeat} of "
            "it began with: put the journal back as it was, or run the configuration anew"
        )
    return known.of(repeat)
