"""How trials end badly, and a journal too: each kind is named, in every output."""

import csv
import errno
import json
import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmnas.baselines import RandomSearch
from fmnas.optimizers import Suggestion
from fmnas.platform.cli import main
from fmnas.platform.workers.pool import FailedEvaluation
from fmnas.platform.workers.ray_worker import Worker
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED
from fmnas.trainers.functions.synthetic import FunctionTrainer

pytestmark = pytest.mark.slow

LITTLE = ["-o", "workers.kind=in-process", "-o", "optimizers=[random, regularized-evolution]"]
CALM = [*LITTLE, "-o", "tracking.enabled=false"]


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def results(out: Path) -> set[tuple[str, ...]]:
    return {(r["run"], r["trial"], r["x1"], r["h1"], r["objective"]) for r in rows(out)}


@pytest.mark.usefixtures("quick_stores")
def test_a_failure_and_a_timeout_differ_in_every_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    out, evaluate = tmp_path / "run", FunctionTrainer.evaluate

    def evaluate_badly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        if trial.id == 2:
            time.sleep(60)
        if trial.id == 4:
            raise MemoryError("no space for 1 GiB")
        return evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_badly)
    assert main(["run", "smoke", *LITTLE, "-o", "budget.trial_seconds=0.3", "--out", str(out)]) == 0
    late, failed = "timed out after 0.3 s (budget.trial_seconds)", "MemoryError: no space for 1 GiB"
    expected = {"2": ("timed_out", late), "4": ("failed", failed)}
    for row in rows(out):
        assert (row["status"], row["reason"]) == expected.get(row["trial"], ("finished", ""))
    incidents = {
        (i["what"], i["text"], i["trials"]) for i in json.loads((out / "summary.json").read_text())["incidents"]
    }
    assert {("timed_out", late, 1), ("failed", failed, 1)} <= incidents
    page = (out / "report" / "index.html").read_text()
    assert "timed out" in page
    assert late in page
    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("smoke").experiment_id])
    in_mlflow = {
        run.data.tags["fmnas.trial"]: (run.data.tags["status"], run.data.tags["reason"], run.info.status)
        for run in runs
        if run.data.tags.get("reason")
    }
    assert in_mlflow == {trial: (*ending, "FAILED") for trial, ending in expected.items()}
    assert main(["replay", str(out)]) == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(["run", "smoke", *CALM, "--out", str(out)]) == 0
    return out


