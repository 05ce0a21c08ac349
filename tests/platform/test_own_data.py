"""The joint problem on custom images, and with another weight of FLOPs."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import problem
from fmnas.search_spaces import Cell, Trial
from fmnas.trainers.contract import DataError
from fmnas.trainers.images.network import count_flops, flops_ratio
from fmnas.trainers.problem import DataSettings, Hardware, ProblemSettings
from fmnas.trainers.split import GUESSING_ERROR

pytestmark = pytest.mark.slow

PLAIN = {
    "name": "t",
    "problem": "joint",
    "optimizers": ["random"],
    "initial_design": 1,
    "budget": {"evaluations": 2},
    "fidelity": {"epochs": 1},
}
TINY = ["data.name=own", "data.train=24", "data.validation=16", "seeds=1", "initial_design=1", "budget.evaluations=2"]
TINY += ["fidelity.epochs=1", "optimizers=[random]", "workers.kind=in-process", "tracking.enabled=false"]


def images(path: Path, seed: int = 0, tests: int = 8) -> Path:
    rng = np.random.default_rng(seed)
    arrays = {"images": rng.integers(0, 256, (40, 28, 28), dtype=np.uint8), "labels": rng.integers(0, 10, 40)}
    held_out = {"test_images": arrays["images"][:tests], "test_labels": arrays["labels"][:tests]}
    np.savez(path, **arrays, **(held_out if tests else {}))
    return path


def run(out: Path, *overrides: str) -> int:
    flags = [flag for override in (*TINY, *overrides) for flag in ("-o", override)]
    return main(["run", "quickstart", *flags, "--progress", "quiet", "--out", str(out)])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment on custom images, which are in the same folder."""
    folder = tmp_path_factory.mktemp("own")
    assert run(folder / "run", f"data.root={images(folder / 'mine.npz')}") == 0
    return folder / "run"


