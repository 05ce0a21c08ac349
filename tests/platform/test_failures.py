"""How trials end badly, and a journal too: each kind is told apart, and told of, in every place that people read."""

import csv
import errno
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.function_trainer import FunctionTrainer

LITTLE = ["-o", "workers.kind=in-process", "-o", "optimizers=[random, regularized-evolution]"]
CALM = [*LITTLE, "-o", "tracking.enabled=false"]


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def results(out: Path) -> set[tuple[str, ...]]:
    return {(r["run"], r["trial"], r["x1"], r["h1"], r["objective"]) for r in rows(out)}


def test_a_failure_and_a_timeout_are_told_apart_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient

    out, evaluate = tmp_path / "run", FunctionTrainer.evaluate

    def evaluate_badly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        if trial.id == 2:
            time.sleep(60)
        if trial.id == 4:
            raise MemoryError("no room for 1 GiB")
        return evaluate(self, trial)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_badly)
    assert main(["run", "smoke", *LITTLE, "-o", "budget.trial_seconds=0.3", "--out", str(out)]) == 0
    late, failed = "it ran past budget.trial_seconds = 0.3 and was ended", "MemoryError: no room for 1 GiB"
    expected = {"2": ("timed_out", late), "4": ("failed", failed)}
    for row in rows(out):
        assert (row["status"], row["reason"]) == expected.get(row["trial"], ("finished", ""))
    told = {(i["what"], i["text"], i["trials"]) for i in json.loads((out / "summary.json").read_text())["incidents"]}
    assert {("timed_out", late, 1), ("failed", failed, 1)} <= told
    page = (out / "report" / "index.html").read_text()
    assert "timed out" in page
    assert late in page
    client = MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("smoke").experiment_id])
    in_mlflow = {
        run.data.tags["fmnas.trial"]: (run.data.tags["status"], run.data.tags["reason"], run.info.status)
        for run in found
        if "reason" in run.data.tags
    }
    assert in_mlflow == {trial: (*ending, "FAILED") for trial, ending in expected.items()}
    assert main(["replay", str(out)]) == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory that nothing disturbed."""
    out = tmp_path_factory.mktemp("whole") / "run"
    assert main(["run", "smoke", *CALM, "--out", str(out)]) == 0
    return out


def damaged(whole: Path, tmp_path: Path, journal: bytes) -> Path:
    """The same directory with another journal, and without what can be rebuilt."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    (out / "journal.jsonl").write_bytes(journal)
    return out


@pytest.mark.parametrize("lines", [1, 9, 20])
@pytest.mark.parametrize("end", [b"", b'{"n":', b"\x00" * 50], ids=["nothing", "half", "zeros"])
def test_a_journal_with_a_torn_end_is_resumed(whole: Path, tmp_path: Path, lines: int, end: bytes) -> None:
    kept = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)[:lines]
    out = damaged(whole, tmp_path, b"".join(kept) + end)
    assert main(["resume", str(out)]) == 0
    assert results(out) == results(whole)
    assert main(["replay", str(out)]) == 0


@pytest.mark.parametrize("command", ["resume", "report", "replay"])
def test_a_line_missing_inside_is_named_and_the_advice_works(
    command: str, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)
    out = damaged(whole, tmp_path, b"".join(lines[:10] + lines[11:]))
    before = (out / "journal.jsonl").read_bytes()
    assert main([command, str(out)]) == 2
    message = capsys.readouterr().err
    assert "line 11 is not record 11" in message
    assert "cut the file to its first 10 lines" in message
    assert "Traceback" not in message
    assert (out / "journal.jsonl").read_bytes() == before
    (out / "journal.jsonl").write_bytes(b"".join(before.splitlines(keepends=True)[:10]))
    assert main(["resume", str(out)]) == 0
    assert results(out) == results(whole)


@pytest.mark.parametrize("first", [{}, {"event": "experiment"}, {"event": "asked", "n": 1}])
def test_a_journal_that_begins_with_something_else_is_named(
    first: dict[str, Any], whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = damaged(whole, tmp_path, (json.dumps(first) + "\n").encode())
    assert main(["resume", str(out)]) == 2
    assert "does not begin with an experiment" in capsys.readouterr().err


def test_a_directory_cut_off_before_its_journal_is_named(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = damaged(whole, tmp_path, b"")
    (out / "journal.jsonl").unlink()
    (out / "environment.json").write_text("{}")
    assert main(["run", "smoke", *CALM, "--out", str(out)]) == 2
    assert "cut off before anything ran: remove it" in capsys.readouterr().err


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
