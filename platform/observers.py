"""The observers that a command adds to a run: its results, and those of installed packages.

An installed package registers an observer by the entry point fmnas.observers. Its value is a reference to a subclass of
`Observer`, or to a function that returns one; it is called without arguments.
"""

from collections.abc import Callable

from fmnas.comparison.summary import Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.config.uri import redact
from fmnas.platform.display.summary import ExperimentResult
from fmnas.platform.errors import ConfigError, Ending, ExperimentFailed, call_user_code
from fmnas.platform.experiment.configuration import require_tracking
from fmnas.platform.experiment.events import DriverWork
from fmnas.platform.experiment.lock import driver_lock
from fmnas.platform.experiment.observer import Observer, PoolStatus
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.mlflow.credentials import tracking_uri, withhold_credentials
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.platform.mlflow.settings import tracking_settings
from fmnas.platform.mlflow.sync import FLUSH_SECONDS, SYNC_SECONDS, MlflowSync, TrackingReport
from fmnas.platform.references import find_plugins, import_reference
from fmnas.platform.report.write import write_results
from fmnas.platform.runner.run import NoWorkers, RunResult
from fmnas.search_spaces import FmnasError


class ResultsWriter(Observer):
    """Logs trials to MLflow while an experiment is running; at its end writes the report and logs that, too.

    is_uri_given: whether the user gave tracking.uri with this command; else the run directory names it, and the server
    gets no credentials of the environment.
    """

    def __init__(
        self,
        directory: RunDirectory,
        notify: Callable[[str], None],
        is_uri_given: bool = False,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._directory, self._notify, self._is_uri_given = directory, notify, is_uri_given
        self._flush_seconds = flush_seconds
        self._summary: Summary | None = None
        self._sync: MlflowSync | None = None
        self._report = TrackingReport()
        self._error = ExperimentFailed("the report could not be written; `fmnas report` tries again")

    def check(self, config: Config) -> None:
        """Check the tracking settings."""
        if config.tracking.enabled:
            tracking_uri(config.tracking, self._directory)

    def on_start(self, state: ExperimentState, pool: PoolStatus) -> None:
        """Begin to log."""
        self._state = state
        tracking = state.config.tracking
        if not tracking.enabled:
            return
        if not self._is_uri_given and (line := withhold_credentials(tracking.uri or "")):
            self._notify(line)
        reconciler = Reconciler(tracking_settings(state, self._directory), self._directory)
        self._sync = MlflowSync(reconciler, self._flush_seconds)
        self._sync.start()

    def on_end(self, status: str, reason: str) -> None:
        """Write the report and log the rest. The trials are logged even if the report cannot be written."""
        ledger = self._state.ledger
        trials = len(ledger.results) + len(list(ledger.cancelled_results()))
        try:
            try:
                self._summary = write_results(self._directory, self._state, self._notify)
            except KeyboardInterrupt:
                self._sync = None  # the user wants to leave: what is not logged yet is left to `fmnas sync`
                raise
            except ExperimentFailed as error:
                self._error = error
            except FmnasError as error:
                self._error = ExperimentFailed(f"the report could not be written: {error}")
            finally:
                if self._sync:
                    self._notify("logging the results to MLflow")
                    self._report = self._sync.finish(ledger.status or Ending.INTERRUPTED, trials)
        except KeyboardInterrupt:
            commands = ["report", "sync"] if self._state.config.tracking.enabled else ["report"]
            shown = " and ".join(f"`fmnas {self._directory.command(name)}`" for name in commands)
            self._notify(f"stopped before all was written: {shown} take the rest from the journal")
            raise

    def result(self, run: RunResult) -> ExperimentResult:
        """Return what a command prints. Raises ExperimentFailed, also with why the run failed, without a report."""
        if self._summary is None:
            raise ExperimentFailed(f"{run.reason}; {self._error}") if run.reason else self._error
        store = redact(run.state.config.tracking.uri or self._directory.store)
        return ExperimentResult(run.status, run.reason, self._summary, self._report, store)


def load_plugin_observers(notify: Callable[[str], None]) -> list[Observer]:
    """Return the observers of installed packages. notify: receives a line about them, and about each one left out."""
    observers: dict[str, Observer] = {}
    for name, use in find_plugins("fmnas.observers").items():
        try:
            observer = call_user_code("it cannot be built", import_reference(use))
            if not isinstance(observer, Observer):
                raise ConfigError(f"it is a {type(observer).__name__}, not an Observer of fmnas.platform")
            observers[name] = observer
        except FmnasError as error:
            notify(f"observer {name} ({use}) is left out: {error}")
    if observers:
        notify(f"observers of installed packages: {', '.join(observers)}")
    return list(observers.values())


def sync(directory: RunDirectory, notify: Callable[[str], None]) -> ExperimentResult:
    """Log to MLflow what it misses. Raises FmnasError while a driver works."""
    with driver_lock(directory, DriverWork.SYNC):
        state = read_state(directory)
        require_tracking(state.config.tracking, directory)
        results = ResultsWriter(directory, notify, flush_seconds=SYNC_SECONDS)
        results.check(state.config)
        results.on_start(state, NoWorkers())
        status = Ending(state.ledger.status or Ending.INTERRUPTED)
        results.on_end(status, "")
        return results.result(RunResult(state, status))
