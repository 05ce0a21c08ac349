"""The command line: exit codes, messages, the files of a run, and nothing written that should not be."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow
import pytest
import yaml
from support import journal_dicts

from fmnas.platform.cli import main
from fmnas.platform.experiment.run_directory import RunDirectory

pytestmark = pytest.mark.slow

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
LITTLE = [*FAST, "-o", "optimizers=[random]", "-o", "budget.evaluations=6"]
MEASURED = {
    "system/cpu_utilization_percentage",
    "system/process_cpu_utilization_percentage",
    "system/system_memory_usage_megabytes",
    "system/process_memory_usage_megabytes",
}
Capture = pytest.CaptureFixture[str]


def flags(*overrides: str) -> list[str]:
    return [flag for override in overrides for flag in ("-o", override)]


def run_refused(arguments: list[str], capsys: Capture) -> str:
    """The message of a command that must end with exit code 2."""
    assert main(arguments) == 2
    message = capsys.readouterr().err
    assert "Traceback" not in message
    return message


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def contents(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment; tests must not change it."""
    out = tmp_path_factory.mktemp("small") / "run"
    assert main(["run", "smoke", *LITTLE, "--progress", "quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture
def copied(small: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(small, tmp_path / "run"))


@pytest.mark.usefixtures("all_figures")
def test_a_run_writes_every_file_and_repeats_itself(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    assert main(["run", "smoke", *FAST, "--out", str(one)]) == 0
    output = capsys.readouterr().out
    assert all(word in output for word in ("bo-fm", str(one / "report" / "index.html")))
    files = {"config.yaml", "journal.jsonl", "environment.json", "trials.csv", "summary.json", "report"}
    assert files <= {path.name for path in one.iterdir()} <= {*files, "driver.lock"}
    table = rows(one)
    assert {row["optimizer"] for row in table} == {"bo-fm", "regularized-evolution", "bohb", "random"}
    needed = (
        "run optimizer repeat trial origin epochs objective error flops flops_ratio diverged status suggest_seconds "
        "train_seconds started_at finished_at worker attempt x1 x2 h1 h2"
    )
    assert set(needed.split()) <= set(table[0])
    for name, row in json.loads((one / "summary.json").read_text())["optimizers"].items():
        best = min(float(r["objective"]) for r in table if r["optimizer"] == name and r["epochs"] == "3")
        assert row["mean"] == pytest.approx(best)
    monkeypatch.setattr("fmnas.comparison.figures.FIGURES", ())
    assert main(["run", "smoke", *FAST, "--out", str(two)]) == 0
    times = {"suggest_seconds", "train_seconds", "started_at", "finished_at"}
    first, second = ([{k: v for k, v in r.items() if k not in times} for r in rows(out)] for out in (one, two))
    assert first == second


def test_existing_folders_and_files_are_not_changed(small: Path, tmp_path: Path, capsys: Capture) -> None:
    before = contents(small)
    assert f"fmnas resume {small}" in run_refused(["run", "smoke", *FAST, "--out", str(small)], capsys)
    assert contents(small) == before
    (tmp_path / "thesis").mkdir()
    file = tmp_path / "thesis" / "thesis.tex"
    file.write_text("years")
    for out in (file.parent, file, file / "run"):
        message = run_refused(["run", "smoke", *FAST, "--out", str(out)], capsys)
        assert str(out) in message
        assert "--out" in message
    assert contents(tmp_path) == {file: b"years"}


def test_a_changed_configuration_is_not_resumed(copied: Path, capsys: Capture) -> None:
    path, journal = copied / "config.yaml", (copied / "journal.jsonl").read_bytes()
    data = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**data, "seed": 5, "workers": {"kind": "in-process", "attempts": 9}}))
    message = run_refused(["resume", str(copied)], capsys)
    assert "seed = 5" in message
    assert "attempts" not in message
    assert (copied / "journal.jsonl").read_bytes() == journal


