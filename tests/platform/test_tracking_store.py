"""What MLflow holds after an experiment, read back with MLflow's own client from a real SQLite store."""

import math
import shutil
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmnas.comparison import styles
from fmnas.platform.experiment.trial_result import RunStanding, TrialResult
from fmnas.platform.mlflow.client import TrackingSettings
from fmnas.platform.mlflow.records import final_numbers, params, result_note
from fmnas.platform.mlflow.store import MlflowStore
from fmnas.platform.mlflow.tracker import BackgroundTracker
from fmnas.search_spaces import Evaluation, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST

# SQLAlchemy 2.1 on MLflow's own mappings.
pytestmark = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")

SPACE = Space([Real("rate", 1e-4, 1e-1, log=True), Real("momentum", 0.0, 1.0), Nominal("op", ["a", "b"])])
RUNS = [("bo-fm", 0), ("bohb", 0)]
FULL = 10  # epochs of a full evaluation
SUMMARY = {
    "headline": "bo-fm has the lowest objective.",
    "caution": "1 repeat: no test.",
    "optimizers": {"bo-fm": {"mean": 0.2, "standard_error": 0.1, "best": 0.2}, "bohb": {"mean": 0.3}},
    "retrained": {"epochs": 3, "means": [{"optimizer": "bohb", "selected_error": 0.1, "error": 0.12}]},
    "budget": {"evaluations": 3},
}


def finished(optimizer: str, number: int, epochs: int, objective: float) -> TrialResult:
    trial = Trial(number, {"rate": 0.01, "momentum": 0.25, "op": "b"}, epochs, "model", parent=3)
    curve = tuple(1 / epoch for epoch in range(1, epochs + 1))
    evaluation = Evaluation(objective, epochs, (0.1, 0.3), 1000, 0.5, curve, seconds=7.5)
    return TrialResult(optimizer, 0, trial, FINISHED, evaluation, 0.5, 1000.0 + number, 1001.0 + number, "worker-1")


def unfinished(optimizer: str, number: int, status: str) -> TrialResult:
    trial = Trial(number, {"rate": 0.02, "momentum": 0.5, "op": "a"}, FULL, "random")
    return TrialResult(optimizer, 0, trial, status, None, 0.5, 2000.0, 2001.0, "worker-1", 3, "CUDA out of memory")


def standing(outcomes: Iterable[TrialResult], standings: Iterable[RunStanding]) -> list[TrialResult]:
    """Each with where its run stands after it."""
    return [replace(outcome, standing=after) for outcome, after in zip(outcomes, standings, strict=True)]


def bo_fm() -> list[TrialResult]:
    """Three full evaluations, the second of which failed."""
    first, third = finished("bo-fm", 0, FULL, 0.4), finished("bo-fm", 2, FULL, 0.2)
    second = unfinished("bo-fm", 1, FAILED)
    standings = RunStanding(1.0, 10, 0.4), RunStanding(2.0, 20, 0.4), RunStanding(3.0, 30, 0.2)
    return standing((first, second, third), standings)


def bohb() -> list[TrialResult]:
    """Short trainings first, then two full ones that end between two whole evaluations: 0.4, 1.4, 2.4."""
    short = finished("bohb", 0, 4, 0.05)
    full = finished("bohb", 1, FULL, 0.3), finished("bohb", 2, FULL, 0.1)
    standings = RunStanding(0.4, 4, None), RunStanding(1.4, 14, 0.3), RunStanding(2.4, 24, 0.1)
    return standing((short, *full), standings)


def settings(tmp_path: Path, identity: str = "abc", uri: str = "") -> TrackingSettings:
    uri = uri or f"sqlite:///{tmp_path}/mlflow.db"
    tags = {"problem": "toy", "dataset": "none", "commit": "deadbeef"}
    return TrackingSettings(uri, "an experiment", identity, tags, SPACE, tmp_path / "files")


def track(
    settings: TrackingSettings, told: Sequence[TrialResult], status: str = "finished", files: Sequence[Path] = ()
) -> Any:
    tracker = BackgroundTracker(MlflowStore(settings), first_pause=0.05)
    tracker.start(RUNS)
    for outcome in told:
        tracker.trial(outcome)
    return tracker.finish(status, files, SUMMARY)


