"""Which MLflow store an experiment goes to, and under which labels; and the one place that imports mlflow."""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from fmnas.platform.mlflow_uri import TrackingError, check_uri
from fmnas.search_spaces import Space


@dataclass(frozen=True)
class TrackingSettings:
    """Where the trials go and what every run carries.

    uri: MLflow's tracking URI.
    experiment: the MLflow experiment's name; it is created if absent.
    experiment_id: unique id of the run directory, so that two directories of the same name never mix in one store.
    tags: put on every run, e.g. problem, dataset, commit.
    space: tells which parameters are on a log scale; None if nothing is.
    artifacts: folder for the files of a store that MLflow reaches without a server; a server has its own.
    own: whether the store is a SQLite file of the run directory's own, which may be made anew from the journal.
    """

    uri: str
    experiment: str
    experiment_id: str
    tags: Mapping[str, str] = field(default_factory=dict)
    space: Space | None = None
    artifacts: Path | None = None
    own: bool = False

    def __post_init__(self) -> None:
        check_uri(self.uri)
        if not re.fullmatch(r"[\w.-]{1,64}", self.experiment_id, re.ASCII):
            raise TrackingError(
                f"experiment id {self.experiment_id!r}: it must be 1 to 64 letters, digits, '_', '-' or '.'"
            )


def load_mlflow() -> ModuleType:
    """mlflow, imported on first use (it takes seconds) with telemetry off, quiet, and with short waits.

    Retries are ours (fmnas.platform.tracking), with growing pauses: MLflow's own would hold the thread for minutes, and
    would create a run twice whose first creation was not answered.
    """
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    os.environ["DO_NOT_TRACK"] = "true"  # MLflow takes the word true and not 1
    for name, value in {
        "MLFLOW_LOGGING_LEVEL": "ERROR",
        "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }.items():
        os.environ.setdefault(name, value)
    # A server that is down is no news to a person at every attempt; what was missed is said at the end.
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    import mlflow

    return mlflow