def test_an_invalid_origin_ends_the_experiment(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.baselines.random_search.RANDOM", "mine")
    assert main(["run", "smoke", *LITTLE, "--out", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert all(word in message for word in ("random/repeat-0", "trial 4", "origin = 'mine'"))
    assert "Traceback" not in message


def test_a_finished_experiment_is_shown_again(copied: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = (copied / "trials.csv").read_bytes()
    monkeypatch.setattr("fmnas.platform.workers.factory.open_pool", None)  # neither workers nor data are needed
    assert main(["resume", str(copied)]) == 0
    assert str(copied / "report" / "index.html") in capsys.readouterr().out
    assert (copied / "trials.csv").read_bytes() == trials


def test_failed_trials_end_with_exit_code_1(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr("fmnas.trainers.functions.synthetic.FunctionTrainer.evaluate", broken)
    assert main(["run", "smoke", *FAST, "--address", "a host:6379", "--out", str(tmp_path / "run")]) == 1
    output = capsys.readouterr()
    assert "RuntimeError: no such device" in output.err
    assert f"fmnas resume {tmp_path / 'run'} --address 'a host:6379'" in output.out
    assert "ignored: --address a host:6379" in output.out, "it needs no cluster"


def test_an_experiment_that_another_process_begins_meanwhile_is_left_alone(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def lock_late(directory: RunDirectory, work: str) -> Iterator[None]:
        directory.journal.write_text("of the other process")
        yield

    monkeypatch.setattr("fmnas.platform.runner.run.driver_lock", lock_late)
    message = run_refused(["run", "smoke", *LITTLE, "--out", str(tmp_path / "run")], capsys)
    assert f"fmnas resume {tmp_path / 'run'}" in message
    assert contents(tmp_path / "run") == {tmp_path / "run" / "journal.jsonl": b"of the other process"}


@pytest.mark.usefixtures("all_figures", "quick_stores")
def test_real_data_real_ray_real_mlflow(tmp_path: Path, capsys: Capture) -> None:
    """The quickstart with less data: FashionMNIST, two workers that measure, SQLite; then its MLflow tree."""
    out = tmp_path / "run"
    little = ["data.train=64", "data.validation=64", "seeds=2", "budget.evaluations=6", "fidelity.epochs=2"]
    little += ["workers.system_metrics=true"]
    assert main(["run", "quickstart", *flags(*little), "--out", str(out)]) == 0, capsys.readouterr()
    table = rows(out)
    for name in ("bo-fm", "regularized-evolution", "random"):
        epochs = sum(int(row["epochs"]) for row in table if row["optimizer"] == name)
        assert 12 - 2 < epochs <= 12
    for row in table:
        errors = [float(row["error_seed_1"]), float(row["error_seed_2"])]
        assert float(row["error"]) == pytest.approx(sum(errors) / 2)
        assert float(row["objective"]) == pytest.approx(float(row["error"]) + 0.02 * float(row["flops_ratio"]))
    (cell,) = (out / "report").glob("best_cell_bo-fm.png")
    assert cell.stat().st_size > 10_000
    client = mlflow.MlflowClient(tracking_uri=f"sqlite:///{out / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("quickstart").experiment_id])
    trials = [run for run in runs if "fmnas.trial" in run.data.tags]
    assert len(trials) == len(table)
    assert (out / "journal.jsonl").read_text().count('"process_memory_usage_megabytes"') == len(table)
    for trial in trials:
        assert {name for name in trial.data.metrics if name.startswith("system/")} == MEASURED


def test_ctrl_c_stops_cleanly_and_resume_continues(tmp_path: Path) -> None:
    """SIGINT to the whole group, as a terminal sends it; then no trial is finished twice."""
    out = tmp_path / "run"
    problem = f"problem={Path(__file__).with_name('sleeping.py')}:sleeps"
    little = [problem, "optimizers=[random, bohb]", "budget.evaluations=6", "workers.count=2", "tracking.enabled=false"]
    command = [*FMNAS, "run", "smoke", *flags(*little), "--out", str(out)]
    driver = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    assert driver.stdout is not None
    for line in driver.stdout:
        if "trial 2" in line:
            break
    os.killpg(driver.pid, signal.SIGINT)
    output, _ = driver.communicate(timeout=120)
    assert driver.returncode == 130, output
    assert f"fmnas resume {out}" in output
    assert "Traceback" not in output
    finished = sum(row["status"] == "finished" for row in rows(out))
    assert finished > 0
    assert main(["resume", str(out)]) == 0
    events = journal_dicts(out / "journal.jsonl")
    ended = [(e["run"], e["trial_id"]) for e in events if e["event"] == "finished"]
    assert len(ended) == len(set(ended)) > finished
    deadline = time.monotonic() + 20
    while subprocess.run(["pgrep", "-s", str(driver.pid)], capture_output=True).stdout and time.monotonic() < deadline:
        time.sleep(0.5)
    assert not subprocess.run(["pgrep", "-s", str(driver.pid)], capture_output=True).stdout


def test_a_report_that_cannot_be_written_names_the_command_to_resume(copied: Path, capsys: Capture) -> None:
    shutil.rmtree(copied / "report")
    (copied / "report").write_text("in its place")
    assert main(["resume", str(copied), "--progress", "json"]) == 1
    output = capsys.readouterr()
    end = json.loads(output.out.splitlines()[-1])
    assert (end["event"], end["status"], end["exit_code"]) == ("end", "failed", 1)
    assert end["resume_command"].endswith(f"resume {copied}")
    assert "report" in output.err


def test_the_ui_needs_a_directory_with_tracking(copied: Path, capsys: Capture) -> None:
    (copied / "config.yaml").unlink()
    assert "tracking.enabled" in run_refused(["ui", str(copied)], capsys)


@pytest.mark.parametrize("command", ["status", "report"])
def test_without_a_directory_it_is_the_latest_one(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "runs" in run_refused([command], capsys)
    (tmp_path / "runs" / "older").mkdir(parents=True)
    (tmp_path / "runs" / "older" / "journal.jsonl").touch()
    os.utime(tmp_path / "runs" / "older" / "journal.jsonl", (1e9, 1e9))
    copied.rename(tmp_path / "runs" / "newer")
    assert main([command]) == 0
    output = capsys.readouterr().out
    assert "newer" in output
    assert "older" not in output


def test_an_export_to_a_file_is_told_of_the_url(small: Path, capsys: Capture) -> None:
    assert "sqlite:///" in run_refused(["export", str(small), "--optuna", "studies.db"], capsys)


def test_only_what_a_stopped_run_left_may_be_deleted(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "notes.md").write_text("mine")
    run = ["run", "smoke", *LITTLE, "--out", str(tmp_path)]
    assert "delete" not in run_refused(run, capsys)
    (tmp_path / "config.yaml").write_text("")
    assert "delete it if" in run_refused(run, capsys)


def test_ctrl_c_during_the_first_imports_ends_without_a_traceback() -> None:
    code = """
import sys

class Interrupt:
    @staticmethod
    def find_spec(name, *_):
        if name == "fmnas.platform.commands":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt)
import fmnas.platform.cli
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize("tracked", ["true", "false"])
def test_after_ctrl_c_during_the_report_the_report_command_writes_it(
    tracked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr("fmnas.platform.report.write.write_report", lambda *_: signal.raise_signal(signal.SIGINT))
        assert main(["run", "smoke", *LITTLE, *flags(f"tracking.enabled={tracked}"), "--out", "run"]) == 130
    output = capsys.readouterr().out
    named = {command: f"fmnas {command} run" in output for command in ("report", "sync", "resume")}
    assert named == {"report": True, "sync": tracked == "true", "resume": True}
    assert "logging" not in output, "Ctrl-C ends the command"
    assert not (out / "summary.json").exists()
    assert main(["report", "run"]) == 0
    assert (out / "summary.json").exists()
    assert str(out / "report" / "index.html") in capsys.readouterr().out, "the absolute path"


def test_user_code_that_calls_sys_exit_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setattr("fmnas.platform.config.source.shipped_configs", lambda: sys.exit(0))
    assert main(["list", "configs"]) == 1
    assert "sys.exit(0)" in capsys.readouterr().err