class Reader:
    """MLflow's own view of the store."""

    def __init__(self, settings: TrackingSettings) -> None:
        from mlflow import MlflowClient

        self.client = MlflowClient(tracking_uri=settings.uri)
        self.experiment = self.client.get_experiment_by_name(settings.experiment)
        found = self.client.search_runs([self.experiment.experiment_id], max_results=1000)
        self.runs = {run.info.run_name: run for run in found}
        assert len(self.runs) == len(found), "a run is there twice"

    def line(self, run: str, metric: str) -> list[tuple[int, float]]:
        history = self.client.get_metric_history(self.runs[run].info.run_id, metric)
        return sorted((point.step, point.value) for point in history)


def reader_lines(reader: Reader, run: str) -> dict[str, list[tuple[int, float]]]:
    """Every point of every metric of a run."""
    return {metric: reader.line(run, metric) for metric in reader.runs[run].data.metrics}


@pytest.fixture
def config(tmp_path: Path, whole_store: Path) -> TrackingSettings:
    shutil.copy(whole_store, tmp_path / "mlflow.db")
    return settings(tmp_path)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, whole_store: Path) -> tuple[TrackingSettings, Any, Reader]:
    folder = tmp_path_factory.mktemp("store")
    shutil.copy(whole_store, folder / "mlflow.db")
    (folder / "config.yaml").write_text("problem: toy\n")
    config = settings(folder)
    report = track(config, [*bo_fm(), *bohb()], files=[folder / "config.yaml", folder / "absent.png"])
    return config, report, Reader(config)


def test_the_tree_has_a_run_per_optimizer_and_a_nested_one_per_trial(written: Any) -> None:
    _, report, reader = written
    assert (report.written, report.present, report.missed, report.reason) == (6, 0, 0, "")
    assert report.store_experiment == reader.experiment.experiment_id
    parents = {"an experiment": None, "bo-fm/repeat-0": "an experiment", "bohb/repeat-0": "an experiment"}
    parents |= {f"bo-fm/repeat-0/trial-{number}": "bo-fm/repeat-0" for number in range(3)}
    parents |= {f"bohb/repeat-0/trial-{number}": "bohb/repeat-0" for number in range(3)}
    ids = {name: run.info.run_id for name, run in reader.runs.items()}
    found = {name: run.data.tags.get("mlflow.parentRunId") for name, run in reader.runs.items()}
    assert found == {name: ids[parent] if parent else None for name, parent in parents.items()}


def test_the_experiment_is_of_trainings_unless_it_has_another_kind(written: Any, config: TrackingSettings) -> None:
    assert written[2].experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    track(config, [])
    reader = Reader(config)
    reader.client.set_experiment_tag(reader.experiment.experiment_id, "mlflow.experimentKind", "forecasting")
    track(config, bo_fm())
    assert Reader(config).experiment.tags["mlflow.experimentKind"] == "forecasting"


def test_a_trial_holds_its_configuration_results_and_curve(written: Any) -> None:
    run = written[2].runs["bohb/repeat-0/trial-0"]
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
        "log10/rate": math.log10(0.01),
        "spent/evaluations": 0.4,
        "spent/epochs": 4.0,
    }
    assert written[2].line("bohb/repeat-0/trial-0", "val_error") == [(1, 1.0), (2, 1 / 2), (3, 1 / 3), (4, 1 / 4)]
    assert (run.info.status, run.info.start_time, run.info.end_time) == ("FINISHED", 1_000_000, 1_001_000)


def test_a_trial_carries_the_tags_that_find_it(written: Any) -> None:
    tags = written[2].runs["bohb/repeat-0/trial-2"].data.tags
    expected = {
        "optimizer": "bohb",
        "repeat": "0",
        "problem": "toy",
        "dataset": "none",
        "commit": "deadbeef",
        "origin": "model",
        "status": "finished",
        "diverged": "false",
        "parent_trial": "3",
        "fmnas.run": "bohb/repeat-0",
        "fmnas.trial": "2",
        "fmnas.kind": "trial",
        "fmnas.experiment_id": "abc",
        "mlflow.runName": "bohb/repeat-0/trial-2",
    }
    assert tags.items() >= expected.items()


def test_an_optimizer_has_the_colour_of_the_report(written: Any) -> None:
    look = styles(["bo-fm", "bohb"])
    for name in ("bo-fm", "bohb"):
        colours = {run.data.tags["mlflow.runColor"] for key, run in written[2].runs.items() if name in key}
        assert colours == {look[name].colour}


