"""Observers: they follow a running experiment and do something with what happens, such as showing or logging it.

The driver calls every method from its own thread, so a method must return quickly. An exception of an observer never
ends the experiment: the first one of each observer is logged. KeyboardInterrupt is passed on.

    class PrintEvents(Observer):
        def on_event(self, event, result):
            print(event)
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVarTuple

from fmnas.platform.experiment.events import Event
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.search_spaces import FmnasError

if TYPE_CHECKING:
    from fmnas.platform.config.schema import Config
    from fmnas.platform.experiment.state import ExperimentState

Arguments = TypeVarTuple("Arguments")
_LOGGER = logging.getLogger(__name__)


class PoolStatus(Protocol):
    """What an observer may ask of the workers, at any time and from any thread."""

    @property
    def size(self) -> int:
        """How many workers there are, ready or starting."""

    def progress(self) -> Mapping[tuple[str, int], int]:
        """Return at once (run, trial) -> epochs that all trainings of a running trial have done, added up.

        As far as known; it may be seconds old.
        """


class Observer:
    """Follows an experiment. Every method does nothing by default."""

    def check(self, config: "Config") -> None:
        """Raise FmnasError if the observer cannot work with this configuration. Called before anything is written."""

    def on_start(self, state: "ExperimentState", pool: PoolStatus) -> None:
        """Called before the first job: `state` has everything that an earlier driver did."""

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        """Called after every event is on disk and in the state. result: of the trial that ended with it, else None."""

    def on_suggesting(self, run: str) -> None:
        """Called before the optimizer of a run is asked for a trial, and with "" afterwards."""

    def on_message(self, text: str) -> None:
        """Called with a line for the user, also before `on_start`."""

    def on_end(self, status: str, reason: str) -> None:
        """Called once, last. status: "finished", "interrupted" or "failed"; reason: why it failed, else empty.

        Both are of what this driver did; `state.ledger.status` is the status of the experiment.
        """


class Observers:
    """Calls several observers, in order, and logs the first exception of each."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers
        self._failed: set[int] = set()

    def notify(self, method: Callable[[Any, *Arguments], None], *arguments: *Arguments) -> None:
        """Call a method of `Observer`, e.g. `notify(Observer.on_event, event, None)`, as each observer defines it."""
        for observer in self._observers:
            try:
                getattr(observer, method.__name__)(*arguments)
            except Exception:
                self._log(observer)

    def check(self, config: "Config") -> None:
        """Let each check the configuration. Raises FmnasError if one cannot work with it."""
        for observer in self._observers:
            try:
                observer.check(config)
            except FmnasError:
                raise
            except Exception:
                self._log(observer)

    def _log(self, observer: Observer) -> None:
        """Log the exception that is being handled, if it is the observer's first one."""
        if id(observer) not in self._failed:
            self._failed.add(id(observer))
            _LOGGER.exception("%s failed; the experiment continues", type(observer).__name__)

    def on_message(self, text: str) -> None:
        """See `Observer.on_message`."""
        self.notify(Observer.on_message, text)


def mean_epochs_done(pool: PoolStatus, trainings: int) -> dict[tuple[str, int], int]:
    """(run, trial) -> epochs that the trainings of a running trial have done on average, rounded down.

    trainings: how many trainings a trial has; 0 counts as 1.
    """
    return {key: epochs // max(1, trainings) for key, epochs in pool.progress().items()}
