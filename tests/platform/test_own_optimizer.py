"""An optimizer of a user, named in a configuration: it competes like any other, and its errors lose no result."""

import csv
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmnas.api import load_run
from fmnas.platform.cli import main
from fmnas.search_spaces import Trial
from fmnas.trainers.functions.synthetic import FUNC2C

pytestmark = pytest.mark.slow


def test_an_experiment_of_own_optimizers_runs_resumes_replays_and_reports(
    run_own: Callable[..., int],
    mine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {"name": "mutation", "use": "mine.py:Mutation", "rate": 0.9}
    entries = (
        {"name": "nsga", "use": "optuna:NSGAIISampler", "population_size": 3},
        {"name": "own-sampler", "use": "mine.py:OwnSampler", "lucky": 0.3},
        {"name": "ask-tell", "use": "mine.py:AskTell", "rate": 0.8},
        {"name": "pair", "use": "mine.py:ask_tell_pair", "start": 4},
    )
    assert run_own(tmp_path, entry, {**entry, "label": "less", "rate": 0.1}, *entries) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["optimizers"]) == {"mutation", "less", "nsga", "own-sampler", "ask-tell", "pair"}
    assert summary["optimizers"]["mutation"]["values"] != summary["optimizers"]["less"]["values"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the configuration kept the file's whole path
    for command in ("resume", "report", "replay", "status"):
        assert main([command, str(tmp_path / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err


def test_one_that_changes_its_records_changes_no_result(
    run_own: Callable[..., int], mine: Path, tmp_path: Path
) -> None:
    entry = {"name": "changes-records", "use": f"{mine}:ChangesRecords", "concurrency": 2}
    assert run_own(tmp_path, entry, "random") == 0
    out = tmp_path / "run"
    journal = out / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-9]))
    assert main(["resume", str(out), "--progress", "quiet"]) == 0
    table, summary = (out / "trials.csv").read_bytes(), (out / "summary.json").read_bytes()
    assert main(["report", str(out)]) == 0
    assert (out / "trials.csv").read_bytes() == table
    assert (out / "summary.json").read_bytes() == summary
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    asked = {(r["run"], r["trial"]["id"]): r["trial"] for r in records if r["event"] == "asked"}
    assert all(set(trial["configuration"]) == set(FUNC2C.space.names) for trial in asked.values())
    with (out / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["optimizer"] == "changes-records"]
    finished = {(r["run"], r["trial_id"]): r["evaluation"] for r in records if r["event"] == "finished"}
    for row in rows:
        key = row["run"], int(row["trial"])
        assert float(row["x1"]) == asked[key]["configuration"]["x1"]
        assert float(row["objective"]) == finished[key]["objective"]
    best = min(rows, key=lambda row: float(row["objective"]))
    trial = Trial.from_dict(asked[best["run"], int(best["trial"])])
    assert float(best["objective"]) == FUNC2C.trainer.evaluate(trial).objective


def test_one_that_fails_to_restore_is_named_and_the_journal_stays_unchanged(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:RestoreFails"}) == 0
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert "mine/repeat-0: the optimizer failed to restore trial 0: ValueError" in message
    assert main(["report", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SuggestsOutside", "x1 = 7.0"),
        ("SuggestFails", "no idea (mine.py, line "),
        ("SuggestExits", "SystemExit (mine.py, line "),
    ],
)
def test_a_wrong_suggestion_ends_the_experiment_in_one_line_and_loses_nothing(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:{name}"}, "random") == 1
    message = capsys.readouterr().err
    assert "the optimizer failed" in message
    assert words in message
    assert "Traceback" not in message
    finished = (tmp_path / "run" / "journal.jsonl").read_text().count('"event":"finished"')
    assert finished >= 3


def test_resume_and_replay_after_a_tell_failed_end_in_one_line(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:TellCancels"}, "random") == 1
    for command in ("resume", "replay"):
        assert "the optimizer failed" in capsys.readouterr().err
        assert main([command, str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert "CancelledError: in tell (mine.py, line " in message
    assert message.count("\n") == 1


def test_one_that_is_not_reproducible_cannot_be_resumed_and_keeps_its_trials(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:NotReproducible"}) == 0
    journal = (tmp_path / "run" / "journal.jsonl").read_text()
    assert main(["resume", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert message.startswith("fmnas: mine/repeat-0, trial 3: ")
    assert "fmnas check" in message
    assert message.count("\n") == 1
    assert (tmp_path / "run" / "journal.jsonl").read_text() == journal
    assert main(["report", str(tmp_path / "run")]) == 0
    assert main(["replay", str(tmp_path / "run")]) == 1
    assert "different = 1" in capsys.readouterr().out


def test_one_that_hangs_is_named_and_stopped_by_ctrl_c(
    own_config: Callable[..., dict[str, Any]], mine: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(own_config("random", {"name": "mine", "use": f"{mine}:AskHangs"})))
    fmnas = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
    command = [*fmnas, "run", str(path), "--out", str(tmp_path / "run")]
    journal = tmp_path / "run" / "journal.jsonl"
    with subprocess.Popen([*command, "--progress", "lines"], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        # It has asked for what comes after the initial design.
        assert any(line.startswith("random/repeat-1  trial 2 ") for line in driver.stdout)
        time.sleep(1)
        driver.send_signal(signal.SIGINT)
        assert any("waiting for mine/repeat-" in line for line in driver.stdout)
        driver.send_signal(signal.SIGINT)
        driver.stdout.read()
    assert driver.returncode == 130
    assert journal.read_text().count('"event":"finished"') >= 9


def test_a_directory_can_be_read_whatever_options_are_called(
    tmp_path: Path, mine: Path, run_own: Callable[..., int]
) -> None:
    entry = {"name": "mine", "use": f"{mine}:any_options", "max-depth": 3, "lambda": 2}
    assert run_own(tmp_path, entry, "random") == 0
    assert set(load_run(tmp_path / "run").summary.optimizers) == {"mine", "random"}