def test_no_tag_is_empty(config: TrackingSettings) -> None:
    track(replace(config, tags={"problem": "toy", "dataset": ""}), bo_fm())
    assert not [run for run in Reader(config).runs.values() if "" in run.data.tags.values()]


def test_a_failed_trial_is_marked_with_its_reason(written: Any) -> None:
    run = written[2].runs["bo-fm/repeat-0/trial-1"]
    assert run.info.status == "FAILED"
    assert (run.data.tags["status"], run.data.tags["reason"]) == ("failed", "CUDA out of memory")
    assert run.data.params["op"] == "a"
    assert "objective" not in run.data.metrics


def test_optimizers_have_their_incumbents_at_the_same_steps(written: Any) -> None:
    reader = written[2]
    assert reader.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.4), (3, 0.2)]
    assert reader.line("bo-fm/repeat-0", "incumbent_by_epochs") == [(10, 0.4), (20, 0.4), (30, 0.2)]
    # After one evaluation's worth BOHB had no full training yet, after two the first; the end rounds up.
    assert reader.line("bohb/repeat-0", "incumbent") == [(2, 0.3), (3, 0.1)]
    assert reader.line("bohb/repeat-0", "incumbent_by_epochs") == [(20, 0.3), (30, 0.1)]


def test_an_optimizers_run_ends_with_its_best_trial(written: Any) -> None:
    run = written[2].runs["bo-fm/repeat-0"]
    assert run.info.status == "FINISHED"
    assert run.data.tags["best_trial"] == "2"
    assert run.data.metrics["objective"] == 0.2
    assert run.data.metrics["trials"] == 3
    assert "| op | b |" in run.data.tags["mlflow.note.content"]


def test_the_experiments_own_run_holds_its_result_in_words_and_files(written: Any) -> None:
    config, _, reader = written
    parent = reader.runs["an experiment"]
    assert parent.data.metrics == {}
    assert parent.data.tags["mlflow.note.content"] == "bo-fm has the lowest objective.\n\n1 repeat: no test."
    kept = Path(parent.info.artifact_uri.removeprefix("file://"))
    assert [path.name for path in kept.iterdir()] == ["config.yaml"]
    assert config.artifacts in kept.parents


CURVES = """axis,at,optimizer,mean,standard_error,low,high,repeats
evaluations,0.0,bo-fm,,,,,2
evaluations,0.5,bo-fm,0.5,,,,2
evaluations,1.0,bo-fm,0.4,0.1,0.3,0.5,2
evaluations,1.75,bo-fm,0.2,0.1,0.1,0.3,2
evaluations,2.0000000001,bohb,0.3,,,,1
epochs,10.0,bo-fm,0.4,0.1,0.3,0.5,2
"""
LINES = {
    ("bo-fm/mean", "mean"): [(1, 0.4), (2, 0.2)],
    ("bo-fm/mean", "low"): [(1, 0.3), (2, 0.1)],
    ("bo-fm/mean", "high"): [(1, 0.5), (2, 0.3)],
    ("bohb/mean", "mean"): [(2, 0.3)],
    ("bohb/mean", "low"): [],
    ("bo-fm/mean", "objective"): [(0, 0.2)],
    ("bo-fm/mean", "standard_error"): [(0, 0.1)],
    ("bo-fm/mean", "test_error"): [],
    ("bohb/mean", "objective"): [(0, 0.3)],
    ("bohb/mean", "standard_error"): [],
    ("bohb/mean", "test_error"): [(0, 0.12)],
}


def test_a_run_per_optimizer_holds_its_mean_curve_and_final_numbers_once(
    config: TrackingSettings, tmp_path: Path
) -> None:
    config = replace(config, optimizers={"bo-fm": {"kernel": "modlap"}}, dataset=("digits", "ab12"))
    path = tmp_path / "mean_curves.csv"
    path.write_text(CURVES)
    track(config, [], status="interrupted", files=[path])
    assert "bo-fm/mean" not in Reader(config).runs
    for _ in range(2):
        track(config, [], files=[path])
        reader = Reader(config)
        assert {(run, line): reader.line(run, line) for run, line in LINES} == LINES
        for name, look in styles(["bo-fm", "bohb"]).items():
            run = reader.runs[f"{name}/mean"]
            assert run.data.tags["mlflow.runColor"] == look.colour
            assert run.data.tags["mlflow.parentRunId"] == reader.runs["an experiment"].info.run_id
            assert run.info.status == "FINISHED"
            assert run.data.params == config.optimizers.get(name, {})
            assert [given.dataset.name for given in run.inputs.dataset_inputs] == ["digits"]
    path.write_text(CURVES.replace("1.75,bo-fm,0.2", "1.75,bo-fm,0.25"))
    track(config, [], files=[path])
    assert Reader(config).line("bo-fm/mean", "mean") == [(1, 0.4), (2, 0.2), (2, 0.25)]
    kept = Path(reader.runs["an experiment"].info.artifact_uri.removeprefix("file://"))
    assert (kept / "mean_curves.csv").read_text() == path.read_text()


