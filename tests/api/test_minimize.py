"""A function minimised in this process: results, failures, interrupts, own optimizers, wrong arguments."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from matplotlib.figure import Figure
from search_of_bowl import SPACE, Alternating, AskTell, CountedBowl, bowl, raise_interrupt, suggest_far

from fmnas.api import load_run, minimize
from fmnas.platform.cli import main
from fmnas.platform.errors import ConfigError, ExperimentFailed
from fmnas.search_spaces import Evaluation, FmnasError, LinearConstraint, Real, Space, Trial
from fmnas.search_spaces.records import MODEL, RANDOM
from fmnas.trainers import Problem, TrainerError, objective

pytestmark = pytest.mark.slow


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def test_bo_fm_finds_the_bottom_of_a_bowl(capsys: pytest.CaptureFixture[str]) -> None:
    result = minimize(bowl, SPACE, 20)
    assert result.best["kind"] == "b"
    assert 0 <= result.objective < 0.01
    assert result.objective == bowl(dict(result.best)) == result.trials["objective"].min()
    assert len(result.trials) == 20
    assert result.reason == ""
    assert isinstance(result.plot(), Figure)
    assert "20 trials" in repr(result)
    assert capsys.readouterr() == ("", "")


def test_a_lambda_will_do_and_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.chdir(tmp_path)
    result = minimize(lambda configuration: abs(configuration["x"]), SPACE, 6, "random")
    assert result.objective == abs(result.best["x"])
    assert list(tmp_path.iterdir()) == []


def test_constraints_hold() -> None:
    space = Space([Real("x", 0.0, 1.0), Real("y", 0.0, 1.0)], [LinearConstraint({"x": 1.0, "y": 1.0}, bound=1.0)])
    result = minimize(lambda configuration: -configuration["x"] - configuration["y"], space, 8, "random")
    assert (result.trials["x"] + result.trials["y"] <= 1.0).all()


def test_an_exception_is_a_failed_trial(capsys: pytest.CaptureFixture[str]) -> None:
    def touchy(configuration: dict[str, Any]) -> float:
        if configuration["kind"] == "a":
            raise ValueError("not a")
        return bowl(configuration)

    result = minimize(touchy, SPACE, 20, "random", failures=20)
    failed = result.trials[result.trials["kind"] == "a"]
    assert set(failed["status"]) == {"failed"}
    assert failed["reason"].str.contains("ValueError: not a").all()
    assert len(result.trials) == 20
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("evaluations", [4, 20])
def test_without_a_result_it_fails_and_says_why(evaluations: int) -> None:
    with pytest.raises(ExperimentFailed, match="ZeroDivisionError"):
        minimize(lambda configuration: 1 / 0, SPACE, evaluations, "random")


@pytest.mark.parametrize("does", [interrupt, raise_interrupt])
def test_ctrl_c_gives_what_there_is(does: Callable[[], object]) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(UserWarning, match="interrupted: "):
        result = minimize(CountedBowl(4, does), SPACE, 20, "random")
    assert set(result.trials["status"]) == {"finished"}
    assert 3 <= len(result.trials) <= 4
    assert result.objective == result.trials["objective"].min()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_any_result_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        minimize(CountedBowl(1, raise_interrupt), SPACE, 20, "random")


@pytest.mark.parametrize(
    ("optimizer", "options", "origin"),
    [
        (Alternating, {"step": 0.5}, MODEL),
        (AskTell, {"start": 3.0}, MODEL),
        (optuna.samplers.RandomSampler, {}, RANDOM),
    ],
    ids=["subclass", "ask and tell", "sampler"],
)
def test_an_optimizer_need_not_be_in_a_file(
    optimizer: type, options: dict[str, Any], origin: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    same = {"space": SPACE, "optimizer": optimizer, "out": tmp_path / "mine", "initial_design": 2, **options}
    before = minimize(bowl, evaluations=5, **same)
    after = minimize(bowl, evaluations=8, **same)
    assert list(after.trials["x"][:5]) == list(before.trials["x"])
    assert set(after.trials["origin"][2:]) == {origin}
    minimize(bowl, SPACE, 8, "random", out=tmp_path / "random", initial_design=2)
    results = load_run(tmp_path / "mine", tmp_path / "random")
    assert set(results.summary.optimizers) == {optimizer.__name__, "random"}
    assert main(["resume", str(tmp_path / "mine")]) == 2
    assert "minimize" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=optimizer.__name__):
        minimize(bowl, SPACE, 8, "random", out=tmp_path / "mine")


def test_another_optimizer_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    Climb, Other = (
        type("Größer", (Alternating,), {"_suggest": method}) for method in (Alternating._suggest, suggest_far)
    )
    for name, optimizer in (("a", Climb), ("b", Other)):
        minimize(bowl, SPACE, 4, optimizer, out=tmp_path / name)
    with pytest.warns(UserWarning, match="has changed"):
        minimize(bowl, SPACE, 6, Other, out=tmp_path / "a")


def test_options_are_recorded_as_they_are_and_the_same_ones_resume(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = []

    def make(space: Space, seed: int, **options: Any) -> AskTell:
        calls.append(options)
        return AskTell(space, seed)

    options = {"shape": (1, (np.int64(2), tmp_path)), "limit": float("inf"), "names": {"a": [None, True, (0.5,)]}}
    for evaluations in (4, 4, 6):
        minimize(bowl, SPACE, evaluations, make, out=tmp_path / "out", **options)
    kept = {"shape": [1, [2, str(tmp_path)]], "limit": float("inf"), "names": {"a": [None, True, [0.5]]}}
    assert [options for options in calls if options != kept] == []
    assert len(load_run(tmp_path / "out").trials) == 6


def test_an_argument_may_be_a_number_of_numpy() -> None:
    two = np.int64(2)
    result = minimize(
        bowl, SPACE, two + 1, Alternating, seed=two, initial_design=two - 1, failures=two, step=np.float64(0.25)
    )
    assert set(result.trials["x"][1:]) <= {0.25, -0.25}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"evaluations": 0}, r"  evaluations = 0"),
        ({"optimizer": "bofm"}, r"  optimizer = 'bofm': .*bo-fm"),
        ({"optimizer": int}, r"^[^\n]*\n  optimizer = int: [^\n]*make\(space, seed\)[^\n]*\n[^\n]*$"),
        ({"optimizer": "/budget.2/workers.py:Mine"}, "optimizer = '/budget.2/workers.py:Mine'"),
        ({"warm_start": "budget.2/run"}, "^optimizer.warm_start = 'budget.2/run'"),
        ({"failures": 0}, r"  failures = 0"),
        ({"optimizer": 3}, r"optimizer = 3: .*make\(space, seed\)"),
        ({"optimizer": Alternating, "stp": 3}, "optimizer.stp: .*did you mean step"),
        ({"optimizer": Alternating, "step": "far"}, "optimizer.step = 'far'"),
        ({"optimizer": Alternating, "step": print}, "step = <built-in"),
        ({"optimizer": AskTell, "start": {"a": [print]}}, "start = <built-in"),
        ({"populaton": 4}, r"optimizer\.populaton: .*warm_start"),
        ({"optimiser": "tpe"}, r"\noptimiser .*did you mean optimizer\?"),
        ({"optimizer": "regularized-evolution", "populaton": 4}, r"populaton: .*did you mean population\?"),
        ({"name": "bo-fm"}, "^name: "),
        ({"label": "mine", "concurrency": 2}, "^label, concurrency: "),
        ({"function": max}, "max.* wrap it"),
        ({"space": Real("x", 0, 1)}, r"space = Real\(.*\).*\[Real\("),
        ({"space": None}, r"space = None.*\[Real\("),
        ({"space": [Real("status", 0, 1)]}, "'status' has the name of a column of trials.csv"),
        ({"function": 5}, "^5: "),
        ({"function": lambda: 0.0}, "its first parameter must be the configuration"),
        ({"function": objective(SPACE)(bowl)}, "space: .* omit"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_touched(
    wrong: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arguments = {"function": bowl, "space": SPACE, "evaluations": 6, "optimizer": "random", "out": tmp_path / "out"}
    with pytest.raises(FmnasError, match=message) as raised:
        minimize(**{**arguments, **wrong})
    assert isinstance(raised.value, ConfigError | TrainerError)
    assert "-o KEY" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_searches_may_lie_in_threads_and_in_each_other() -> None:
    lengths = []

    def outer(configuration: dict[str, Any]) -> float:
        inner = minimize(lambda each: (each["y"] - configuration["x"]) ** 2, [Real("y", -1.0, 1.0)], 4, "random")
        return inner.objective

    def search() -> None:
        lengths.append(len(minimize(outer, SPACE, 3, "random").trials))

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lengths == [3, 3]


def test_a_function_may_leave_and_remove_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders: list[Path] = []

    def moves(configuration: dict[str, Any]) -> float:
        folders.append(Path.cwd())
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        os.rmdir(folder)
        return bowl(configuration)

    same = {"space": SPACE, "optimizer": "random", "out": "kept"}
    minimize(moves, evaluations=4, **same)
    assert set(folders) == {tmp_path}
    assert Path.cwd() == tmp_path
    assert not (tmp_path / "kept" / "driver.json").exists()
    minimize(moves, evaluations=6, **same)
    assert len(folders) == 6


def test_progress_reports_every_trial(capsys: pytest.CaptureFixture[str]) -> None:
    minimize(bowl, SPACE, 4, "random", progress=True)
    output = capsys.readouterr().out
    assert all(f"trial {number} " in output for number in range(4))


def test_too_many_failures_in_a_row_end_it_and_more_may_be_allowed_later(tmp_path: Path) -> None:
    calls = CountedBowl()

    def breaks(configuration: dict[str, Any]) -> float:
        if 3 <= calls.calls < 9:
            calls.calls += 1
            raise OSError("no")
        return calls(configuration)

    same = {"space": SPACE, "evaluations": 12, "optimizer": "random", "out": tmp_path / "run"}
    with pytest.warns(UserWarning, match="3 trials in a row failed.*failures= of minimize"):
        result = minimize(breaks, failures=3, **same)
    assert result.trials["status"].tolist() == ["finished"] * 3 + ["failed"] * 3
    assert result.reason in repr(result)
    result = minimize(breaks, failures=9, **same)
    assert result.trials["status"].tolist() == ["finished"] * 3 + ["failed"] * 6 + ["finished"] * 3


def test_a_problem_of_several_seeds_can_be_read_again(tmp_path: Path) -> None:
    class Trainer:
        def evaluate(self, trial: Trial) -> Evaluation:
            return Evaluation(trial.configuration["x"] ** 2, errors=(0.1, 0.2, 0.3))

    task = Problem(Space(SPACE), lambda data, hardware: Trainer(), penalty=30.0, seeds=3, objective="what it is")
    result = minimize(task, evaluations=4, optimizer="random", out=tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert again.best().objective == result.objective
    assert {"error_seed_1", "error_seed_3"} <= set(again.trials.columns)
    assert again != result.results, "results are compared by identity: a table has no truth value"
