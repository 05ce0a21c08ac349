"""The observer that a command adds to a run: it writes the report, and logs to MLflow."""

from collections.abc import Callable

from fmnas.comparison.summary import Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.config.uri import redact
from fmnas.platform.display.summary import ExperimentResult
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.events import DriverWork
from fmnas.platform.experiment.lock import driver_lock
from fmnas.platform.experiment.observer import Observer, PoolStatus
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.mlflow.credentials import withhold_credentials
from fmnas.platform.mlflow.setup import SYNC_SECONDS, begin_tracking, check_tracking, finish_tracking
from fmnas.platform.mlflow.sync import FLUSH_SECONDS, TrackingReport
from fmnas.platform.runner.run import NoWorkers, RunResult


class Results(Observer):
    """Logs trials to MLflow while an experiment is running; at its end writes the report and logs that, too.

    is_uri_given: whether the user gave tracking.uri with this command; else the run directory names it, and the server
    gets no credentials of the environment.
    """

    def __init__(
        self,
        directory: RunDirectory,
        say: Callable[[str], None],
        is_uri_given: bool = False,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._directory, self._say, self._is_uri_given = directory, say, is_uri_given
        self._flush_seconds = flush_seconds
        self._summary: Summary | None = None
        self._report = TrackingReport()
        self._error: ExperimentFailed | None = None

    def check(self, config: Config) -> None:
        """Check the tracking settings."""
        check_tracking(config, self._directory)

    def on_start(self, state: ExperimentState, pool: PoolStatus) -> None:
        """Begin to log."""
        self._state = state
        tracking = state.config.tracking
        if tracking.enabled and not self._is_uri_given and (line := withhold_credentials(tracking.uri or "")):
            self._say(line)
        self._tracker = begin_tracking(state, self._directory, state.ledger.id, self._flush_seconds)

    def on_end(self, status: str, reason: str) -> None:
        """Write the report and log the rest."""
        status = self._state.ledger.status or Ending.INTERRUPTED
        try:
            self._report, self._summary = finish_tracking(
                self._tracker, self._state, self._directory, status, self._say
            )
        except ExperimentFailed as error:
            self._error = error
        except KeyboardInterrupt:
            command = self._directory.command("report")
            self._say(f"stopped before all was written: `fmnas {command}` writes the rest from the journal")
            raise

    def result(self, run: RunResult) -> ExperimentResult:
        """Return what a command prints. Raises ExperimentFailed if the report could not be written."""
        if self._error is not None or self._summary is None:
            raise self._error or ExperimentFailed("the report could not be written; `fmnas report` tries again")
        store = redact(run.state.config.tracking.uri or self._directory.store)
        return ExperimentResult(run.status, run.reason, self._summary, self._report, store)


def sync(directory: RunDirectory, say: Callable[[str], None]) -> ExperimentResult:
    """Log to MLflow what it misses. Raises FmnasError while a driver works."""
    from fmnas.platform.experiment.configuration import require_tracking

    with driver_lock(directory, DriverWork.SYNC):
        state = read_state(directory)
        require_tracking(state.config.tracking, directory)
        results = Results(directory, say, flush_seconds=SYNC_SECONDS)
        results.check(state.config)
        results.on_start(state, NoWorkers())
        status = Ending(state.ledger.status or Ending.INTERRUPTED)
        results.on_end(status, "")
        return results.result(RunResult(state, status))
