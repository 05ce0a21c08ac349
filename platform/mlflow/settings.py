"""Where an experiment is logged, and what is logged beside its trials."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fmnas.platform.environment import current_software
from fmnas.platform.experiment.comparability import OBJECTIVE_KEYS
from fmnas.platform.experiment.provenance import DATA_ARRAYS, data_hash, read_environment
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.credentials import tracking_uri
from fmnas.platform.mlflow.records import SOURCE_NAME, params, source_tags
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import resolved_options


@dataclass(frozen=True)
class LoggedDataset:
    """The data of an experiment. name: empty for a problem without data. digest: of what identifies them.

    place: where they were found, as in environment.json. arrays: the type and shape of each part, if known.
    """

    name: str = ""
    digest: str = ""
    place: str = ""
    arrays: Mapping[str, Any] = field(default_factory=dict)

    def source(self) -> tuple[str, dict[str, Any]]:
        """Return type and content of the source as MLflow reads it: a local file or folder, or what provides them."""
        path = self.place.partition(": ")[2].partition(", SHA-256 ")[0]
        return ("local", {"uri": path}) if os.path.isabs(path) else ("code", {"tags": {SOURCE_NAME: self.place}})

    def schema(self) -> dict[str, Any]:
        """Return MLflow's schema of the inputs, with any number of rows; empty if it is not known."""
        if not self.arrays:
            return {}
        train = self.arrays["train"]
        spec = {"type": "tensor", "tensor-spec": {"dtype": train["dtype"], "shape": [-1, *train["shape"][1:]]}}
        return {"mlflow_tensorspec": {"features": json.dumps([spec]), "targets": None}}


@dataclass(frozen=True)
class TrackingSettings:
    """Where an experiment is logged, and what its runs have in common.

    uri: MLflow's tracking URI. experiment: the name of the MLflow experiment, which may hold several run directories.
    experiment_id: unique id of the run directory. name: of the directory's run, the parent of all others.
    tags: of every run. params: of the parent run. optimizers: label -> the params of its runs.
    artifacts: folder of files, if MLflow is used without a server.
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
    dataset: LoggedDataset = LoggedDataset()
    is_own: bool = False


def tracking_settings(state: ExperimentState, directory: RunDirectory) -> TrackingSettings:
    """Return where an experiment is logged, and what its runs have in common."""
    config, dataset = state.config, state.experiment.problem.dataset
    environment = read_environment(directory)
    software = state.ledger.drivers[-1].software if state.ledger.drivers else current_software()
    used = config.data.model_dump_json(exclude={"root"}) + data_hash(directory)
    tags = {
        "problem": display_name(config.problem),
        "dataset": dataset,
        "commit": software.commit or f"fmnas {software.fmnas}",
        **source_tags(software.commit or "", environment.get("repository") or {}),
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
        dataset=LoggedDataset(
            dataset,
            hashlib.sha256(used.encode()).hexdigest()[:8],
            str(environment.get("data", "")),
            environment.get(DATA_ARRAYS) or {},
        ),
        is_own=config.tracking.uri is None,
    )
