"""Passes over a journal that grew, or after one that was cut off, failed or rejected: MLflow holds each trial once."""

import time
from typing import Any

import mlflow
import pytest

from fmnas.platform.mlflow.client import MlflowExperiment
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.search_spaces.records import CANCELLED, LOST

# SQLAlchemy 2.1 on MLflow's own mappings.
pytestmark = [pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning"), pytest.mark.slow]


def test_a_resume_logs_only_what_is_missing(experiment: Any) -> None:
    experiment.run_bo_fm(2)
    assert experiment.log("interrupted").written == 2
    assert experiment.read_store().runs["bo-fm/repeat-0"].info.status == "KILLED"
    experiment.finish("bo-fm", 2, 0.2)
    before = None
    for written, present in ((1, 2), (0, 3)):
        report = experiment.log()
        assert (report.written, report.present, report.missed) == (written, present, 0)
        store = experiment.read_store()
        assert store.runs["bo-fm/repeat-0"].info.status == "FINISHED"
        assert store.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.4), (3, 0.2)]
        actual = {name: store.lines(name) for name in store.runs}
        assert before in (None, actual)
        before = actual


def test_what_is_appended_to_the_journal_is_logged_by_the_next_pass(experiment: Any) -> None:
    reconciler = Reconciler(experiment.settings, experiment.directory)
    experiment.finish("bo-fm", 0, 0.4)
    reconciler.reconcile()
    journal = experiment.directory.journal
    before = journal.read_bytes()
    experiment.finish("bo-fm", 1, 0.1)
    after = journal.read_bytes()
    for text, logged in ((after[: len(before) + 200], 1), (after, 2)):  # at first, the last line is not complete
        journal.write_bytes(text)
        reconciler.reconcile()
        assert reconciler.count() == (logged, 0)
    store = experiment.read_store()
    assert store.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.1)]
    assert store.runs["bo-fm/repeat-0"].info.status == "RUNNING"


