"""What an experiment sends to MLflow: its trials as they end, and at the end its results."""

import getpass
import hashlib
from collections.abc import Callable, Set
from typing import Any

from fmnas.comparison.summary import Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.config.uri import masked_uri
from fmnas.platform.environment import provenance
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.comparability import OBJECTIVE_KEYS
from fmnas.platform.experiment.provenance import data_digest
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.password import keep_password, tracking_uri
from fmnas.platform.mlflow.records import params
from fmnas.platform.mlflow.store import MlflowStore
from fmnas.platform.mlflow.tracker import FLUSH_SECONDS, BackgroundTracker, NoTracker, Tracker, TrackingReport
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import resolved_options
from fmnas.platform.report.write import write_results

Say = Callable[[str], None]
Write = Callable[[RunDirectory, ExperimentState, Say], Summary]
"""Writes what people read of an experiment, as `write_results` does, or less; returns the summary."""
SYNC_SECONDS = 24 * 3600.0
"""As FLUSH_SECONDS, of a sync."""

SHARED = frozenset({*OBJECTIVE_KEYS, "seed", "initial_design", "on_failure"})
"""The keys of a configuration that are params of every run."""
PARENT = frozenset({"budget", "repeats"})
"""Those of the parent run alone: an extension changes them and has a new parent run, and a param never changes."""


def check_tracking(config: Config, directory: RunDirectory) -> None:
    """Raise TrackingError for a store that cannot be, or whose password is missing; it is not asked for anything."""
    if config.tracking.enabled:
        tracking_uri(config.tracking, directory)
    elif config.tracking.uri is not None:
        masked_uri(config.tracking.uri)  # it is written to files all the same


def begin_tracking(
    state: ExperimentState, directory: RunDirectory, identity: str, flush_seconds: float = FLUSH_SECONDS
) -> Tracker:
    """Started, and told of every trial that has ended."""
    tracker = _new_tracker(state, directory, identity, flush_seconds)
    tracker.start([(run.optimizer_name, run.repeat) for run in state.runs.values()])
    for outcome in state.outcomes:
        tracker.trial(outcome)
    return tracker


def finish_tracking(
    tracker: Tracker, state: ExperimentState, directory: RunDirectory, status: str, say: Say, write: Write | None = None
) -> tuple[TrackingReport, Summary]:
    """Write the results, and give the tracker them and what a stop left in the middle.

    say: told each step as it begins. write: None as a rule.

    Where they cannot be written, the trials that wait are sent all the same, before that is raised.
    """
    for outcome in state.cancelled():
        tracker.trial(outcome)
    try:
        summary = (write or write_results)(directory, state, say)
    except ExperimentFailed:
        tracker.finish(status, [], {})
        raise
    drawn = sorted(path for path in directory.report.glob("*") if path.suffix in (".png", ".csv"))
    tables = [directory.trials, directory.summary, directory.retrained]
    if state.experiment.config.tracking.enabled:
        say("sending the results to MLflow")
    files = [directory.config, directory.environment, *tables, directory.page, *drawn]
    return tracker.finish(status, files, summary.to_json()), summary


def _new_tracker(state: ExperimentState, directory: RunDirectory, identity: str, flush_seconds: float) -> Tracker:
    config = state.experiment.config
    if not config.tracking.enabled:
        return NoTracker()
    keep_password(config, directory)
    driver = provenance()
    settings = TrackingSettings(
        uri=tracking_uri(config.tracking, directory),
        experiment=config.tracking.experiment or config.name,
        experiment_id=identity,
        tags={
            "problem": display_name(config.problem),
            "dataset": state.experiment.problem.dataset,
            "commit": driver["commit"] or f"fmnas {driver['fmnas']}",
            **_of_mlflow(driver["commit"]),
        },
        params=params(_said(config, {*SHARED, *PARENT})),
        optimizers={label: params({**_said(config, SHARED), **own}) for label, own in resolved_options(config).items()},
        dataset=_dataset(config, state.experiment.problem.dataset, data_digest(directory)),
        space=state.experiment.subspace.free,
        artifacts=directory.artifacts,
        extensions=len(state.extensions),
        name=config.name,
        description=config.summary_line,
        own=config.tracking.uri is None,
    )
    return BackgroundTracker(MlflowStore(settings), flush_seconds, uri=settings.uri)


def _of_mlflow(commit: str | None) -> dict[str, str]:
    """Tags that MLflow's own tables show: who, and of which commit."""
    source = {"mlflow.source.git.commit": commit} if commit else {}
    try:
        return {"mlflow.user": getpass.getuser(), **source}
    except (KeyError, OSError):  # a number without a name, as in a container
        return source


def _said(config: Config, keys: Set[str]) -> dict[str, Any]:
    """Some keys of a configuration."""
    plain = config.model_dump(mode="json", include=set(keys))
    return {**plain, "problem": display_name(config.problem)}


def _dataset(config: Config, name: str, digest: str) -> tuple[str, str]:
    """Its name, and a digest of how much of it is used and how; with its own, where a user gave it."""
    if not name:
        return "", ""
    used = config.data.model_dump_json(exclude={"root"})
    return name, hashlib.sha256((used + digest).encode()).hexdigest()[:8]
