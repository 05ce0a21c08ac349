"""Logging to MLflow while an experiment runs: a thread that calls the reconciler, and once more at the end."""

import threading
import time
from dataclasses import dataclass

from fmnas.platform.mlflow.reconciler import Reconciler, describe

POLL_SECONDS, LONGEST_PAUSE = 2.0, 60.0
"""Seconds between passes; doubled while the store does not take everything, up to the longest."""
FLUSH_SECONDS = 60.0
"""How long the end of an experiment waits for a store that answers slowly."""
SYNC_SECONDS = 24 * 3600.0
"""The same, for `fmnas sync`."""
LAST_TRIES, RETRY_SECONDS = 3, 1.0
"""Passes at the end of an experiment, if the store does not take everything, and seconds between them."""


@dataclass(frozen=True)
class TrackingReport:
    """What became of the trials.

    written: logged now; present: logged before; missed: not logged, and `reason` says why. store_experiment: MLflow's
    id of the experiment; empty if the store was never reached. remark: a line for the user about the store, or empty.
    """

    written: int = 0
    present: int = 0
    missed: int = 0
    reason: str = ""
    store_experiment: str = ""
    remark: str = ""


class MlflowSync:
    """Keeps the store up to date while an experiment runs. No method waits for the store but `finish`.

    flush_seconds: how long `finish` may take; far less if the store is down.
    """

    def __init__(self, reconciler: Reconciler, flush_seconds: float = FLUSH_SECONDS) -> None:
        self._reconciler, self._flush_seconds = reconciler, flush_seconds
        self._ending = threading.Event()
        self._status = self._reason = ""
        # A daemon: a request that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)

    def start(self) -> None:
        """Begin to connect and to log."""
        self._thread.start()

    def finish(self, status: str, trials: int) -> TrackingReport:
        """Log the rest and the results. status: of the experiment. trials: how many there are."""
        self._status = status
        self._reconciler.deadline = time.monotonic() + self._flush_seconds
        self._ending.set()
        if self._thread.ident is None:
            self._thread.start()
        self._thread.join(self._flush_seconds)
        reason = self._reason
        if self._thread.is_alive():
            reason = reason or f"the store takes more than {self._flush_seconds:g} s"
        written, present = self._reconciler.count()
        missed = trials - written - present
        return TrackingReport(written, present, missed, reason, self._reconciler.experiment, self._reconciler.remark)

    def _work(self) -> None:
        pause = 0.0
        while not self._ending.wait(pause):
            self._pass("")
            pause = min(2 * max(pause, POLL_SECONDS), LONGEST_PAUSE) if self._reason else POLL_SECONDS
        for number in range(LAST_TRIES):
            time.sleep(RETRY_SECONDS if number else 0.0)
            self._pass(self._status)
            if not self._reason or time.monotonic() > self._reconciler.deadline:
                return

    def _pass(self, status: str) -> None:
        try:
            self._reason = self._reconciler.reconcile(status)
        except Exception as error:  # no failure of the store may stop an experiment that trains for days
            self._reason = describe(error)