def test_images_are_recorded_and_the_best_is_retrained(done: Path) -> None:
    environment = json.loads((done / "environment.json").read_text())
    place, digest = environment["data"], environment["data_sha256"]
    assert len(digest) == 64
    assert place == f"given: {done.parent / 'mine.npz'}, SHA-256 {digest}"
    page = (done / "report" / "index.html").read_text()
    assert digest in page
    assert "on 24 images of mine.npz, and measures the error on 16 others" in page
    assert main(["retrain", str(done), "--progress", "quiet"]) == 0
    with (done / "retrained.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["images"], row["test_images"]) == ("40", "8")


def test_other_images_are_refused_wherever_they_would_be_used(
    done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, root = tmp_path / "run", images(tmp_path / "mine.npz")
    assert run(out, f"data.root={root}", "seed=4") == 0
    journal = (out / "journal.jsonl").read_bytes()
    images(root, seed=1)
    for command in (["retrain", str(out)], ["extend", str(out), "-o", "repeats=2"], ["resume", str(out)]):
        if command[0] == "resume":  # of what is finished, it would look at no data
            journal = b"".join(journal.splitlines(keepends=True)[:-2])
            (out / "journal.jsonl").write_bytes(journal)
        capsys.readouterr()
        assert main([*command, "--progress", "quiet"]) == 2
        message = capsys.readouterr().err
        assert "SHA-256" in message
    assert (out / "journal.jsonl").read_bytes() == journal
    other = tmp_path / "other"
    assert run(other, f"data.root={root}", "seed=5") == 0
    assert main(["report", str(done), str(other), "--out", str(tmp_path / "both")]) == 2
    assert "SHA-256 of the data = " in capsys.readouterr().err
    assert main(["report", str(done), str(out), "--out", str(tmp_path / "both")]) == 0, "the same images, elsewhere"
    weighted = tmp_path / "weighted"
    assert run(weighted, f"data.root={done.parent / 'mine.npz'}", "seed=6", "objective.flops_weight=0") == 0
    assert main(["report", str(done), str(weighted), "--out", str(tmp_path / "all")]) == 2
    assert "objective.flops_weight = 0.02 and 0.0" in capsys.readouterr().err


def test_without_test_images_nothing_is_retrained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, root = tmp_path / "run", images(tmp_path / "mine.npz", tests=0)
    assert run(out, f"data.root={root}") == 0
    assert main(["retrain", str(out)]) == 2
    assert str(root) in capsys.readouterr().err
    assert not (out / "retrained.csv").exists()


def test_invalid_images_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "mine.npz"
    np.savez(root, images=np.zeros((9, 32, 32), np.uint8), labels=np.zeros(9, int))
    assert run(tmp_path / "run", f"data.root={root}") == 2
    assert f"{root}: images is uint8 [9, 32, 32]" in capsys.readouterr().err
    images(root)
    assert run(tmp_path / "run", f"data.root={root}", "data.train=30") == 2
    assert "data.train = 30, data.validation = 16" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["mnist", "kmnist", "own"])
def test_user_images_need_a_root(name: str) -> None:
    config = check_config({**PLAIN, "data": {"name": name}}, "here")
    with pytest.raises(DataError, match=f"data.name = {name}, data.root = None"):
        problem("joint", config.problem_settings).load()


@pytest.mark.parametrize(("root", "stored"), [("x.npz", "{here}/x.npz"), ("/x", "/x"), (None, None)])
def test_the_root_is_stored_as_an_absolute_path(
    root: str | None, stored: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = check_config({**PLAIN, "data": {"root": root}}, "here")
    assert config.data.root == (stored and stored.format(here=tmp_path))


def settings(weight: float | None) -> ProblemSettings:
    return ProblemSettings(DataSettings("digits", train=32, validation=32), seeds=1, flops_weight=weight)


def test_the_weight_of_flops_is_in_the_objective_and_its_penalty() -> None:
    weights = (None, 0.5, 0.0)
    problems = [problem("joint", settings(weight)) for weight in weights]
    assert [task.penalty for task in problems] == [GUESSING_ERROR + weight for weight in (0.02, 0.5, 0.0)]
    assert [f"{weight} x FLOPs" in task.objective for task, weight in zip(problems, (0.02, 0.5, 0.0), strict=True)] == [
        *(True, True, False)
    ]
    assert [task.log_objective for task in problems] == [True, True, False], "without FLOPs it may be 0"
    trial = Trial(0, problems[0].space.sample(np.random.default_rng(0)), 1, "random")
    evaluations = [task.build(task.load(), Hardware()).evaluate(trial) for task in problems]
    for evaluation, weight in zip(evaluations, (0.02, 0.5, 0.0), strict=True):
        assert evaluation.error is not None
        assert evaluation.flops_ratio is not None
        assert evaluation.objective == evaluation.error + weight * evaluation.flops_ratio
    assert len({evaluation.errors for evaluation in evaluations}) == 1, "the training is the same"


def test_the_convention_of_flops_is_in_the_objective() -> None:
    data = {"name": "digits", "train": 32, "validation": 32}
    config = check_config({**PLAIN, "data": data, "seeds": 1, "objective": {"flops": "pthflops"}}, "here")
    assert check_config(dict(PLAIN), "here").objective.flops == "torch"
    default, paper = problem("joint", settings(None)), problem("joint", config.problem_settings)
    assert "pthflops" in paper.objective
    trial = Trial(0, default.space.sample(np.random.default_rng(0)), 1, "random")
    ours, theirs = (task.build(task.load(), Hardware()).evaluate(trial) for task in (default, paper))
    cell = Cell.from_configuration(trial.configuration)
    assert (ours.flops, theirs.flops) == (count_flops(cell), count_flops(cell, "pthflops"))
    assert theirs.error is not None
    assert theirs.flops_ratio == flops_ratio(cell, "pthflops") != ours.flops_ratio
    assert theirs.objective == theirs.error + 0.02 * theirs.flops_ratio
    assert theirs.errors == ours.errors, "the training is the same"


def test_the_weight_is_the_problems_unless_it_is_set() -> None:
    assert check_config(dict(PLAIN), "here").objective.flops_weight == 0.02
    assert check_config({**PLAIN, "objective": {"flops_weight": 0}}, "here").objective.flops_weight == 0.0
    for weight in (-0.1, 2000.0, "x", float("inf")):
        with pytest.raises(ConfigError, match=r"objective\.flops_weight"):
            check_config({**PLAIN, "objective": {"flops_weight": weight}}, "here")
    other = {**PLAIN, "problem": "func2c", "initial_design": 1}
    assert check_config(other, "here").objective.flops_weight is None