def test_after_the_deadline_no_further_trial_is_logged(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment.run_bo_fm()
    reconciler, create = Reconciler(experiment.settings, experiment.directory), MlflowExperiment.create

    def create_late(self: MlflowExperiment, name: str, *rest: Any) -> str:
        if name.endswith("trial-1"):
            reconciler.deadline = 0.0  # has passed when the next trial comes
        return create(self, name, *rest)

    monkeypatch.setattr(MlflowExperiment, "create", create_late)
    assert reconciler.reconcile("finished")
    assert reconciler.count() == (2, 0)
    reconciler.deadline = float("inf")
    monkeypatch.undo()
    assert reconciler.reconcile("finished") == ""
    assert reconciler.count() == (3, 0)


def test_a_trial_whose_logging_was_cut_off_is_completed(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill leaves it between the creation of its run and its values."""
    experiment.finish("bo-fm", 0, 0.4)
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "set_terminated", lambda *_: None)
        experiment.log()
    cut = experiment.read_store().runs["bo-fm/repeat-0/trial-0"]
    assert cut.info.status == "RUNNING"
    assert experiment.log().written == 1
    run = experiment.read_store().runs["bo-fm/repeat-0/trial-0"]
    assert (run.info.run_id, run.info.status, run.data.metrics["objective"]) == (cut.info.run_id, "FINISHED", 0.4)


def test_a_trial_keeps_the_params_that_an_earlier_version_logged(
    experiment: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they cannot change: floats once had fewer digits."""
    experiment.finish("bo-fm", 0, 0.4)
    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, "set_terminated", lambda *_: None)
        patch.setattr("fmnas.platform.mlflow.records.params", lambda _: {"rate": "0.010"})
        experiment.log()
    report = experiment.log()
    assert (report.written, report.missed, report.reason) == (1, 0, "")
    run = experiment.read_store().runs["bo-fm/repeat-0/trial-0"]
    assert run.info.status == "FINISHED"
    assert run.data.params["rate"] == "0.010"
    assert set(run.data.params) == {"rate", "momentum", "op"}


def test_a_creation_that_was_not_answered_is_found(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment.run_bo_fm()
    create, failed = MlflowExperiment.create, []

    def create_and_fail(self: MlflowExperiment, name: str, *rest: Any) -> str:
        run_id = create(self, name, *rest)
        if "trial-2" in name and not failed:
            failed.append(name)
            raise ConnectionError("no answer")
        return run_id

    monkeypatch.setattr(MlflowExperiment, "create", create_and_fail)
    assert experiment.log().missed == 0
    assert failed
    assert len(experiment.read_store().runs) == 1 + 2 + 3


def test_a_trial_that_is_rejected_does_not_block_the_others(experiment: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment.run_bo_fm()
    create = MlflowExperiment.create

    def reject(self: MlflowExperiment, name: str, *rest: Any) -> str:
        if name.endswith("trial-0"):
            raise ConnectionError("500")
        return create(self, name, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(MlflowExperiment, "create", reject)
        report = experiment.log()
        assert (report.written, report.missed, report.reason) == (2, 1, "ConnectionError: 500")
    store = experiment.read_store()
    assert store.line("bo-fm/repeat-0", "incumbent") == [(1, 0.4), (2, 0.4), (3, 0.2)]
    report = experiment.log()
    assert (report.written, report.present, report.missed) == (1, 2, 0)


@pytest.mark.parametrize(("status", "shown"), [(CANCELLED, "KILLED"), (LOST, "FAILED")])
def test_a_trial_that_was_stopped_is_logged_and_ends_as_its_repetition_does(
    experiment: Any, status: str, shown: str
) -> None:
    experiment.fail("bo-fm", 0, status)
    experiment.log("interrupted")
    run = experiment.read_store().runs["bo-fm/repeat-0/trial-0"]
    assert (run.info.status, run.data.tags["reason"]) == (shown, "CUDA out of memory")
    if status == CANCELLED:
        experiment.repeat("bo-fm", 0, 0.4)
        experiment.log()
        run = experiment.read_store().runs["bo-fm/repeat-0/trial-0"]
        assert (run.info.status, run.data.tags["status"], run.data.tags["reason"]) == ("FINISHED", "finished", "")
        assert run.data.metrics["objective"] == 0.4


def test_two_run_directories_of_one_name_do_not_mix(experiment: Any) -> None:
    experiment.run_bo_fm(1)
    counts = []
    for identity in ("one", "two"):
        report = experiment.log(experiment_id=identity)
        assert (report.written, report.present) == (1, 0)
        client = mlflow.MlflowClient(tracking_uri=experiment.settings.uri)
        actual = client.search_runs([report.store_experiment], f"tags.`fmnas.experiment_id` = '{identity}'")
        counts.append(len(actual))
    assert counts == [4, 4]


def test_a_curve_longer_than_a_batch_is_complete(experiment: Any) -> None:
    experiment.finish("bo-fm", 0, 0.4, epochs=2500)
    assert experiment.log().missed == 0
    curve = experiment.read_store().line("bo-fm/repeat-0/trial-0", "val_error")
    assert [step for step, _ in curve] == list(range(1, 2501))


def test_a_deleted_experiment_is_reported_and_not_restored(experiment: Any) -> None:
    experiment.log()
    store = experiment.read_store()
    store.client.delete_experiment(store.experiment.experiment_id)
    experiment.run_bo_fm()
    report = experiment.log()
    assert (report.written, report.missed) == (0, 3)
    assert "deleted" in report.reason


def test_a_server_that_is_down_is_given_up_soon(experiment: Any) -> None:
    experiment.run_bo_fm()
    began = time.monotonic()
    report = experiment.log(uri="http://127.0.0.1:9", is_own=False)
    assert time.monotonic() - began < 15
    assert (report.written, report.missed) == (0, 3)
    assert "127.0.0.1" in report.reason
