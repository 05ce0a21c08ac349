"""Where an experiment is logged, and what is logged beside its trials."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fmnas.platform.environment import provenance
from fmnas.platform.experiment.comparability import OBJECTIVE_KEYS
from fmnas.platform.experiment.provenance import data_hash
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.credentials import tracking_uri
from fmnas.platform.mlflow.records import params
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import resolved_options


@dataclass(frozen=True)
class TrackingSettings:
    """Where an experiment is logged, and what its runs have in common.

    uri: MLflow's tracking URI. experiment: the name of the MLflow experiment, which may hold several run directories.
    experiment_id: unique id of the run directory. name: of the directory's run, the parent of all others.
    tags: of every run. params: of the parent run. optimizers: label -> the params of its runs.
    artifacts: folder of files, if MLflow is used without a server.
    dataset: name and digest; the name is empty for a problem without data.
    is_own: whether the store is the SQLite file in the run directory, which may be written again from the journal.
    """

    uri: str
    experiment: str
    experiment_id: str
    name: str = "experiment"
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)
    optimizers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    artifacts: Path | None = None
    dataset: tuple[str, str] = ("", "")
    is_own: bool = False


def tracking_settings(state: ExperimentState, directory: RunDirectory) -> TrackingSettings:
    """Return where an experiment is logged, and what its runs have in common."""
    config, dataset, commit = state.experiment.config, state.experiment.problem.dataset, provenance().commit
    used = config.data.model_dump_json(exclude={"root"}) + data_hash(directory)
    tags = {
        "problem": display_name(config.problem),
        "dataset": dataset,
        "commit": commit or f"fmnas {provenance().fmnas}",
        "mlflow.source.git.commit": commit or "",
        "mlflow.user": os.environ.get("USER", ""),
        **({"time": "simulated"} if config.workers.is_simulated else {}),
    }
    common = config.model_dump(mode="json", include={*OBJECTIVE_KEYS, "seed", "initial_design", "on_failure"})
    common |= {"problem": display_name(config.problem)}
    return TrackingSettings(
        uri=tracking_uri(config.tracking, directory),
        experiment=config.tracking.experiment or config.name,
        experiment_id=state.ledger.id,
        name=config.name,
        description=config.summary_line,
        tags=tags,
        params=params(common),
        optimizers={label: params({**common, **options}) for label, options in resolved_options(config).items()},
        artifacts=directory.artifacts,
        dataset=(dataset, hashlib.sha256(used.encode()).hexdigest()[:8]),
        is_own=config.tracking.uri is None,
    )
