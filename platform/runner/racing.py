"""Racing: a trial that is clearly worse than the incumbent after its first seeds is not trained with the others.

    trial = limit_trial(state, run, trial)     # its trainer ends it early if its first seeds are above trial.stop_above

The bound is the incumbent's objective and twice the standard error of the difference of two averages, one over the
first seeds of a trial and one over all seeds of the incumbent. The standard deviation of a seed is pooled over the
better half of the run's earlier results: bad configurations are noisier. `benchmarks/racing.py` measures what it saves
and what it misses.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from statistics import fmean, variance

from fmnas.platform.experiment.state import ExperimentState
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import is_full

STANDARD_ERRORS = 2.0
"""Chosen with `benchmarks/racing.py`: at 1, the best of 100 was stopped in 24 of 1,000 orders, at 2 in none."""
MIN_RESULTS = 4
"""Results with all their seeds that a run must have before any of its trials is limited."""


def limit_trial(state: ExperimentState, run: str, trial: Trial) -> Trial:
    """Return the trial of a run, limited if the experiment races and the trial is at full fidelity."""
    seeds, full = state.config.racing, state.ledger.full_epochs
    if seeds is None or not is_full(trial.epochs, full):
        return trial
    ended = [result for result in state.ledger.results if result.run == run and is_full(result.epochs, full)]
    return add_bound(trial, [result.evaluation for result in ended if result.evaluation], seeds)


def add_bound(trial: Trial, results: Sequence[Evaluation], seeds: int) -> Trial:
    """Return the trial, which ends after this many seeds if their objective is above the bound.

    results: of the run's earlier trials at full fidelity, with all their seeds. With few, the trial is not limited.
    """
    if len(results) < MIN_RESULTS:
        return trial
    return replace(trial, first_seeds=seeds, stop_above=bound(results, seeds))


def bound(results: Sequence[Evaluation], seeds: int, standard_errors: float = STANDARD_ERRORS) -> float:
    """Return the objective above which an average over this many seeds is clearly worse than the best result."""
    ranked = sorted(results, key=lambda result: result.objective)
    noise = fmean(variance(result.errors) for result in ranked[: len(ranked) // 2])
    return ranked[0].objective + standard_errors * sqrt(noise / seeds + noise / len(ranked[0].errors))
