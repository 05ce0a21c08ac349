"""The state of an experiment as the journal tells it: the ledger, and optimizers that hear what is in it.

While an experiment runs, the driver appends a record and then applies it; after a crash the same records are applied
again. Only `asked` differs: live, the optimizer has just suggested the trial; replayed, it is told that it once did.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy

from fmnas.optimizers import Optimizer
from fmnas.optimizers.ask_tell import NonReproducibleError
from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import LET_THROUGH, ExperimentFailed, one_line, own_line
from fmnas.platform.experiment.configuration import check_own_code, current_config
from fmnas.platform.experiment.experiment import Experiment, Run, build_experiment
from fmnas.platform.experiment.journal import ASKED, Journal, Record, experiment_records
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_problem import reading, standing_in
from fmnas.platform.experiment.trial_result import Outcome
from fmnas.platform.experiment.warm_start import recorded_knowledge
from fmnas.search_spaces import Evaluation, FmnasError, Trial
from fmnas.search_spaces.records import LOST


class ExperimentState(Ledger):
    """The ledger of an experiment, and its runs.

    heard: whether the optimizers hear what happened; without that the state serves for looking, not for going on.
    """

    def __init__(self, experiment: Experiment, heard: bool = True) -> None:
        super().__init__(experiment.runs, experiment.epochs)
        self.experiment, self._heard = experiment, heard
        self.runs: dict[str, Run] = {run.name: run for run in experiment.runs}

    def apply(self, record: Record) -> Outcome | None:
        """Take one record, and tell the optimizer; the outcome if a trial ended with it.

        Raises ExperimentFailed where an optimizer fails to take a result.
        """
        ended = super().apply(record)
        if ended is not None and self._heard:
            self._tell(ended)
        return ended

    def record(self, journal: Journal, record: Record, wait: bool = True) -> Outcome | None:
        """Journal it, see `Journal.append`, then take it."""
        journal.append(record, wait)
        return self.apply(record)

    def _follow(self, record: Record) -> None:
        if record["event"] == ASKED:
            self._suggested(self.runs[record["run"]], Trial.from_dict(record["trial"]))
        super()._follow(record)

    def _suggested(self, run: Run, recorded: Trial) -> None:
        """A journal says that the run's optimizer once suggested this."""
        if self._heard:
            try:
                with same_working_directory():
                    run.optimizer.restore(deepcopy(recorded))
            except NonReproducibleError as error:
                raise NonReproducibleError(f"{run.name}, {error}") from error
            except (FmnasError, *LET_THROUGH):
                raise  # the first is the journal's doing
            except BaseException as error:
                raise ExperimentFailed(
                    f"{run.name}: the optimizer failed when it heard that it once suggested trial {recorded.id}: "
                    f"{one_line(error)}{own_line(error)}. The journal is whole: mend the optimizer and resume; `fmnas "
                    "report` needs none"
                ) from error

    def _tell(self, outcome: Outcome) -> None:
        """A result is told; a failure is told as the configuration says; a loss is forgotten.

        The optimizer gets copies: whatever it does to them, the ledger has what the journal has.
        """
        optimizer = self.runs[outcome.run].optimizer
        trial, evaluation = deepcopy((outcome.trial, outcome.evaluation))
        if evaluation is None and outcome.status != LOST and self.experiment.config.on_failure == "penalty":
            evaluation = self._penalty(optimizer, trial)
        try:
            with same_working_directory():
                if evaluation is None:
                    optimizer.forget(trial)
                else:
                    optimizer.tell(trial, evaluation)
        except LET_THROUGH:
            raise
        except BaseException as error:
            raise ExperimentFailed(
                f"{outcome.run}: the optimizer failed when it heard of trial {trial.id}: {one_line(error)}"
                f"{own_line(error)}. The result is in the journal: mend the optimizer and resume; `fmnas report` needs "
                "none"
            ) from error

    def _penalty(self, optimizer: Optimizer, trial: Trial) -> Evaluation | None:
        """What stands for a failure: as its problem says, or the worst that this optimizer was told; None before."""
        penalty = self.experiment.problem.penalty
        if penalty is None:
            penalty = max((told.objective for _, told in optimizer.history), default=None)
        return None if penalty is None else Evaluation(penalty, epochs=trial.epochs)


def restore(
    directory: RunDirectory, heard: bool = True, say: Callable[[str], None] = lambda _: None
) -> tuple[ExperimentState, str]:
    """The state that the journal proves, and the experiment's id, to go on with it: code that it names is imported.

    heard: whether its optimizers are to go on. say: told which code is imported.
    """
    records = experiment_records(directory)
    check_own_code(directory, records, say)
    with standing_in(directory):
        return _followed(directory, records, heard), str(records[0]["id"])


def read(directory: RunDirectory) -> tuple[ExperimentState, str]:
    """The same, to look at: no code that the experiment names is imported."""
    records = experiment_records(directory)
    with reading(directory, records):
        return _followed(directory, records, heard=False), str(records[0]["id"])


def _followed(directory: RunDirectory, records: Sequence[Record], heard: bool) -> ExperimentState:
    experiment = build_experiment(current_config(directory, records), recorded_knowledge(records), heard)
    state = ExperimentState(experiment, heard)
    state.replay(records[1:])
    return state
