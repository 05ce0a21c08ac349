"""The state of an experiment: its ledger, and optimizers that have received all of its results.

While an experiment is running, the driver appends an event, applies it to the ledger and reports its result to the
optimizer. A resume applies the events of the journal in the same order; only suggestions differ, as the optimizer is
not asked for a suggestion but notified that it made it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

from fmnas.optimizers import Optimizer
from fmnas.optimizers.ask_tell import NonReproducibleError
from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import LET_THROUGH, ExperimentFailed, code_location, one_line
from fmnas.platform.experiment.configuration import announce_user_code, current_config
from fmnas.platform.experiment.events import Asked, Event
from fmnas.platform.experiment.experiment import Experiment, Run, build_experiment
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, apply_line, fold
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_problem import placeholder_problem, placeholders
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.search_spaces import Evaluation, FmnasError, Trial
from fmnas.search_spaces.records import LOST


@dataclass(frozen=True)
class ExperimentState:
    """An experiment and its ledger."""

    experiment: Experiment
    ledger: Ledger

    @property
    def config(self) -> Config:
        """Configuration of the experiment."""
        return self.experiment.config


def load_state(directory: RunDirectory, notify: Callable[[str], None] = lambda _: None) -> ExperimentState:
    """Return the state of a run directory without optimizers. User code that its configuration names is imported.

    notify: called with a line that says which code is imported.
    """
    events = read_events(directory)
    announce_user_code(directory, events, notify)
    with placeholder_problem(directory):
        return _without_optimizers(directory, events)


def read_state(directory: RunDirectory) -> ExperimentState:
    """Return the state of a run directory for reading: no optimizer is built, and no user code is imported."""
    events = read_events(directory)
    with placeholders(directory, events):
        return _without_optimizers(directory, events)


def _without_optimizers(directory: RunDirectory, events: Sequence[Event]) -> ExperimentState:
    ledger, config = fold(events), current_config(directory, events)
    return ExperimentState(build_experiment(config, ledger.warm_starts, with_optimizers=False), ledger)


def restore_state(experiment: Experiment, events: Sequence[Event]) -> ExperimentState:
    """Return the state after the events of a journal; the new optimizers of the experiment receive all of them.

    Raises RunDirectoryError for invalid events, NonReproducibleError if an optimizer does not repeat a suggestion, and
    ExperimentFailed if one fails.
    """
    ledger = Ledger()
    for line, event in enumerate(events, start=1):
        result = apply_line(ledger, line, event)
        if isinstance(event, Asked):
            restore_suggestion(experiment.runs[event.run], event.trial)
        elif result is not None:
            report_result(experiment, result)
    return ExperimentState(experiment, ledger)


def restore_suggestion(run: Run, trial: Trial) -> None:
    """Tell an optimizer that it suggested a trial earlier. Raises as `calling_optimizer`."""
    with calling_optimizer(run, f" to restore trial {trial.id}", (FmnasError, *LET_THROUGH)):
        run.optimizer.restore(deepcopy(trial))


def report_result(experiment: Experiment, result: TrialResult) -> None:
    """Tell an optimizer the result of a trial; a failure as the configuration says; a lost trial is forgotten.

    The optimizer gets copies, so it cannot change the ledger. Raises as `calling_optimizer`.
    """
    run = experiment.runs[result.run]
    trial, evaluation = deepcopy((result.trial, result.evaluation))
    if evaluation is None and result.status != LOST and experiment.config.on_failure == "penalty":
        evaluation = _penalty(experiment, run.optimizer, trial)
    with calling_optimizer(run, f" to take the result of trial {trial.id}"):
        if evaluation is None:
            run.optimizer.forget(trial)
        else:
            run.optimizer.tell(trial, evaluation)


@contextmanager
def calling_optimizer(
    run: Run, task: str = "", let_through: tuple[type[BaseException], ...] = LET_THROUGH
) -> Iterator[None]:
    """Within the context, the optimizer of a run may be called. task: what it is to do, for the message.

    Raises NonReproducibleError if it does not repeat a suggestion, and ExperimentFailed in place of any other exception
    that is not let through.
    """
    try:
        with same_working_directory():
            yield
    except NonReproducibleError as error:
        raise NonReproducibleError(f"{run.name}, {error}") from error
    except let_through:
        raise
    except BaseException as error:
        raise ExperimentFailed(
            f"{run.name}: the optimizer failed{task}: {one_line(error)}{code_location(error)}. Fix it and continue; "
            "the journal has all results"
        ) from error


def _penalty(experiment: Experiment, optimizer: Optimizer, trial: Trial) -> Evaluation | None:
    """Return what is reported for a failure: the problem's penalty, or the worst objective so far; None before any."""
    penalty = experiment.problem.penalty
    if penalty is None:
        penalty = max((evaluation.objective for _, evaluation in optimizer.history), default=None)
    values = tuple(experiment.problem.objectives.values())  # the reference point
    return None if penalty is None else Evaluation(penalty, epochs=trial.epochs, values=values)
