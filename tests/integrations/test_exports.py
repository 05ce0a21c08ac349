"""Trials as studies of Optuna and as runs of DeepCAVE: nothing is lost, changed or mixed."""

import json
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ConfigSpace
import optuna
import pytest
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import TrialState
from support import journal_dicts, write_journal

from fmnas.api import load_run
from fmnas.integrations.deepcave import STATUS, configuration_space, export_runs
from fmnas.integrations.exported import ExportedExperiment, ExportedRun, ExportError
from fmnas.integrations.optuna_storage import export_distributions, export_studies
from fmnas.platform.cli import main
from fmnas.platform.experiment.events import event_from_dict
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.search_spaces import Evaluation, Graph, Integer, LinearConstraint, Nominal, Ordinal, Real, Space, Trial

SPACE = Space(
    [
        Real("rate", 1e-4, 1.0, log=True),
        Real("x", -1.0, 2.0),
        Integer("depth", 1, 4),
        Ordinal("width", [16, 32, 64]),
        Nominal("mixed", [True, 1, "a"]),
        Graph("g", ("u", "v", "w"), (("u", "v"), ("v", "w"))),
    ],
    [LinearConstraint({"x": 1, "depth": 1}, 5.0)],
)
CONFIGURATION = {"rate": 0.01, "x": 1.5, "depth": 3, "width": 32, "mixed": 1, "g": "v"}


def make_result(
    number: int, objective: float | None, status: str = "finished", epochs: int = 9, **change: Any
) -> TrialResult:
    trial = Trial(number, {**CONFIGURATION, **change}, epochs, "random", seed=5 + number)
    evaluation = (
        None if objective is None else Evaluation(objective, epochs, errors=(0.2, 0.4), curve=(0.5,), seconds=2.5)
    )
    times = {"suggest_seconds": 0.5, "started_at": 1e9 + number, "finished_at": 1e9 + number + 3}
    return TrialResult("a", 1, trial, status, evaluation, worker="w", reason="" if evaluation else "no memory", **times)


TRIALS = [
    make_result(0, 2.0),
    make_result(1, 1.0, epochs=3, x=0.5),
    make_result(2, None, "failed"),
    make_result(3, None, "timed_out", x=0.25),
    make_result(4, None, "lost"),
    make_result(5, 0.5, mixed=True),
    make_result(6, 0.25),
]


def experiment(trials: list[TrialResult] = TRIALS) -> ExportedExperiment:
    runs = [ExportedRun("a", 1, trials), ExportedRun("b", 0, [make_result(0, None, "failed")])]
    return ExportedExperiment("e", SPACE, 9, runs, {"problem": "p"})


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'studies.db'}"


def test_a_study_has_every_trial_with_its_state_value_and_times(url: str) -> None:
    assert dict(export_studies(experiment(), url)) == {"e/a/repeat-1": 7, "e/b/repeat-0": 1}
    study = optuna.load_study(study_name="e/a/repeat-1", storage=url)
    failed = TrialState.FAIL
    assert [trial.state for trial in study.trials] == [
        *(TrialState.COMPLETE, TrialState.PRUNED, failed, failed, failed, TrialState.COMPLETE, TrialState.COMPLETE)
    ]
    assert [trial.value for trial in study.trials] == [2.0, 1.0, None, None, None, 0.5, 0.25]
    assert [trial.number for trial in study.trials] == list(range(7))
    assert study.best_value == 0.25, "a short training is never the best"
    for trial, result in zip(study.trials, TRIALS, strict=True):
        assert (trial.datetime_start.timestamp(), trial.datetime_complete.timestamp()) == (
            result.started_at,
            result.finished_at,
        )
        assert trial.user_attrs["seed"] == result.trial.seed
        assert trial.user_attrs["status"] == result.status
        assert {name: trial.params[name] for name in CONFIGURATION if name != "mixed"} == {
            name: value for name, value in result.trial.configuration.items() if name != "mixed"
        }
    assert study.trials[1].intermediate_values == {3: 1.0}
    assert study.trials[2].user_attrs["reason"] == "no memory"
    assert study.trials[0].user_attrs["error"] == pytest.approx(0.3)
    assert study.user_attrs["problem"] == "p"
    assert study.user_attrs["constraints"] == [str(SPACE.constraints[0])]