def copy_with_journal(whole: Path, tmp_path: Path, journal: bytes) -> Path:
    """The same directory with another journal, and without what can be rebuilt."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    (out / "journal.jsonl").write_bytes(journal)
    return out


@pytest.mark.parametrize(("lines", "end"), [(1, b""), (9, b'{"n":'), (20, b"\x00" * 50)])
def test_a_journal_with_a_torn_end_is_resumed(whole: Path, tmp_path: Path, lines: int, end: bytes) -> None:
    kept = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)[:lines]
    out = copy_with_journal(whole, tmp_path, b"".join(kept) + end)
    assert main(["resume", str(out)]) == 0
    assert results(out) == results(whole)
    assert main(["replay", str(out)]) == 0


def test_a_line_missing_inside_is_named_and_the_advice_works(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)
    out = copy_with_journal(whole, tmp_path, b"".join(lines[:10] + lines[11:]))
    before = (out / "journal.jsonl").read_bytes()
    assert main(["resume", str(out)]) == 2
    message = capsys.readouterr().err
    assert f"{out / 'journal.jsonl'}, line 11: " in message
    assert "first 10 lines" in message
    assert "Traceback" not in message
    assert (out / "journal.jsonl").read_bytes() == before
    (out / "journal.jsonl").write_bytes(b"".join(before.splitlines(keepends=True)[:10]))
    assert main(["resume", str(out)]) == 0
    assert results(out) == results(whole)


@pytest.mark.parametrize("value", [float("nan"), "0.5"])
def test_an_invalid_result_is_a_failure_and_the_experiment_continues(
    value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, evaluate = tmp_path / "run", FunctionTrainer.evaluate

    def evaluate_badly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        return Evaluation(value, epochs=trial.epochs) if trial.id == 3 else evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_badly)
    assert main(["run", "smoke", *CALM, "--out", str(out)]) == 0
    for row in rows(out):
        assert row["status"] == ("failed" if row["trial"] == "3" else "finished")
    reasons = {row["reason"] for row in rows(out)} - {""}
    assert reasons == {f"it returned objective = {value!r}, expected a finite number"}


@pytest.mark.parametrize(
    "wrong", [None, Evaluation(0.5, errors=(0.1, float("nan"))), Evaluation(0.5, conditions={"device": "cpu"})]
)
def test_a_worker_lets_no_result_pass_that_is_none(wrong: Any) -> None:
    class Odd:
        def evaluate(self, trial: Trial) -> Any:
            return wrong

    worker = Worker(lambda data: Odd(), None, None)  # type: ignore[arg-type,return-value]
    answer = worker.evaluate(Trial(0, {}, 1, "random"), math.inf, ("r", 0))
    assert isinstance(answer, FailedEvaluation)
    assert answer.status == FAILED
    assert answer.reason.startswith("it returned")


def test_an_optimizer_that_fails_at_a_result_ends_the_experiment_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"

    def deaf(self: RandomSearch, trial: Trial, evaluation: Evaluation) -> None:
        if trial.id == 3:
            raise ValueError("singular matrix")

    with monkeypatch.context() as patch:
        patch.setattr(RandomSearch, "_observe", deaf)
        for arguments in (["run", "smoke", *CALM, "--out", str(out)], ["resume", str(out)]):
            assert main(arguments) == 1
            said = capsys.readouterr().err
            assert (
                "random/repeat-0: the optimizer failed to take the result of trial 3: ValueError: singular matrix"
                in said
            )
            assert "Traceback" not in said
            assert "cut" not in said
        for command in ("report", "status"):
            assert main([command, str(out)]) == 0
        assert ("random/repeat-0", "3") in {(row["run"], row["trial"]) for row in rows(out)}
    assert main(["resume", str(out)]) == 0
    assert {row["status"] for row in rows(out)} == {"finished"}
    assert len(rows(out)) == 16


def test_a_reason_that_no_file_takes_is_spelt_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python puts lone surrogates into messages about file names that it cannot decode."""
    out, evaluate = tmp_path / "run", FunctionTrainer.evaluate

    def evaluate_badly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        if trial.id == 3:
            raise RuntimeError("No such file: '/data/\udcff.pt' \x1b[31mred\x1b[0m\x00\x07\u202e end")
        return evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_badly)
    assert main(["run", "smoke", *CALM, "--out", str(out)]) == 0
    (reason,) = {row["reason"] for row in rows(out)} - {""}
    assert reason == r"RuntimeError: No such file: '/data/\udcff.pt' red end"


def test_a_disk_that_is_full_at_the_end_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, replace = tmp_path / "run", os.replace

    def full(source: Path, target: Path) -> None:
        if target.name == "trials.csv":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert main(["run", "smoke", *CALM, "--out", str(out)]) == 1
    message = capsys.readouterr().err
    assert "trials.csv cannot be written (No space left on device)" in message
    assert "Traceback" not in message
    assert main(["resume", str(out)]) == 0
    assert len(rows(out)) == 16


def test_a_note_that_no_file_takes_is_spelt_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, suggest = tmp_path / "run", RandomSearch._suggest

    def suggest_noted(self: RandomSearch, rng: Any) -> Suggestion:
        return replace(suggest(self, rng), note="a\udcff\u202eb")

    monkeypatch.setattr(RandomSearch, "_suggest", suggest_noted)
    assert main(["run", "smoke", *CALM, "-o", "optimizers=[random]", "--out", str(out)]) == 0
    assert main(["report", str(out)]) == 0
    assert {row["note"] for row in rows(out)} - {""} == {r"a\udcff b"}