def test_an_extended_experiment_has_a_new_parent_run(config: TrackingSettings, tmp_path: Path) -> None:
    """So no curve of before stands in that of after; what was there is kept under another name."""
    path, told, grown = tmp_path / "mean_curves.csv", [*bo_fm(), *bohb()], replace(config, extensions=1)
    path.write_text(CURVES)
    track(config, told, files=[path])
    path.write_text(CURVES.replace("1.75,bo-fm,0.2", "1.75,bo-fm,0.25"))
    for _ in range(2):  # the second time nothing is new
        assert track(grown, told, files=[path]).present == len(told)
        reader = Reader(config)
        kinds = [run.data.tags["fmnas.kind"] for run in reader.runs.values() if "fmnas.trial" not in run.data.tags]
        assert sorted(kinds) == [
            *("earlier experiment", "earlier mean", "earlier mean", "experiment", "mean", "mean", "run", "run"),
        ]
        assert reader.line("bo-fm/mean", "mean") == [(1, 0.4), (2, 0.25)]
        assert reader.line("earlier bo-fm/mean", "mean") == [(1, 0.4), (2, 0.2)]
        parents = {reader.runs[name].data.tags["mlflow.parentRunId"] for name in ("bo-fm/repeat-0", "bohb/repeat-0")}
        assert parents == {reader.runs["an experiment"].info.run_id}
        earlier = reader.runs["earlier bo-fm/mean"].data.tags["mlflow.parentRunId"]
        assert earlier == reader.runs["earlier an experiment"].info.run_id


def test_what_is_not_known_is_no_metric_and_no_text() -> None:
    assert final_numbers({"optimizers": {"bo-fm": {"mean": None}}, "retrained": None}, "bo-fm") == {}
    assert final_numbers({}, "bo-fm") == {}
    assert result_note({"headline": "", "caution": ""}) == result_note({}) == ""


def test_params_have_neither_none_nor_representation_noise() -> None:
    values = {"data": {"root": None, "train": 512}, "rate": 0.1 + 0.2, "small": 1.25e-7, "op": "a", "own": True}
    assert params(values) == {"data.train": "512", "rate": "0.3", "small": "1.25e-07", "op": "a", "own": "True"}


def test_a_resume_writes_only_what_is_missing(config: TrackingSettings) -> None:
    first = track(config, bo_fm()[:2], status="interrupted")
    assert (first.written, first.present) == (2, 0)
    assert Reader(config).runs["bo-fm/repeat-0"].info.status == "KILLED"
    second = track(config, bo_fm())
    assert (second.written, second.present, second.missed) == (1, 2, 0)
    before = {name: reader_lines(Reader(config), name) for name in ("bo-fm/repeat-0", "bo-fm/repeat-0/trial-0")}
    third = track(config, bo_fm())
    assert (third.written, third.present, third.missed) == (0, 3, 0)
    reader = Reader(config)
    assert {name: reader_lines(reader, name) for name in before} == before
    assert reader.runs["bo-fm/repeat-0"].info.status == "FINISHED"
    assert reader.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.4), (3, 0.2)]
    assert reader.runs["bo-fm/repeat-0"].data.metrics["objective"] == 0.2


def test_a_trial_cut_off_in_the_middle_is_completed_in_place(config: TrackingSettings) -> None:
    track(config, bo_fm()[:1])
    reader = Reader(config)
    cut = reader.runs["bo-fm/repeat-0/trial-0"].info.run_id
    with sqlite3.connect(config.uri.removeprefix("sqlite:///")) as database:  # as a killed driver leaves it
        database.execute("update runs set status = 'RUNNING', end_time = null where run_uuid = ?", (cut,))
        database.execute("delete from metrics where run_uuid = ?", (cut,))
        database.execute("delete from latest_metrics where run_uuid = ?", (cut,))
    database.close()
    track(config, bo_fm())
    reader = Reader(config)
    assert reader.runs["bo-fm/repeat-0/trial-0"].info.run_id == cut
    assert reader.runs["bo-fm/repeat-0/trial-0"].info.status == "FINISHED"
    assert reader.runs["bo-fm/repeat-0/trial-0"].data.metrics["objective"] == 0.4