def test_values_that_python_takes_for_equal_stay_apart(url: str) -> None:
    list(export_studies(experiment(), url))
    trials = optuna.load_study(study_name="e/a/repeat-1", storage=url).trials
    assert [trials[0].params["mixed"], trials[5].params["mixed"]] == ["1", "true"]


def test_ranges_and_scales_are_those_of_the_space() -> None:
    exported = export_distributions(SPACE)
    assert exported["rate"] == optuna.distributions.FloatDistribution(1e-4, 1.0, log=True)
    assert exported["depth"] == optuna.distributions.IntDistribution(1, 4)
    assert exported["width"].choices == (16, 32, 64)
    assert exported["g"].choices == ("u", "v", "w")


def test_a_study_that_is_there_is_not_touched(url: str) -> None:
    optuna.create_study(storage=url, study_name="e/b/repeat-0")
    with pytest.raises(ExportError, match="e/b/repeat-0"):
        list(export_studies(experiment(), url))
    assert optuna.get_all_study_names(url) == ["e/b/repeat-0"]


@pytest.mark.parametrize("url", ["nowhere", "sqlite:////no/such/folder/a.db", "postgresql+nothing://u:secret@h/d"])
def test_a_storage_that_cannot_be_used_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(ExportError) as refused:
        list(export_studies(experiment(), url))
    assert "\n" not in str(refused.value)


def test_without_optuna_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ExportError, match="pip install optuna"):
        list(export_studies(experiment(), "sqlite://"))


def read_run(folder: Path) -> tuple[ConfigSpace.ConfigurationSpace, dict[str, Any], list[list[Any]]]:
    history = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    files = {name: json.loads((folder / f"{name}.json").read_text()) for name in ("configs", "origins", "meta")}
    return ConfigSpace.ConfigurationSpace.from_json(folder / "configspace.json"), files, history


def without_equal_values(trials: list[TrialResult]) -> ExportedExperiment:
    """ConfigSpace refuses values that Python takes for equal."""
    space = Space([variable for variable in SPACE.variables if variable.name != "mixed"])
    return ExportedExperiment("e", space, 9, experiment(trials).runs, {"problem": "p"})


def test_a_run_of_deepcave_has_a_row_for_each_configuration_and_budget(tmp_path: Path) -> None:
    written = dict(export_runs(without_equal_values(TRIALS), tmp_path / "out"))
    assert written == {str(tmp_path / "out" / "a-repeat-1"): 3}, "a run without a result is left out"
    space, files, history = read_run(tmp_path / "out" / "a-repeat-1")
    assert [row[:4] for row in history] == [
        [0, 9.0, -1, [0.25, 2.5]],  # of the configuration that was evaluated again, the last
        [1, 3.0, -1, [1.0, 2.5]],
        [2, 9.0, -1, [None, None]],
    ]
    assert [row[4:7] for row in history] == [[6.0, 9.0, 1], [1.0, 4.0, 1], [3.0, 6.0, 2]]
    assert {row[7]["status"] for row in history} == {"finished", "timed_out"}
    for number, values in files["configs"].items():
        assert [*ConfigSpace.Configuration(space, values).items()] == [*values.items()], "in the same order"
        assert files["origins"][number] == "random"
    objective, seconds = files["meta"]["objectives"]
    assert (objective["name"], objective["lower"], objective["upper"]) == ("objective", 0.25, 1.0)
    assert (seconds["name"], seconds["lower"], seconds["upper"], seconds["lock_lower"]) == ("time", 0.0, 2.5, True)
    assert (files["meta"]["budgets"], files["meta"]["seeds"], files["meta"]["problem"]) == ([3.0, 9.0], [-1], "p")
    assert STATUS.keys() == {"finished", "timed_out", "lost"}


