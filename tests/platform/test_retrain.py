"""`fmnas retrain` as a user meets it: what is trained, what is not trained twice, what is refused."""

import csv
import json
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest

from fmnas.comparison import Summary
from fmnas.platform.cli import main
from fmnas.platform.errors import ClusterError, Ending
from fmnas.platform.experiment.events import Ended
from fmnas.platform.experiment.journal import Journal
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.report.merge import write_report_of
from fmnas.platform.report.write import write_retrained
from fmnas.platform.workers.factory import PoolSpec
from fmnas.trainers.images.data import digits_set, final_split
from fmnas.trainers.images.image_files import load_user_images
from fmnas.trainers.images.image_trainer import FinalTrainer
from fmnas.trainers.images.model import load

pytestmark = pytest.mark.slow

TINY = ["data.train=40", "data.validation=24", "seeds=1", "fidelity.epochs=1", "budget.evaluations=3"]
TINY += ["initial_design=1", "optimizers=[random]", "repeats=2", "workers.kind=in-process", "tracking.enabled=false"]


def tiny_run(out: Path, *more: str) -> Path:
    flags = [flag for override in (*TINY, *more) for flag in ("-o", override)]
    assert main(["run", "quickstart", *flags, "--progress", "quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of digits: 64 to search with, and 200 to test on."""
    digits, path = digits_set(), tmp_path_factory.mktemp("images") / "digits.npz"
    arrays = {"images": digits.images[:64], "labels": digits.labels[:64]}
    np.savez(path, **arrays, test_images=digits.images[64:264], test_labels=digits.labels[64:264])
    return path


@pytest.fixture(scope="module")
def searched(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment on these images."""
    limits = ["budget.trial_seconds=600", "checkpoints.every=2"]
    return tiny_run(tmp_path_factory.mktemp("searched") / "run", "data.name=own", f"data.root={images}", *limits)


@pytest.fixture(scope="module")
def summary(searched: Path) -> Summary:
    """Its summary."""
    return write_report_of([searched], None, print)[0]


@pytest.fixture
def out(searched: Path, summary: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, whose report, which takes seconds, is not written again."""

    def write(directory: RunDirectory, state: ExperimentState, *_: object) -> Summary:
        write_retrained(directory, state.ledger)
        return summary

    monkeypatch.setattr("fmnas.platform.observers.write_results", write)
    return Path(copytree(searched, tmp_path / "run"))


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "retrained.csv").open() as file:
        return list(csv.DictReader(file))


def best_of(out: Path) -> dict[str, dict[str, str]]:
    """Run -> the row of its best trial."""
    best_rows: dict[str, dict[str, str]] = {}
    with (out / "trials.csv").open() as file:
        for row in csv.DictReader(file):
            if row["run"] not in best_rows or float(row["objective"]) < float(best_rows[row["run"]]["objective"]):
                best_rows[row["run"]] = row
    return best_rows


def interrupt_training(monkeypatch: pytest.MonkeyPatch, number: int, interrupt: Callable[[], None]) -> list[int]:
    """Call `interrupt` before the training of that number, counted from 1; return a list with an entry for each."""
    trained: list[int] = []
    evaluate = FinalTrainer.evaluate

    def count(self: FinalTrainer, trial: object) -> object:
        trained.append(1)
        if len(trained) == number:
            interrupt()
        return evaluate(self, trial)  # type: ignore[arg-type]

    monkeypatch.setattr(FinalTrainer, "evaluate", count)
    return trained


def test_real_data(tmp_path: Path) -> None:
    """FashionMNIST's test images."""
    out = tiny_run(tmp_path / "run", "repeats=1")
    page = (out / "report" / "index.html").stat().st_mtime_ns
    assert main(["retrain", str(out)]) == 0
    (row,) = rows(out)
    chosen = best_of(out)["random/repeat-0"]
    assert (row["run"], row["trial"]) == ("random/repeat-0", chosen["trial"])
    assert (row["selected_objective"], row["selected_error"]) == (chosen["objective"], chosen["error"])
    assert (row["epochs"], row["images"], row["test_images"]) == ("1", "64", "10000")
    assert float(row["test_error"]) == float(row["test_error_seed_1"])
    assert float(row["test_error"]) * 10_000 == pytest.approx(round(float(row["test_error"]) * 10_000))
    assert (out / "report" / "index.html").stat().st_mtime_ns > page
    assert not (out / "driver.json").exists()


def test_without_a_current_retraining_no_outdated_row_is_left(tmp_path: Path) -> None:
    (tmp_path / "retrained.csv").write_text("run,trial\nrandom/repeat-0,1\n")
    for _ in range(2):
        write_retrained(RunDirectory(tmp_path), Ledger())
        assert not (tmp_path / "retrained.csv").exists()


def test_an_interrupted_retraining_resumes_and_nothing_is_trained_twice(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def press_ctrl_c_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        time.sleep(60)  # the second signal ends it

    trained = interrupt_training(monkeypatch, 2, press_ctrl_c_twice)
    assert main(["retrain", str(out), "--seeds", "2"]) == 130
    assert f"fmnas retrain {out} --seeds 2" in capsys.readouterr().out
    assert [row["run"] for row in rows(out)] == ["random/repeat-0"]
    first = rows(out)[0]
    assert main(["retrain", str(out), "--seeds", "2"]) == 0
    assert len(trained) == 3
    assert rows(out)[0] == first
    assert [row["run"] for row in rows(out)] == ["random/repeat-0", "random/repeat-1"]
    assert (out / "retrained.csv").read_text().splitlines()[0].count("test_error_seed_") == 2
    before = (out / "retrained.csv").read_bytes()
    assert main(["retrain", str(out), "--seeds", "2"]) == 0
    assert len(trained) == 3
    assert (out / "retrained.csv").read_bytes() == before


@pytest.mark.parametrize("ending", [Ending.INTERRUPTED, Ending.FAILED])
def test_a_retraining_without_work_is_done_whatever_the_experiment_is(
    out: Path, ending: Ending, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retrain", str(out)]) == 0
    with Journal(out / "journal.jsonl") as journal:
        journal.append(Ended(ending, 1e9, "why"))
    (out / "checkpoints").mkdir()
    (out / "checkpoints" / "of-a-trial.pt").touch()
    capsys.readouterr()
    assert main(["retrain", str(out)]) == 0
    assert (out / "checkpoints" / "of-a-trial.pt").exists(), "a resume of the experiment needs it"
    printed = capsys.readouterr()
    assert "resume with" not in printed.out
    assert printed.err == ""


def test_the_latest_settings_count_also_if_all_was_trained_with_them_before(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = interrupt_training(monkeypatch, 0, lambda: None)
    counts = []
    for epochs in ("1", "2", "1"):
        assert main(["retrain", str(out), "--epochs", epochs]) == 0
        assert {row["epochs"] for row in rows(out)} == {epochs}
        counts.append(len(trained))
    assert counts == [2, 4, 4]


def test_networks_are_saved_and_trained_again_only_if_they_are_not(
    out: Path, images: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after an interruption; the errors are the same whether networks are saved or not."""

    def press_ctrl_c() -> None:
        raise KeyboardInterrupt

    trained = interrupt_training(monkeypatch, 4, press_ctrl_c)
    assert main(["retrain", str(out)]) == 0
    assert not (out / "models").exists()
    before = [row["test_error"] for row in rows(out)]
    assert main(["retrain", str(out), "--save"]) == 130
    assert f"fmnas retrain {out} --save" in capsys.readouterr().out
    first, second = (out / "models" / "random" / f"repeat-{repeat}" for repeat in (0, 1))
    assert first.exists()
    assert not second.exists()
    assert main(["retrain", str(out), "--save"]) == 0
    assert len(trained) == 5
    assert main(["retrain", str(out), "--save"]) == 0
    assert len(trained) == 5
    assert [row["test_error"] for row in rows(out)] == before
    for folder, row in zip((first, second), rows(out), strict=True):
        facts = json.loads((folder / "model.json").read_text())
        assert facts["test_errors"] == [float(row["test_error_seed_1"])]
        assert {path.name for path in folder.iterdir()} == {"model.py", "model.json", "seed-1.safetensors"}
        split = final_split(load_user_images("own", images), 40, 24, 64)
        classes = load(folder / "seed-1.safetensors").predict(split.held_out_inputs)
        assert (classes != split.held_out_labels).mean() == pytest.approx(facts["test_errors"][0], abs=1e-12)


def test_a_retraining_that_fails_is_exit_code_1_and_says_how_to_resume(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: object, trial: object) -> None:
        raise MemoryError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(FinalTrainer, "evaluate", broken)
        assert main(["retrain", str(out), "--progress", "json"]) == 1
    printed = capsys.readouterr()
    ending = json.loads(printed.out.splitlines()[-1])
    assert (ending["event"], ending["status"], ending["exit_code"]) == ("end", "failed", 1)
    assert ending["resume_command"].endswith(f"retrain {out}")
    assert "MemoryError: no space" in ending["reason"]
    assert "MemoryError: no space" in printed.err
    assert not (out / "retrained.csv").exists()


def test_a_retraining_has_neither_the_deadline_nor_the_checkpoints_of_a_trial(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs: list[PoolSpec] = []

    def record(spec: PoolSpec, *_: object) -> None:
        specs.append(spec)
        raise ClusterError("far enough")

    monkeypatch.setattr("fmnas.platform.runner.plan.open_pool", record)
    assert main(["retrain", str(out)]) == 2
    (spec,) = specs
    assert (spec.config.budget.trial_seconds, spec.config.checkpoints.every) == (600.0, 2)
    assert (spec.trial_seconds, spec.checkpoints) == (math.inf, None)


def test_more_images_than_there_are_is_refused(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retrain", str(out), "--images", "1700"]) == 2
    assert "images = 1700" in capsys.readouterr().err
    assert not (out / "retrained.csv").exists()


def test_a_problem_without_images_has_nothing_to_retrain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]
    assert main(["run", "smoke", *flags, "--out", str(tmp_path / "run")]) == 0
    assert main(["retrain", str(tmp_path / "run"), "--save"]) == 2
    message = capsys.readouterr().err
    assert "func2c" in message
    assert "Traceback" not in message


def test_an_experiment_without_results_has_nothing_to_retrain(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = out / "journal.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    assert main(["retrain", str(out)]) == 2
    assert f"fmnas resume {out}" in capsys.readouterr().err
