"""What an experiment logs to MLflow, by its configuration, and when: from its begin to the report at its end."""

import getpass
import hashlib
from collections.abc import Callable, Set
from typing import Any

from fmnas.comparison.summary import Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.environment import provenance
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.comparability import OBJECTIVE_KEYS
from fmnas.platform.experiment.provenance import data_hash
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.credentials import tracking_uri
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.platform.mlflow.records import params
from fmnas.platform.mlflow.sync import FLUSH_SECONDS, MlflowSync, Tracker, TrackingReport
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import resolved_options
from fmnas.platform.report.write import write_results

Say = Callable[[str], None]
Write = Callable[[RunDirectory, ExperimentState, Say], Summary]
"""Writes the results of an experiment, as `write_results` does, or less; returns the summary."""
SYNC_SECONDS = 24 * 3600.0
"""As FLUSH_SECONDS, for `fmnas sync`."""

PARAM_KEYS = frozenset({*OBJECTIVE_KEYS, "seed", "initial_design", "on_failure"})
"""The keys of a configuration that are params of every run."""
EXTENDABLE_KEYS = frozenset({"budget", "repeats"})
"""Those that an extension changes: tags of the parent run, since a param of MLflow never changes."""


def check_tracking(config: Config, directory: RunDirectory) -> None:
    """Raise TrackingError if the store cannot be used; it is not contacted."""
    if config.tracking.enabled:
        tracking_uri(config.tracking, directory)


def begin_tracking(
    state: ExperimentState, directory: RunDirectory, identity: str, flush_seconds: float = FLUSH_SECONDS
) -> Tracker:
    """Start to log the experiment in the background; a tracker that does nothing if tracking is disabled."""
    if not state.experiment.config.tracking.enabled:
        return Tracker()
    tracker = MlflowSync(Reconciler(tracking_settings(state, directory, identity), directory), flush_seconds)
    tracker.start()
    return tracker


def finish_tracking(
    tracker: Tracker, state: ExperimentState, directory: RunDirectory, status: str, say: Say, write: Write | None = None
) -> tuple[TrackingReport, Summary]:
    """Write the results and log them. The trials are logged even if the results cannot be written.

    say: receives each step as it begins. write: for `write_results`.
    """
    trials = len(state.ledger.results) + len(list(state.ledger.cancelled_results()))
    try:
        summary = (write or write_results)(directory, state, say)
    except ExperimentFailed:
        tracker.finish(status, trials)
        raise
    if state.experiment.config.tracking.enabled:
        say("logging the results to MLflow")
    return tracker.finish(status, trials), summary


def tracking_settings(state: ExperimentState, directory: RunDirectory, identity: str) -> TrackingSettings:
    """Return what the runs of an experiment have in common. identity: the unique id of the run directory."""
    config, dataset, commit = state.experiment.config, state.experiment.problem.dataset, provenance().commit
    used = config.data.model_dump_json(exclude={"root"}) + data_hash(directory)
    tags = {
        "problem": display_name(config.problem),
        "dataset": dataset,
        "commit": commit or f"fmnas {provenance().fmnas}",
        "mlflow.source.git.commit": commit or "",
        "mlflow.user": _user(),
    }
    return TrackingSettings(
        uri=tracking_uri(config.tracking, directory),
        experiment=config.tracking.experiment or config.name,
        experiment_id=identity,
        name=config.name,
        description=config.summary_line,
        tags=tags,
        experiment_tags=params(_subset(config, EXTENDABLE_KEYS)),
        params=params(_subset(config, PARAM_KEYS)),
        optimizers={
            label: params({**_subset(config, PARAM_KEYS), **own}) for label, own in resolved_options(config).items()
        },
        space=state.experiment.subspace.free,
        artifacts=directory.artifacts,
        dataset=(dataset, hashlib.sha256(used.encode()).hexdigest()[:8]),
        is_own=config.tracking.uri is None,
    )


def _subset(config: Config, keys: Set[str]) -> dict[str, Any]:
    plain = config.model_dump(mode="json", include=set(keys))
    return {**plain, "problem": display_name(config.problem)} if "problem" in keys else plain


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in a container
        return ""