@pytest.mark.parametrize(("status", "shown"), [(LOST, "FAILED"), (CANCELLED, "KILLED")])
def test_a_lost_trial_that_is_tried_again_ends_finished(config: TrackingSettings, status: str, shown: str) -> None:
    again = finished("bo-fm", 0, FULL, 0.4)
    lost = replace(again, status=status, evaluation=None, reason="the worker died")
    track(config, [lost], status="interrupted")
    interrupted = Reader(config).runs["bo-fm/repeat-0/trial-0"]
    assert (interrupted.info.status, interrupted.data.tags["reason"]) == (shown, "the worker died")
    track(config, [replace(again, standing=RunStanding(1.0, 10, 0.4))])
    run = Reader(config).runs["bo-fm/repeat-0/trial-0"]
    assert (run.info.status, run.data.tags["status"]) == ("FINISHED", "finished")
    assert "" not in run.data.tags.values()
    assert "reason" not in run.data.tags
    assert run.data.metrics["objective"] == 0.4


def test_two_run_directories_of_one_name_do_not_mix(config: TrackingSettings) -> None:
    track(replace(config, experiment_id="one"), bo_fm())
    report = track(replace(config, experiment_id="two"), bo_fm()[:1])
    assert (report.written, report.present) == (1, 0)
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=config.uri)
    counts = {
        identity: len(client.search_runs([report.store_experiment], f"tags.`fmnas.experiment_id` = '{identity}'"))
        for identity in ("one", "two")
    }
    assert counts == {"one": 6, "two": 4}


def test_a_curve_longer_than_a_batch_is_kept_whole(config: TrackingSettings) -> None:
    long = finished("bo-fm", 0, 2500, 0.4)
    assert track(config, [replace(long, standing=RunStanding(1.0, 2500, 0.4))]).missed == 0
    curve = Reader(config).line("bo-fm/repeat-0/trial-0", "val_error")
    assert [step for step, _ in curve] == list(range(1, 2501))


def test_a_deleted_experiment_is_reported_and_not_revived(config: TrackingSettings) -> None:
    track(config, [])
    reader = Reader(config)
    reader.client.delete_experiment(reader.experiment.experiment_id)
    report = track(config, bo_fm())
    assert (report.written, report.missed) == (0, 3)
    assert "mlflow experiments restore" in report.reason


def test_a_dead_server_neither_blocks_nor_raises(tmp_path: Path) -> None:
    config = settings(tmp_path, uri="http://127.0.0.1:9")
    began = time.monotonic()
    tracker = BackgroundTracker(MlflowStore(config), first_pause=0.05)
    tracker.start(RUNS)
    for told in [*bo_fm()] * 100:
        tracker.trial(told)
    assert time.monotonic() - began < 0.5
    report = tracker.finish("finished", [], {})
    assert time.monotonic() - began < 15
    assert (report.written, report.missed) == (0, 300)
    assert "127.0.0.1" in report.reason


def test_runs_say_what_they_were_set_to_once(tmp_path: Path) -> None:
    settings = TrackingSettings(
        f"sqlite:///{tmp_path / 'mlflow.db'}",
        "params",
        "one",
        params={"budget.evaluations": "3"},
        optimizers={"bo-fm": {"kernel": "modlap"}},
        dataset=("digits", "ab12"),
    )
    for changed in ({}, {"params": {"budget.evaluations": "4", "seed": "0"}}):  # a resume, with what came later
        store = MlflowStore(replace(settings, **changed))
        store.open(RUNS)
    found = {run.data.tags["fmnas.kind"] + run.data.tags.get("optimizer", ""): run for run in store._mlflow.runs()}
    assert found["experiment"].data.params == {"budget.evaluations": "3", "seed": "0"}
    assert found["runbo-fm"].data.params == {"kernel": "modlap"}
    assert found["runbohb"].data.params == {}
    for run in found.values():
        (given,) = run.inputs.dataset_inputs
        assert (given.dataset.name, given.dataset.digest) == ("digits", "ab12")
        assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]