def test_a_failed_repetition_does_not_replace_an_evaluation(tmp_path: Path) -> None:
    trials = [make_result(0, 0.5), make_result(1, None, "failed")]
    dict(export_runs(without_equal_values(trials), tmp_path))
    _, files, history = read_run(tmp_path / "a-repeat-1")
    assert [row[:4] for row in history] == [[0, 9.0, -1, [0.5, 2.5]]]
    assert files["meta"]["objectives"][0]["lower"] == 0.5


def test_a_folder_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    """So that the command can refuse it before it writes studies."""
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(ExportError):
        export_runs(without_equal_values(TRIALS), tmp_path)


def test_the_space_of_deepcave_keeps_order_and_scales() -> None:
    space = configuration_space(without_equal_values(TRIALS).space)
    assert space["rate"].log
    assert not space["x"].log
    assert tuple(space["width"].sequence) == (16, 32, 64)
    assert tuple(space["g"].choices) == ("u", "v", "w")


def test_a_space_that_configspace_refuses_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ExportError) as refused:
        list(export_runs(experiment(), tmp_path / "out"))
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes", tmp_path / "notes" / "below"):
        with pytest.raises(ExportError):
            list(export_runs(without_equal_values(TRIALS), folder))
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_the_command_exports_every_run(
    tmp_path: Path, url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.comparison.figures.FIGURES", ())
    options = ("optimizers=[random,{name: hyperband, label: short}]", "fixed={h1: 2}", "workers.kind=in-process")
    options += (
        "initial_design=2",
        "fidelity={epochs: 9}",
        "budget.evaluations=6",
        "repeats=2",
        "tracking.enabled=false",
    )
    overrides = [word for option in options for word in ("-o", option)]
    assert main(["run", "func2c", *overrides, "--out", str(tmp_path / "run"), "--progress", "quiet"]) == 0
    capsys.readouterr()
    assert main(["export", str(tmp_path / "run")]) == 2
    shutil.copytree(tmp_path / "run", tmp_path / "begun")
    events = journal_dicts(tmp_path / "run" / "journal.jsonl")
    before = next(i for i, event in enumerate(events) if event["event"] == "asked")
    write_journal(tmp_path / "begun" / "journal.jsonl", list(map(event_from_dict, events[:before])))
    assert main(["export", str(tmp_path / "begun"), "--optuna", url]) == 2
    assert str(tmp_path / "begun") in capsys.readouterr().err
    assert main(["export", str(tmp_path / "run"), "--optuna", url, "--deepcave", str(tmp_path / "deepcave")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 * 4
    trials = load_run(tmp_path / "run").trials
    for optimizer in ("random", "short"):
        mine = trials[(trials["optimizer"] == optimizer) & (trials["repeat"] == 1)]
        study = optuna.load_study(study_name=f"func2c/{optimizer}/repeat-1", storage=url)
        assert [trial.value for trial in study.trials] == mine["objective"].tolist()
        assert [trial.state == TrialState.COMPLETE for trial in study.trials] == (mine["epochs"] == 9).tolist()
        assert {name for trial in study.trials for name in trial.params} == {"h2", "x1", "x2"}
        assert study.user_attrs["fixed"] == {"h1": 2}
        rows = (tmp_path / "deepcave" / f"{optimizer}-repeat-1" / "history.jsonl").read_text().splitlines()
        assert len(rows) == len(mine.groupby(["h2", "x1", "x2", "epochs"]))


@pytest.fixture
def run_importance(url: str) -> Callable[[], dict[str, float]]:
    def run() -> dict[str, float]:
        trials = [make_result(n, (n % 7) ** 2 / 7, x=n % 7 / 7, depth=n % 3 + 1) for n in range(40)]
        list(export_studies(experiment(trials), url))
        study = optuna.load_study(study_name="e/a/repeat-1", storage=url)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))

    return run


def test_optunas_importance_works_on_a_study(run_importance: Callable[[], dict[str, float]]) -> None:
    importance = run_importance()
    assert max(importance, key=lambda name: importance[name]) == "x"
