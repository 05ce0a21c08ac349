"""Replay: every optimizer is built and asked again, and its suggestions are compared with the journal.

The order of events is the order of asks and tells, also with several trials pending, so each suggestion must be equal
to the last digit. After an extension, an optimizer is built for the larger experiment and given what it did before, as
the driver did. After a mismatch, the optimizer is built again and given what the journal has, so a single changed line
shows where it is and what would have followed from it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.configuration import announce_user_code, diff, recorded_configs
from fmnas.platform.experiment.events import Asked, Begun, Event, Extended
from fmnas.platform.experiment.experiment import Experiment, Run, build_experiment
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, apply_line, fold
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_problem import placeholder_problem
from fmnas.platform.experiment.state import calling_optimizer, report_result, restore_suggestion
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.search_spaces import FmnasError, Trial


@dataclass(frozen=True)
class Mismatch:
    """A suggestion that differs from the recorded one.

    line: of the journal, from 1. changes: key -> (recorded, replayed), e.g. of `configuration.x`.
    reason: why there was nothing to compare, else empty.
    """

    line: int
    run: str
    trial: int
    changes: Mapping[str, tuple[Any, Any]]
    reason: str = ""

    def __str__(self) -> str:
        changes = [f"{key} is {recorded!r}, replayed {now!r}" for key, (recorded, now) in self.changes.items()]
        return f"line {self.line}: {self.run}, trial {self.trial}: {'; '.join(filter(None, [*changes, self.reason]))}"


MOST_MISMATCHES = 100
"""Mismatches after which a run is not replayed any further."""
Step = tuple[int, Trial | TrialResult | Experiment]
"""A line of the journal, and what it means to one run: a suggestion, a result, or a larger experiment."""


def replay_directory(directory: RunDirectory, notify: Callable[[str], None]) -> tuple[dict[str, int], list[Mismatch]]:
    """Replay the journal of a run directory; see `replay`. notify: called with a line on imported user code."""
    events = read_events(directory)
    announce_user_code(directory, events, notify)
    with placeholder_problem(directory):
        warm_starts = fold(events).warm_starts
        configs = recorded_configs(directory, events)
        return replay(events, [build_experiment(config, warm_starts, with_optimizers=False) for config in configs])


def replay(events: Sequence[Event], experiments: Sequence[Experiment]) -> tuple[dict[str, int], list[Mismatch]]:
    """Replay the events of a journal. Returns the number of suggestions by run, and the mismatches in order.

    experiments: the experiment at its beginning and after each extension. Raises RunDirectoryError for an invalid
    journal.
    """
    steps: dict[str, list[Step]] = {}
    ledger, remaining = Ledger(), iter(experiments)
    for line, event in enumerate(events, start=1):
        result = apply_line(ledger, line, event)
        if isinstance(event, Begun | Extended):
            experiment = next(remaining)
            for name in experiment.runs:
                steps.setdefault(name, []).append((line, experiment))
        elif isinstance(event, Asked):
            steps[event.run].append((line, event.trial))
        elif result is not None:
            steps[result.run].append((line, result))
    counts = {name: sum(isinstance(what, Trial) for _, what in steps[name]) for name in ledger.runs}
    mismatches = [mismatch for name in counts for mismatch in _replay_run(name, steps[name])]
    return counts, sorted(mismatches, key=lambda mismatch: mismatch.line)


def _replay_run(name: str, steps: Sequence[Step]) -> list[Mismatch]:
    mismatches: list[Mismatch] = []
    seeds: dict[int, int] = {}
    for index, (line, step) in enumerate(steps):
        if isinstance(step, Experiment):  # the first step of every run
            experiment, run = step, step.runs[name]
            _rebuild(experiment, run, steps[:index])
        elif isinstance(step, TrialResult):
            report_result(experiment, step)
        else:
            mismatch = _compare(experiment, run, line, step, seeds)
            seeds[step.id] = step.seed
            if mismatch is None:
                continue
            mismatches.append(mismatch)
            if len(mismatches) == MOST_MISMATCHES:  # each takes as long as all suggestions before it
                mismatches[-1] = replace(mismatch, reason=f"{MOST_MISMATCHES} differ: the rest was not compared")
                break
            try:
                _rebuild(experiment, run, steps[: index + 1])
            except (FmnasError, ExperimentFailed) as error:
                mismatches[-1] = replace(mismatch, reason=f"the rest of this run cannot be replayed: {error}")
                break
    return mismatches


def _rebuild(experiment: Experiment, run: Run, steps: Sequence[Step]) -> None:
    """Give a run of the experiment a new optimizer, with the suggestions and results of these steps."""
    run.optimizer = experiment.build_optimizer(run)
    for _, step in steps:
        if isinstance(step, Trial):
            restore_suggestion(run, step)
        elif isinstance(step, TrialResult):
            report_result(experiment, step)


def _compare(experiment: Experiment, run: Run, line: int, recorded: Trial, seeds: Mapping[int, int]) -> Mismatch | None:
    """Ask the optimizer of a run, and compare its suggestion with the recorded one."""
    mismatch = Mismatch(line, run.name, recorded.id, {})
    try:
        with calling_optimizer(run):
            suggested = run.optimizer.ask()
            trial = suggested and experiment.finalize_trial(run, suggested, seeds)
    except ExperimentFailed as error:  # a finding of the replay
        return replace(mismatch, reason=str(error))
    if trial is None:
        return replace(mismatch, reason="the optimizer had no suggestion")
    # Where a trial is stopped is the driver's decision; old journals do not name the run in the trial.
    trial = replace(trial, first_seeds=recorded.first_seeds, stop_above=recorded.stop_above, run=recorded.run)
    changes = diff(asdict(recorded), asdict(trial))
    return replace(mismatch, changes=changes) if changes else None
