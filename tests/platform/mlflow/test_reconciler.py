"""What MLflow holds after an experiment, read back with MLflow's own client from a SQLite store."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.data.schema import TensorDatasetSchema
from mlflow.utils.mlflow_tags import (
    MLFLOW_GIT_BRANCH,
    MLFLOW_GIT_COMMIT,
    MLFLOW_GIT_DIRTY,
    MLFLOW_GIT_REPO_URL,
    MLFLOW_SOURCE_NAME,
    MLFLOW_SOURCE_TYPE,
)

from fmnas.comparison import styles
from fmnas.platform.experiment.events import Asked, Cancelled, Finished, Retrained, RetrainingBegun, Started
from fmnas.platform.experiment.saved_models import save_model
from fmnas.platform.mlflow.client import MlflowExperiment
from fmnas.platform.mlflow.records import params, source_tags, valid_name
from fmnas.platform.mlflow.settings import LoggedDataset
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED

# SQLAlchemy 2.1 on MLflow's own mappings.
pytestmark = [pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"), pytest.mark.slow]

FULL = 10
SUMMARY = {
    "headline": "bo-fm has the lowest objective.",
    "caution": "1 repeat: no test.",
    "optimizers": {"bo-fm": {"mean": 0.2, "standard_error": 0.1, "best": 0.2}, "bohb": {"mean": 0.3}},
    "retrained": {"epochs": 3, "means": [{"optimizer": "bohb", "selected_error": 0.1, "error": 0.12}]},
}
CURVES = """axis,at,optimizer,mean,standard_error,low,high,repeats
evaluations,0.0,bo-fm,,,,,2
evaluations,0.5,bo-fm,0.5,,,,2
evaluations,1.0,bo-fm,0.4,0.1,0.3,0.5,2
evaluations,1.75,bo-fm,0.2,0.1,0.1,0.3,2
evaluations,2.0000000001,bohb,0.3,,,,1
epochs,10.0,bo-fm,0.4,0.1,0.3,0.5,2
"""


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory, new_experiment: Callable[[Path], Any]) -> Any:
    """The store of a finished experiment."""
    experiment = new_experiment(tmp_path_factory.mktemp("logged") / "run")
    experiment.run_bo_fm()
    experiment.run_bohb()
    experiment.directory.config.write_text("problem: toy\n")
    experiment.directory.summary.write_text(json.dumps(SUMMARY))
    report = experiment.log(description="toy: bo-fm, bohb", params={"seed": "0"})
    assert (report.written, report.present, report.missed, report.reason) == (6, 0, 0, "")
    return experiment.read_store()


def test_the_tree_has_a_run_per_optimizer_and_a_nested_one_per_trial(logged: Any) -> None:
    parents = {"experiment": None, "bo-fm/repeat-0": "experiment", "bohb/repeat-0": "experiment"}
    parents |= {f"{name}/repeat-0/trial-{n}": f"{name}/repeat-0" for name in ("bo-fm", "bohb") for n in range(3)}
    ids = {name: run.info.run_id for name, run in logged.runs.items()}
    actual = {name: run.data.tags.get("mlflow.parentRunId") for name, run in logged.runs.items()}
    assert actual == {name: ids[parent] if parent else None for name, parent in parents.items()}


def test_the_experiment_has_a_kind_a_primary_metric_a_view_and_its_description(logged: Any) -> None:
    tags = logged.experiment.tags
    assert tags["mlflow.experimentKind"] == "custom_model_development"
    assert tags["mlflow.experiment.primaryMetric.name"] == "objective"
    assert tags["mlflow.experiment.primaryMetric.greaterIsBetter"] == "False"
    assert tags["mlflow.note.content"] == "toy: bo-fm, bohb"
    assert "mlflow.sharedViewState.compare-abc" in tags


def test_tags_that_a_user_changed_stay(experiment: Any) -> None:
    experiment.log(description="ours")
    store = experiment.read_store()
    for tag in ("mlflow.experimentKind", "mlflow.note.content"):
        store.client.set_experiment_tag(store.experiment.experiment_id, tag, "mine")
    experiment.log(description="ours")
    tags = experiment.read_store().experiment.tags
    assert tags["mlflow.experimentKind"] == tags["mlflow.note.content"] == "mine"


def test_a_description_follows_an_extension_and_no_other_directory(experiment: Any) -> None:
    experiment.log(description="one")
    described = [experiment.read_store().experiment.tags["mlflow.note.content"]]
    for changes in ({"description": "two"}, {"description": "x", "experiment_id": "other"}):
        MlflowExperiment(replace(experiment.settings, **changes)).label()
        described.append(experiment.read_store().experiment.tags["mlflow.note.content"])
    assert described == ["one", "two", "two"]


def test_a_trial_holds_its_configuration_results_and_curve(logged: Any) -> None:
    run = logged.runs["bohb/repeat-0/trial-0"]
    assert run.data.params == {"rate": "0.01", "momentum": "0.25", "op": "b"}
    assert run.data.metrics == {
        "objective": 0.05,
        "error": 0.2,
        "error_seed_1": 0.1,
        "error_seed_2": 0.3,
        "flops": 1000.0,
        "flops_ratio": 0.5,
        "train_seconds": 7.5,
        "suggest_seconds": 0.5,
        "epochs": 4.0,
        "val_error": 0.25,
        "spent/evaluations": 0.4,
        "spent/epochs": 4.0,
    }
    assert logged.line("bohb/repeat-0/trial-0", "val_error") == [(1, 1.0), (2, 1 / 2), (3, 1 / 3), (4, 1 / 4)]
    assert (run.info.status, run.info.start_time, run.info.end_time) == ("FINISHED", 1_000_000, 1_001_000)
    spent = logged.runs["bohb/repeat-0/trial-2"].data.metrics
    assert (spent["spent/evaluations"], spent["spent/epochs"], spent["spent/incumbent"]) == (2.4, 24, 0.1)


def test_a_trial_has_the_tags_that_find_it(logged: Any) -> None:
    tags = logged.runs["bohb/repeat-0/trial-2"].data.tags
    expected = {
        **{"optimizer": "bohb", "repeat": "0", "problem": "toy", "commit": "deadbeef", "origin": "model"},
        **{"status": "finished", "diverged": "false", "parent_trial": "3", "fmnas.run": "bohb/repeat-0"},
        **{"fmnas.trial": "2", "fmnas.kind": "trial", "fmnas.experiment_id": "abc"},
    }
    assert tags.items() >= expected.items()
    assert not [run for run in logged.runs.values() if "" in run.data.tags.values()]


def test_an_optimizer_has_the_colour_of_the_report(logged: Any) -> None:
    for name, style in styles(["bo-fm", "bohb"]).items():
        colours = {run.data.tags["mlflow.runColor"] for key, run in logged.runs.items() if name in key}
        assert colours == {style.colour}


def test_a_failed_trial_has_its_reason_and_no_result(logged: Any) -> None:
    run = logged.runs["bo-fm/repeat-0/trial-1"]
    assert (run.info.status, run.data.tags["status"], run.data.tags["reason"]) == (
        "FAILED",
        FAILED,
        "CUDA out of memory",
    )
    assert run.data.params["op"] == "a"
    assert "objective" not in run.data.metrics


def test_optimizers_have_their_incumbents_at_the_same_steps(logged: Any) -> None:
    assert logged.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.4), (3, 0.2)]
    assert logged.line("bo-fm/repeat-0", "incumbent_by_epochs") == [(10, 0.4), (20, 0.4), (30, 0.2)]
    # After one evaluation's worth BOHB had no full training yet, after two the first; the end is rounded up.
    assert logged.line("bohb/repeat-0", "incumbent") == [(2, 0.3), (3, 0.1)]
    assert logged.line("bohb/repeat-0", "incumbent_by_epochs") == [(20, 0.3), (30, 0.1)]


def test_an_optimizers_run_ends_with_its_best_trial(logged: Any) -> None:
    run = logged.runs["bo-fm/repeat-0"]
    assert (run.info.status, run.data.tags["best_trial"]) == ("FINISHED", "2")
    assert {key: run.data.metrics[key] for key in ("objective", "trials", "epochs")} == {
        "objective": 0.2,
        "trials": 3,
        "epochs": 30,
    }
    assert (run.info.start_time, run.info.end_time) == (998_500, 1_003_000)


def test_the_experiments_own_run_has_params_the_report_in_words_and_its_files(logged: Any) -> None:
    run = logged.runs["experiment"]
    assert run.data.params == {"seed": "0"}
    assert run.data.tags["mlflow.note.content"] == "bo-fm has the lowest objective.\n\n1 repeat: no test."
    assert (run.info.start_time, run.info.end_time) == (500_000, 1_003_000)
    assert set(logged.files("experiment")) == {"config.yaml", "summary.json"}


def test_a_mean_run_per_optimizer_is_replaced_if_its_values_change(experiment: Any) -> None:
    directory = experiment.directory
    directory.report.mkdir()
    directory.summary.write_text(json.dumps(SUMMARY))
    curves = directory.report / "mean_curves.csv"
    curves.write_text(CURVES)
    experiment.log(status="interrupted")
    assert "bo-fm/mean" not in experiment.read_store().runs
    ids = []
    for _ in range(2):
        experiment.log(optimizers={"bo-fm": {"kernel": "modlap"}})
        store = experiment.read_store()
        assert store.lines("bo-fm/mean") == {
            "mean": [(1, 0.4), (2, 0.2)],
            "low": [(1, 0.3), (2, 0.1)],
            "high": [(1, 0.5), (2, 0.3)],
            "objective": [(0, 0.2)],
            "standard_error": [(0, 0.1)],
        }
        assert store.lines("bohb/mean") == {"mean": [(2, 0.3)], "objective": [(0, 0.3)], "test_error": [(0, 0.12)]}
        run = store.runs["bo-fm/mean"]
        assert run.data.tags["mlflow.parentRunId"] == store.runs["experiment"].info.run_id
        assert (run.info.status, run.data.params) == ("FINISHED", {"kernel": "modlap"})
        ids.append(run.info.run_id)
    assert ids[0] == ids[1]
    curves.write_text(CURVES.replace("1.75,bo-fm,0.2", "1.75,bo-fm,0.25"))
    experiment.log()
    store = experiment.read_store()
    assert store.line("bo-fm/mean", "mean") == [(1, 0.4), (2, 0.25)]
    assert store.files("experiment")["mean_curves.csv"].read_text() == curves.read_text()


def test_a_retrained_network_is_a_model_with_its_test_error(experiment: Any) -> None:
    experiment.run_bo_fm()
    run = "bo-fm/repeat-0"
    experiment.append(RetrainingBegun(3, 10, 2, (run,), 2000.0))
    experiment.append(Retrained(run, 2, 1, "w", (0.1, 0.3), 5, 1.0, 2000.0, 2001.0))
    for _ in range(2):
        experiment.log(dataset=LoggedDataset("digits", "ab12"))
        store = experiment.read_store()
        (model,) = store.client.search_logged_models([store.experiment.experiment_id])
        assert model.source_run_id == store.runs["bo-fm/repeat-0"].info.run_id
        assert (model.name, model.status, model.params["op"]) == ("bo-fm-repeat-0-trial-2", "READY", "b")
        values = {metric.key: metric.value for metric in model.metrics}
        assert values == {"test_error": 0.2, "test_error_seed_1": 0.1, "test_error_seed_2": 0.3}
        assert {(metric.dataset_name, metric.dataset_digest) for metric in model.metrics} == {("digits", "ab12")}
        (output,) = store.runs["bo-fm/repeat-0"].outputs.model_outputs
        assert output.model_id == model.model_id


@pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType:UserWarning")  # MLflow's own code
def test_a_saved_network_is_read_back_and_logged_once(experiment: Any) -> None:
    """Also if it was logged without its files before. MLflow loads it by the code that is in the files."""
    code = b"class Double:\n    def predict(self, data): return 2 * data\ndef _load_pyfunc(folder): return Double()"
    experiment.run_bo_fm()
    run = "bo-fm/repeat-0"
    experiment.append(RetrainingBegun(3, 10, 2, (run,), 2000.0))
    experiment.append(Retrained(run, 2, 1, "w", (0.1, 0.3), 5, 1.0, 2000.0, 2001.0))
    experiment.log()
    facts = {"configuration": {"rate": 0.01, "momentum": 0.25, "op": "b"}, "epochs": 3, "images": 10}
    facts |= {"test_images": 5, "test_errors": [0.1, 0.3]}
    save_model(experiment.directory, run, {"model.py": code, "model.json": json.dumps(facts).encode()})
    for _ in range(2):
        assert not experiment.log().reason
        store = experiment.read_store()
        (model,) = store.client.search_logged_models([store.experiment.experiment_id])
        folder = Path(model.artifact_location.removeprefix("file://"))
        assert {path.name for path in (folder / "network").iterdir()} == {"model.py", "model.json"}
        mlflow.set_tracking_uri(experiment.settings.uri)
        assert mlflow.pyfunc.load_model(f"models:/{model.model_id}").predict(4) == 8


def test_runs_have_their_params_once_and_a_dataset_that_mlflow_can_read(experiment: Any, tmp_path: Path) -> None:
    arrays = {name: {"dtype": "uint8", "shape": [count, 28, 28]} for name, count in (("train", 40), ("held_out", 24))}
    dataset = LoggedDataset("digits", "ab12", f"given: {tmp_path}/my.npz, SHA-256 00ff", arrays)
    common = {"optimizers": {"bo-fm": {"kernel": "modlap"}}, "dataset": dataset}
    experiment.run_bo_fm(1)
    experiment.log(params={"fidelity.epochs": "3"}, **common)
    experiment.log(params={"fidelity.epochs": "4", "seed": "0"}, **common)  # a resume, with a param that came later
    runs = experiment.read_store().runs
    assert runs["experiment"].data.params == {"fidelity.epochs": "3", "seed": "0"}
    assert (runs["bo-fm/repeat-0"].data.params, runs["bohb/repeat-0"].data.params) == ({"kernel": "modlap"}, {})
    for run in runs.values():
        (dataset,) = run.inputs.dataset_inputs
        assert (dataset.dataset.name, dataset.dataset.digest) == ("digits", "ab12")
        assert [(tag.key, tag.value) for tag in dataset.tags] == [("mlflow.data.context", "training")]
        assert mlflow.data.get_source(dataset).uri == f"{tmp_path}/my.npz"
        schema = TensorDatasetSchema.from_dict(json.loads(dataset.dataset.schema))
        assert [(spec.type.name, spec.shape) for spec in schema.features.inputs] == [("uint8", (-1, 28, 28))]
        assert json.loads(dataset.dataset.profile) == arrays


@pytest.mark.parametrize("place", ["scikit-learn", "recorded with xgboost 3.0", ""])
def test_a_dataset_without_a_file_names_what_provides_it(place: str, experiment: Any) -> None:
    experiment.log(dataset=LoggedDataset("digits", "ab12", place))
    (dataset,) = experiment.read_store().runs["experiment"].inputs.dataset_inputs
    assert mlflow.data.get_source(dataset).to_dict()["tags"]["mlflow.source.name"] == place
    assert (dataset.dataset.schema, dataset.dataset.profile) == (None, None)


def test_no_run_begins_before_its_parent(experiment: Any) -> None:
    """Also if a trial that was asked for first ends last, or was cancelled, and all is logged later."""
    asked = [Asked("bo-fm/repeat-0", Trial(n, {"rate": 0.1}, FULL, "model"), 0.5, 600.0 + n) for n in range(3)]
    started = [Started("bo-fm/repeat-0", n, 1, "w", 610.0 + n) for n in range(3)]
    experiment.append(*asked, *started)
    experiment.append(Finished("bo-fm/repeat-0", 2, 1, "w", Evaluation(0.5, FULL), 700.0))
    experiment.append(Cancelled("bo-fm/repeat-0", 0, 1, "w", "stopped", 800.0))
    experiment.log("interrupted")
    experiment.append(Finished("bo-fm/repeat-0", 1, 1, "w", Evaluation(0.4, FULL), 900.0))
    experiment.log()
    runs = {run.info.run_id: run for run in experiment.read_store().runs.values()}
    starts = {run.info.run_name: run.info.start_time for run in runs.values()}
    assert (starts["experiment"], starts["bo-fm/repeat-0"]) == (500_000, 599_500)
    for run in runs.values():
        if parent := run.data.tags.get("mlflow.parentRunId"):
            assert runs[parent].info.start_time <= run.info.start_time


@pytest.mark.parametrize(
    ("commit", "repository", "git"),
    [
        (
            f"{40 * 'a'}-dirty",
            {"branch": "main", "url": "https://x.org/y.git"},
            [40 * "a", "main", "https://x.org/y.git", "true"],
        ),
        (40 * "b", {}, [40 * "b", "", "", "false"]),
        ("", {}, ["", "", "", ""]),
    ],
)
def test_what_made_a_run_is_named_as_mlflow_does(commit: str, repository: dict[str, str], git: list[str]) -> None:
    names = [MLFLOW_GIT_COMMIT, MLFLOW_GIT_BRANCH, MLFLOW_GIT_REPO_URL, MLFLOW_GIT_DIRTY]
    expected = {**dict(zip(names, git, strict=True)), MLFLOW_SOURCE_NAME: "fmnas", MLFLOW_SOURCE_TYPE: "LOCAL"}
    assert source_tags(commit, repository) == expected


def test_params_have_no_none_and_their_floats_are_those_of_the_configuration() -> None:
    values = {"data": {"root": None, "train": 512}, "rate": 0.1 + 0.2, "small": 1.25e-7, "op": "a", "own": True}
    assert params(values) == {
        "data.train": "512",
        "rate": repr(0.1 + 0.2),
        "small": "1.25e-07",
        "op": "a",
        "own": "True",
    }
    assert float(params(values)["rate"]) == values["rate"]


def test_names_of_metrics_have_only_characters_that_mlflow_allows() -> None:
    assert valid_name("bo-fm (ours)/mean") == "bo-fm _ours_/mean"
