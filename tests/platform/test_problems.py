"""The registry of problems: each evaluates a trial of its space; what a configuration may set of its data."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from fmnas.comparison.analysis.trials import COLUMNS
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import ALIASES, PROBLEMS, problem
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.problem import DataSettings, Hardware, Problem, ProblemSettings
from fmnas.trainers.split import ImageSet

pytestmark = pytest.mark.slow

SMALL = {
    "joint": DataSettings(name="digits", train=64, validation=64),
    "vae_fmnist_small": DataSettings(train=64, validation=16),
    "xgb_fashion_mnist": DataSettings(train=100, validation=50),
}


def boston_file(folder: Path) -> Path:
    """Noise with the shape and the target's statistics of the Boston table."""
    values = np.random.default_rng(0).normal(size=(506, 14))
    values[:, -1] = (values[:, -1] - values[:, -1].mean()) / values[:, -1].std() * 9.188012 + 22.532806
    np.savetxt(folder / "boston.csv", values, delimiter=",")
    return folder / "boston.csv"


def noise_for_fashion_mnist(root: Path | None, cache: Path) -> ImageSet:
    """Noise in the place of FashionMNIST, 200 images and 100 test images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (300, 28, 28), dtype=np.uint8)
    labels = (np.arange(300) % 10).astype(np.uint8)
    return ImageSet("fashion_mnist", "a test: nowhere", images[:200], labels[:200], images[200:], labels[200:])


@pytest.fixture(params=PROBLEMS)
def small(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Problem:
    """Each problem of the registry, with as few data as it can do with."""
    name = request.param
    if name.startswith("xgb") and name != "xgb_table":
        pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
    if name == "robot_pushing":
        pytest.importorskip("Box2D", reason="box2d is not installed: pip install box2d")
    monkeypatch.setattr("fmnas.trainers.images.data.find_fashion_mnist", noise_for_fashion_mnist)
    data = DataSettings(root=str(boston_file(tmp_path))) if name == "svm_boston" else SMALL.get(name, DataSettings())
    return problem(name, ProblemSettings(data, seeds=2))


def test_every_problem_evaluates_a_trial_of_its_space(small: Problem) -> None:
    data = small.load()
    trainer = small.build(data, Hardware())
    trial = Trial(0, small.space.sample(np.random.default_rng(0)), 2, "random", seed=3)
    evaluation = trainer.evaluate(trial)
    assert np.isfinite(evaluation.objective)
    assert len(evaluation.errors) == small.seeds
    assert evaluation.epochs == 2
    assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation
    assert (data is None) == (small.dataset == "")
    assert data is None or data.place
    assert small.epochs >= 1


PENALTIES = {
    "joint": 0.92,  # guesses, with the largest cell
    "joint_recorded": 0.92,
    "vae_fmnist_small": 784 * np.log(2),  # uniform pixels
    "func2c": 100.0,
    "func3c": 100.0,
    "ackley5c": 10.0,
    "ackley53c": 10.0,
    "ackley53c_gebo": 2.0,
    "labs": 0.0,
    "pest_control": 50.0,
    "contamination": 60.0,
    "maxsat": 1.0,
    "mivabo_gaussian": 40.0,
    "mivabo_gaussian_at_most_2": 40.0,
    "mivabo_laplace": 500.0,
    "mivabo_laplace_at_most_2": 500.0,
    "pressure_vessel": 60.0,
    "pressure_vessel_constrained": 60.0,
    "speed_reducer": 4.0,
    "speed_reducer_constrained": 8.0,
    "environmental_model": 200.0,
    "environmental_model_correct": 200.0,
    "robot_pushing": 40.0,
    "zdt1_mixed": 11.0,
    "nusvr_diabetes": 100.0,
    "svm_boston": 30.0,
    "dt_wine": 1.0,
    "mlp_digits": 1.0,
    "xgb_digits": 0.9,  # guesses
    "xgb_fashion_mnist": 0.9,
    "xgb_table": 1.0,
}


def test_a_failure_is_a_bad_result_of_each_problem() -> None:
    assert {name: problem(name).penalty for name in PROBLEMS} == PENALTIES


def test_the_logarithm_is_modelled_of_the_joint_problem() -> None:
    """Errors span orders of magnitude; functions may be negative."""
    assert {name for name in PROBLEMS if problem(name).log_objective} == {"joint", "joint_recorded"}


def test_every_name_in_the_list_is_a_problem(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "problems"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [*PROBLEMS, *ALIASES]
    for name in names:
        assert problem(name).space == problem(ALIASES.get(name, name)).space


def test_no_variable_is_named_as_a_column_of_the_table_of_trials() -> None:
    for name in PROBLEMS:
        assert not {*problem(name).space.names} & {*COLUMNS, *(f"error_seed_{i}" for i in range(1, 9))}


def config(problem_name: str, **data: object) -> dict[str, object]:
    plain = {"name": "t", "optimizers": ["random"], "initial_design": 1, "seeds": 1}
    return {**plain, "problem": problem_name, "budget": {"evaluations": 2}, "fidelity": {"epochs": 1}, "data": data}


@pytest.mark.parametrize(
    ("name", "train", "validation"),
    [
        ("joint", 30_000, 30_000),
        ("vae_fmnist_small", 6_000, 500),
        ("xgb_fashion_mnist", 49_000, 21_000),
        ("nusvr_diabetes", None, None),
    ],
)
def test_sizes_that_are_not_set_are_the_problems(name: str, train: int | None, validation: int | None) -> None:
    data = check_config(config(name), "here").data
    assert (data.train, data.validation) == (train, validation)
    if train is not None:
        assert check_config(config(name, train=7), "here").data.train == 7


def test_early_epochs_may_be_validated_on_a_part_of_the_images() -> None:
    data = {"name": "digits", "train": 20, "validation": 64}
    configured = check_config(config("joint", **data, early_validation=16), "here")
    trainer = problem("joint", configured.problem_settings).trainer
    assert trainer.settings.early_validation == 16
    assert check_config(config("joint", **data), "here").data.early_validation is None
    with pytest.raises(ConfigError, match=r"data\.early_validation = 65: .*data\.validation, 64"):
        check_config(config("joint", **data, early_validation=65), "here")


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [("func2c", "train", 100), ("svm_boston", "validation", 100), ("xgb_fashion_mnist", "name", "digits")],
)
def test_what_a_problem_does_not_take_is_refused(name: str, key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"data.{key} = {value!r}: {name} does not take it; leave it out"):
        check_config(config(name, **{key: value}), "here")


def run(name: str, folder: Path, *overrides: str) -> int:
    settings = (
        "workers.kind=in-process",
        "tracking.enabled=false",
        "optimizers=[random]",
        f"problem={name}",
        *overrides,
    )
    return main(["run", "smoke", *(flag for o in settings for flag in ("-o", o)), "--out", str(folder / "run")])


def test_boston_is_asked_for_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FMNAS_BOSTON", raising=False)
    assert run("svm_boston", tmp_path) == 2
    message = capsys.readouterr().err
    assert "FMNAS_BOSTON" in message
    assert "Traceback" not in message
    assert not (tmp_path / "run").exists()


def test_boston_runs_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = boston_file(tmp_path)
    monkeypatch.setenv("FMNAS_BOSTON", "/nowhere")
    assert run("svm_boston", tmp_path, f"data.root={path}") == 0
    assert json.loads((tmp_path / "run" / "environment.json").read_text())["data"] == str(path)


@pytest.mark.parametrize(
    ("name", "needed", "package"),
    [("xgb_digits", "xgboost", "xgboost-cpu"), ("robot_pushing", "Box2D", "box2d")],
)
def test_a_missing_package_is_named_before_anything_runs(
    name: str,
    needed: str,
    package: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(module: str) -> object:
        if module == needed:
            raise ModuleNotFoundError(module, name=module)
        return import_module(module)

    monkeypatch.setattr("fmnas.search_spaces.errors.import_module", missing)
    assert run(name, tmp_path) == 2
    message = capsys.readouterr().err
    assert f"needs {package}" in message
    assert f"pip install {package}" in message
    assert not (tmp_path / "run").exists()
