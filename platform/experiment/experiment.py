"""An experiment: a problem, and one run for each optimizer and repeat, all with the same budget."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fmnas.optimizers import Optimizer, random_design
from fmnas.optimizers.subspace import SubspaceOptimizer
from fmnas.platform.config.errors import format_value
from fmnas.platform.config.schema import AUTHORS, Config, OptimizerConfig
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.trial_result import run_name
from fmnas.platform.experiment.warm_start import NO_WARM_STARTS, WarmStart, WarmStartData
from fmnas.platform.problems import problem
from fmnas.platform.registry import OptimizerContext, PlaceholderOptimizer
from fmnas.search_spaces import Configuration, FmnasError, Subspace, Trial
from fmnas.search_spaces.records import PROMOTION
from fmnas.trainers.problem import Problem, authors_points


@dataclass
class Run:
    """One optimizer and one repeat. concurrency: how many of its trials may be pending at once."""

    label: str
    repeat: int
    optimizer: Optimizer
    concurrency: int
    warm_start: WarmStart

    @property
    def name(self) -> str:
        """Name of the run, e.g. "bo-fm/repeat-0"."""
        return run_name(self.label, self.repeat)


@dataclass(frozen=True)
class Experiment:
    """Everything that decides the results. warm_starts: optimizer label -> what it begins with."""

    config: Config
    problem: Problem
    runs: dict[str, Run]
    warm_starts: Mapping[str, WarmStartData] = field(default_factory=dict)

    @property
    def subspace(self) -> Subspace:
        """The problem's space, restricted to what the configuration leaves to the optimizers."""
        return Subspace(self.problem.space, self.config.fixed)

    def finalize_trial(self, run: Run, trial: Trial, seeds: Mapping[int, int]) -> Trial:
        """Return a suggested trial with its seed, run and origin, and a copy of its configuration.

        seeds: trial id -> seed, of the run's earlier trials. Raises OptimizerError as `WarmStart.annotate`.
        """
        own = replace(trial, configuration=dict(trial.configuration), run=run.name)
        return run.warm_start.annotate(replace(own, seed=self.trial_seed(run, trial, seeds)))

    def trial_seed(self, run: Run, trial: Trial, seeds: Mapping[int, int]) -> int:
        """Return the seed of a trial's trainings; a promoted trial that continues its parent has the parent's."""
        if self.config.checkpoints.continue_promoted and trial.origin == PROMOTION and trial.parent is not None:
            return seeds[trial.parent]
        return derived_seed(self.config.seed, run.repeat, trial.id)

    def build_optimizer(self, run: Run) -> Optimizer:
        """Return a new optimizer for a run, in its state before the first suggestion.

        Raises ConfigError with the complaint of a user-defined optimizer's constructor.
        """
        config = self.config
        number, entry = next(pair for pair in enumerate(config.optimizers) if pair[1].label == run.label)
        subspace = self.subspace
        context = OptimizerContext(
            seed=derived_seed(config.seed, run.repeat, zlib.crc32(run.label.encode())),
            epochs=config.fidelity.epochs,
            evaluations=config.budget.evaluations,
            log_objective=self.problem.log_objective,
            initial_design=tuple(_initial_design(config, subspace, entry, run)),
        )
        try:
            optimizer = entry.implementation.build(subspace.free, context, entry.options)
        except FmnasError as error:
            key, value = ("name", entry.name) if entry.use is None else ("use", entry.use)
            raise ConfigError(f"optimizers.{number}.{key} = {format_value(value)}: {error}") from error
        return SubspaceOptimizer(subspace, optimizer) if subspace.fixed else optimizer


def derived_seed(*parts: int) -> int:
    """Return a seed below 2**32 that depends on all parts but zeros at the end: (1, 2, 0) has that of (1, 2)."""
    return int(np.random.SeedSequence(parts).generate_state(1)[0])


def build_experiment(
    config: Config, warm_starts: Mapping[str, WarmStartData] = NO_WARM_STARTS, with_optimizers: bool = True
) -> Experiment:
    """Return the experiment that a configuration describes, at its beginning.

    warm_starts: optimizer label -> its data, of every optimizer with a warm start.
    with_optimizers: False if the experiment is only read; then no optimizer is built.
    """
    task = problem(config.problem, config.problem_settings)
    experiment = Experiment(config, task, {}, warm_starts)
    for repeat in range(config.repeats):
        for entry in config.optimizers:
            known = WarmStart() if entry.warm_start is None else warm_starts[entry.label].for_repeat(repeat)
            run = Run(entry.label, repeat, PlaceholderOptimizer(task.space), entry.concurrency, known)
            if with_optimizers:
                run.optimizer = experiment.build_optimizer(run)
            experiment.runs[run.name] = run
    return experiment


def _initial_design(config: Config, subspace: Subspace, entry: OptimizerConfig, run: Run) -> Sequence[Configuration]:
    if run.warm_start.trials or not entry.implementation.takes_initial_design:
        return [subspace.reduce(trial.configuration) for trial in run.warm_start.trials]
    if config.initial_design == AUTHORS:
        # Seed 0 repeats the authors' runs 0, 1, 2, ...; any other seed is a new sample by their recipe.
        return authors_points(subspace.free, derived_seed(config.seed, run.repeat) if config.seed else run.repeat)
    return random_design(subspace.free, config.initial_points, derived_seed(config.seed, run.repeat))
