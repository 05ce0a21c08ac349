"""What an experiment logs to MLflow beside its trials, by its configuration."""

import getpass
import hashlib
from collections.abc import Set
from typing import Any

from fmnas.platform.config.schema import Config
from fmnas.platform.environment import provenance
from fmnas.platform.experiment.comparability import OBJECTIVE_KEYS
from fmnas.platform.experiment.provenance import data_hash
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.credentials import tracking_uri
from fmnas.platform.mlflow.records import params
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import resolved_options

PARAM_KEYS = frozenset({*OBJECTIVE_KEYS, "seed", "initial_design", "on_failure"})
"""The keys of a configuration that are params of every run."""
EXTENDABLE_KEYS = frozenset({"budget", "repeats"})
"""Those that an extension changes: tags of the parent run, since a param of MLflow never changes."""


def tracking_settings(state: ExperimentState, directory: RunDirectory) -> TrackingSettings:
    """Return where an experiment is logged, and what its runs have in common."""
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
        experiment_id=state.ledger.id,
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
