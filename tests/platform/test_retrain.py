"""`fmnas retrain` as a user meets it: what is trained, what is not trained twice, what is refused."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison import Summary
from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.retrained import RetrainedRow, Scale, retrained_rows, write_retrained
from fmnas.platform.report.merge import write_report_of
from fmnas.trainers.images.image_trainer import FinalTrainer

TINY = ["data.train=40", "data.validation=24", "seeds=1", "fidelity.epochs=1", "budget.evaluations=3"]
TINY += ["initial_design=1", "optimizers=[random]", "repeats=2", "workers.kind=in-process", "tracking.enabled=false"]


def tiny_run(out: Path, *more: str) -> Path:
    flags = [flag for override in (*TINY, *more) for flag in ("-o", override)]
    assert main(["run", "quickstart", *flags, "--progress", "quiet", "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment on digits."""
    return tiny_run(tmp_path_factory.mktemp("searched") / "run", "data.name=digits")


@pytest.fixture(scope="module")
def summary(searched: Path) -> Summary:
    """Its summary."""
    return write_report_of([searched], None, print)[0]


@pytest.fixture
def out(searched: Path, summary: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, whose report, which takes seconds, is not written again."""
    monkeypatch.setattr("fmnas.platform.mlflow.setup.write_results", lambda *_: summary)
    return Path(copytree(searched, tmp_path / "run"))


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "retrained.csv").open() as file:
        return list(csv.DictReader(file))


def best_of(out: Path) -> dict[str, dict[str, str]]:
    """Run -> the row of its best trial."""
    found: dict[str, dict[str, str]] = {}
    with (out / "trials.csv").open() as file:
        for row in csv.DictReader(file):
            if row["run"] not in found or float(row["objective"]) < float(found[row["run"]]["objective"]):
                found[row["run"]] = row
    return found


def test_real_data_real_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A search in this process, then FashionMNIST's test images on a Ray worker."""
    out = tiny_run(tmp_path / "run", "repeats=1")
    config = yaml.safe_load((out / "config.yaml").read_text())
    config["workers"] = {**config["workers"], "kind": "ray", "count": 1}
    (out / "config.yaml").write_text(yaml.safe_dump(config))
    page = (out / "report" / "index.html").stat().st_mtime_ns
    assert main(["retrain", str(out)]) == 0
    assert "1 of 1" in capsys.readouterr().out
    (row,) = rows(out)
    chosen = best_of(out)["random/repeat-0"]
    assert (row["run"], row["trial"]) == ("random/repeat-0", chosen["trial"])
    assert (row["selected_objective"], row["selected_error"]) == (chosen["objective"], chosen["error"])
    assert (row["epochs"], row["images"], row["test_images"]) == ("1", "64", "10000")
    assert float(row["test_error"]) == float(row["test_error_seed_1"])
    assert float(row["test_error"]) * 10_000 == pytest.approx(round(float(row["test_error"]) * 10_000))
    assert row["worker"].startswith("worker-0@")
    assert (out / "report" / "index.html").stat().st_mtime_ns > page
    assert not (out / "driver.lock").exists()


def test_what_is_interrupted_goes_on_and_nothing_is_trained_twice(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trained: list[int] = []
    evaluate = FinalTrainer.evaluate

    def count(self: FinalTrainer, trial: object) -> object:
        trained.append(1)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return evaluate(self, trial)  # type: ignore[arg-type]

    monkeypatch.setattr(FinalTrainer, "evaluate", count)
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
    capsys.readouterr()
    assert main(["retrain", str(out)]) == 2
    message = capsys.readouterr().err
    assert "epochs = 1, images = 64, seeds = 2" in message
    assert "--epochs 1 --images 64 --seeds 2, or move the file away" in message
    assert (out / "retrained.csv").read_bytes() == before


def test_a_better_configuration_takes_the_place_of_the_old(out: Path) -> None:
    assert main(["retrain", str(out)]) == 0
    whole = retrained_rows(out / "retrained.csv")
    old = replace(whole["random/repeat-1"], trial=99)
    write_retrained(out / "retrained.csv", [whole["random/repeat-0"], old])
    assert main(["retrain", str(out)]) == 0
    again = retrained_rows(out / "retrained.csv")
    assert again["random/repeat-0"] == whole["random/repeat-0"]
    assert again["random/repeat-1"].trial == whole["random/repeat-1"].trial
    assert again["random/repeat-1"].errors == whole["random/repeat-1"].errors, "the same seeds, the same trainings"


def test_a_retraining_that_fails_is_exit_code_1_and_can_be_gone_on_with(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: object, trial: object) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(FinalTrainer, "evaluate", broken)
        assert main(["retrain", str(out), "--progress", "json"]) == 1
    printed = capsys.readouterr()
    ending = json.loads(printed.out.splitlines()[-1])
    assert (ending["event"], ending["status"], ending["exit_code"]) == ("ending", "failed", 1)
    assert ending["again"].endswith(f"retrain {out}")
    assert "MemoryError: no room" in ending["reason"]
    assert "MemoryError: no room" in printed.err
    assert not (out / "retrained.csv").exists()
    assert main(["retrain", str(out)]) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epochs", "0"], "--epochs 0: it must be at least 1"),
        (["--images", "1700"], "images = 1700: it must be from 1 to 64"),
        (["--seeds", "-2"], "--seeds -2: it must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(
    options: list[str], words: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["retrain", str(out), *options]) == 2
    assert words in capsys.readouterr().err
    assert not (out / "retrained.csv").exists()


def test_a_problem_without_images_has_nothing_to_retrain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]
    assert main(["run", "smoke", *flags, "--out", str(tmp_path / "run")]) == 0
    assert main(["retrain", str(tmp_path / "run")]) == 2
    message = capsys.readouterr().err
    assert "problem func2c: there is nothing to retrain" in message
    assert "Traceback" not in message


def test_an_experiment_without_results_has_nothing_to_retrain(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = out / "journal.jsonl"
    journal.write_text(journal.read_text().splitlines(keepends=True)[0])
    assert main(["retrain", str(out)]) == 2
    assert f"fmnas resume {out}" in capsys.readouterr().err


ROW = RetrainedRow("a/repeat-0", "a", 0, 3, 0.1, 0.05, (0.2, 0.3), 5, 40, 15, 1.5, "then", "later", "w, 1")
ERRORS = st.lists(st.floats(0, 1), min_size=2, max_size=2).map(tuple)


@given(errors=ERRORS, objective=st.floats(allow_nan=False, allow_infinity=False))
def test_rows_come_back_as_they_were(
    errors: tuple[float, ...], objective: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "retrained.csv"
    given_ = [replace(ROW, errors=errors, selected_objective=objective), replace(ROW, run="b/repeat-1")]
    write_retrained(path, given_)
    assert list(retrained_rows(path).values()) == given_
    assert given_[0].scale == Scale(5, 40, 2)


HEADER = (
    "run,optimizer,repeat,trial,selected_objective,selected_error,test_error,test_error_seed_1,test_error_seed_2,"
    "epochs,images,test_images,train_seconds,started_at,finished_at,worker"
)


def test_the_header_is_the_documented_one(tmp_path: Path) -> None:
    write_retrained(tmp_path / "r.csv", [ROW])
    assert (tmp_path / "r.csv").read_text().splitlines()[0] == HEADER


@pytest.mark.parametrize(
    "text", ["run,optimizer\na,b\n", "\x00", "run\n1,2,3\n", f"{HEADER}\n1,2\n", f"{HEADER}\n{'x,' * 20}\n"]
)
def test_a_damaged_table_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"r\.csv is damaged .*move it away"):
        retrained_rows(tmp_path / "r.csv")
