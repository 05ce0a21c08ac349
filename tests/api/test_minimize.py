"""A function minimised in this process: found, failed, interrupted, resumed, refused."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import optuna
import pytest
from matplotlib.figure import Figure

from fmnas.api import load_run, minimize
from fmnas.optimizers import Optimizer, Suggestion
from fmnas.platform.cli import main
from fmnas.platform.errors import ConfigError, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.provenance import hash_function
from fmnas.search_spaces import Evaluation, FmnasError, LinearConstraint, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import MODEL, RANDOM
from fmnas.trainers import Problem, TrainerError, objective

pytestmark = pytest.mark.slow

SPACE = [Real("x", -5.0, 5.0), Nominal("kind", ["a", "b"])]


def bowl(configuration: dict[str, Any]) -> float:
    return configuration["x"] ** 2 + (configuration["kind"] == "a")


class Counted:
    """A function that knows how often it was called; at a call of that number it does something first."""

    __name__ = "format_count"

    def __init__(self, at: int = 0, does: Callable[[], object] = lambda: None) -> None:
        self.calls, self._at, self._does = 0, at, does

    def __call__(self, configuration: dict[str, Any]) -> float:
        self.calls += 1
        if self.calls == self._at:
            self._does()
        return bowl(configuration)


class Seesaw(Optimizer):
    """x = step and x = -step in turn."""

    def __init__(self, space: Space, *, step: float = 1.0, **others: Any) -> None:
        super().__init__(space, **others)
        self.step = step

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion({"x": self.step * (-1) ** self._asked, "kind": "b"}, "model")


def suggest_far(optimizer: Seesaw, rng: np.random.Generator) -> Suggestion:
    return Suggestion({"x": 4.0, "kind": "b"}, "model")


class Above:
    """ask and tell: x is one more than the best so far."""

    def __init__(self, space: Space, seed: int, start: float = 2.0) -> None:
        self.results = [(np.inf, start - 1.0)]

    def ask(self) -> dict[str, Any]:
        return {"x": min(self.results)[1] + 1.0, "kind": "a"}

    def tell(self, configuration: dict[str, Any], value: float) -> None:
        self.results.append((value, configuration["x"]))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.01)


def raise_interrupt() -> None:
    raise KeyboardInterrupt


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
        result = minimize(Counted(4, does), SPACE, 20, "random")
    assert set(result.trials["status"]) == {"finished"}
    assert 3 <= len(result.trials) <= 4
    assert result.objective == result.trials["objective"].min()
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_before_any_result_is_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        minimize(Counted(1, raise_interrupt), SPACE, 20, "random")


def test_it_resumes_from_its_directory_with_the_same_suggestions(tmp_path: Path) -> None:
    whole = minimize(bowl, SPACE, 12, "regularized-evolution", population=4, tournament=2)
    assert "mutation" in set(whole.trials["origin"])
    first, second, third = Counted(6, raise_interrupt), Counted(), Counted()
    same = {"evaluations": 12, "optimizer": "regularized-evolution", "population": 4, "tournament": 2}
    out = tmp_path / "moved on"
    with pytest.warns(UserWarning, match="interrupted"):
        minimize(first, SPACE, out=out, **same)
    result = minimize(second, SPACE, out=str(out), **same)
    assert (first.calls, second.calls) == (6, 7)  # the sixth is repeated
    assert result.trials["x"].tolist() == whole.trials["x"].tolist()
    assert not (out / "report").exists()
    again = minimize(third, SPACE, out=out, **same)
    assert third.calls == 0
    assert (again.best, again.objective) == (result.best, result.objective)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The directory of a search that is done."""
    minimize(bowl, SPACE, 6, "random", out=tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"evaluations": 5}, r"evaluations = 5\b.*\b6"),
        ({"seed": 1}, r"seed = 1\b.*\b0"),
        ({"optimizer": "bo-fm"}, r"optimizer = bo-fm\b.*\brandom"),
        ({"function": lambda configuration: 0.0}, r"function = \S*lambda\b.*\bbowl"),
        ({"space": [Real("x", -5.0, 6.0), SPACE[1]]}, "space"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_another_search_cannot_resume_in_the_directory(other: dict[str, Any], named: str, kept: Path) -> None:
    before = (kept / "journal.jsonl").read_bytes()
    with pytest.raises(
        RunDirectoryError, match=rf"(?s){kept}.*\b{named}\b.*out=DIR|\b{named}\b.*{kept}.*out=DIR"
    ) as raised:
        minimize(**{"function": bowl, "space": SPACE, "evaluations": 6, "optimizer": "random", "out": kept, **other})
    assert str(raised.value).count("cannot change") <= 1, "no other argument is blamed"
    assert (kept / "journal.jsonl").read_bytes() == before


def test_more_evaluations_are_added_to_what_is_there(tmp_path: Path) -> None:
    same = {"space": SPACE, "optimizer": "random", "out": tmp_path / "growing"}
    begun, added, once_more = Counted(), Counted(), Counted()
    minimize(begun, evaluations=6, **same)
    result = minimize(added, evaluations=10, **same)
    assert (added.calls, len(result.trials)) == (4, 10)
    again = minimize(once_more, evaluations=10, **same)
    assert (once_more.calls, again.best) == (0, result.best)
    with pytest.raises(RunDirectoryError, match=r"evaluations = 6\b.*\b10\b"):
        minimize(begun, evaluations=6, **same)


def test_different_evaluations_are_compared_if_the_random_points_are_as_many(tmp_path: Path) -> None:
    sizes = {"short": 6, "long": 12}
    for name, evaluations in sizes.items():
        minimize(bowl, SPACE, evaluations, "random", out=tmp_path / name)
        minimize(bowl, SPACE, evaluations, "tpe", out=tmp_path / f"{name}-tpe", initial_design=3)
    with pytest.raises(RunDirectoryError, match=r"(?s)long again.* initial_design=2\b"):
        load_run(tmp_path / "long", tmp_path / "short")
    minimize(bowl, SPACE, 12, "random", out=tmp_path / "again", initial_design=3)
    assert set(load_run(tmp_path / "again", tmp_path / "short-tpe").summary.optimizers) == {"random", "tpe"}
    for tpe in (tmp_path / f"{name}-tpe" for name in sizes):
        assert load_run(tpe).trials["origin"].tolist().count("initial") == 3


@pytest.mark.parametrize(("asked", "is_same"), [(None, True), (2, True), (3, False)])
def test_the_number_of_random_points_cannot_change(asked: int | None, is_same: bool, kept: Path) -> None:
    more = {"space": SPACE, "evaluations": 12, "optimizer": "random", "out": kept, "initial_design": asked}
    if is_same:
        assert len(minimize(bowl, **more).trials) == 12
    else:
        with pytest.raises(RunDirectoryError, match=r"initial_design = 3\b.*\b2"):
            minimize(bowl, **more)


def test_different_functions_of_one_name_are_not_compared(tmp_path: Path) -> None:
    first, other = (define_function(f"f = lambda c: c['x'] * {factor}") for factor in (2, 3))
    for name, function, optimizer in (("a", first, "random"), ("b", other, "tpe"), ("c", first, "tpe")):
        minimize(function, SPACE, 4, optimizer, out=tmp_path / name)
    with pytest.raises(RunDirectoryError, match=r"lambda is a different function in .*a and in .*b\b"):
        load_run(tmp_path / "a", tmp_path / "b")
    assert set(load_run(tmp_path / "a", tmp_path / "c").summary.optimizers) == {"random", "tpe"}
    with pytest.warns(UserWarning, match="has changed"):
        minimize(other, SPACE, 5, "random", out=tmp_path / "a")
    assert "differs" in load_run(tmp_path / "a", tmp_path / "b").summary.caution


def define_function(text: str) -> Callable[..., Any]:
    """The function f that a text defines, as a cell of a notebook would."""
    names: dict[str, Any] = {}
    exec(compile(text, "<text>", "exec"), names)
    return cast(Callable[..., Any], names["f"])


MAKER = "def make(a):\n    def f(c):\n        return c['x'] + a\n    return f\nf = make({})"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = lambda c: c['x'] * 2", "f = lambda c: c['x'] * 3"),
        ("f = lambda c: abs(c['x'])", "f = lambda c: float(c['x'])"),
        ("def f(c, k=2):\n    return k", "def f(c, k=3):\n    return k"),
        ("f = lambda c: sum(i for i in (1, 2))", "f = lambda c: sum(i for i in (1, 3))"),
        (MAKER.format(1), MAKER.format(2)),
    ],
)
def test_a_digest_follows_what_a_function_does(before: str, after: str) -> None:
    digest = hash_function(define_function(before))
    assert digest == hash_function(define_function("\n" + before)) != hash_function(define_function(after))


def test_a_name_that_nothing_was_assigned_to_has_no_digest_of_its_own() -> None:
    maker = "def make(a):\n    if a:\n        b = 1\n    def f(c):\n        return b\n    return f\nf = make({})"
    assert hash_function(define_function(maker.format(0))) != hash_function(define_function(maker.format(1)))


def test_a_changed_function_is_warned_of_in_the_call_and_in_every_report(tmp_path: Path) -> None:
    same = {"space": SPACE, "optimizer": "random", "out": tmp_path / "kept"}
    first, other = (define_function(f"def f(c):\n    return {body}") for body in ("c['x'] ** 2", "100 + c['x']"))
    result = minimize(first, evaluations=4, **same)
    with pytest.warns(UserWarning, match=r"^f has changed.*kept\b.*another out=DIR") as warned:
        again = minimize(other, evaluations=4, **same)
    assert again.trials["objective"].tolist() == result.trials["objective"].tolist()
    assert warned[0].filename == __file__
    assert "f was changed" not in load_run(same["out"]).summary.caution
    with pytest.warns(UserWarning, match="^f has changed"):
        minimize(other, evaluations=6, **same)
    assert "f was changed during the experiment" in load_run(same["out"]).summary.caution
    out = tmp_path / "out"
    minimize(other, SPACE, 8, "random", seed=3, out=out, warm_start=str(same["out"]))
    assert "The code of the problem was different there." in load_run(out).summary.caution


def test_a_function_that_counts_its_calls_is_the_same_function(tmp_path: Path) -> None:
    count, folders = 0, list[int]()

    def counts(configuration: dict[str, Any]) -> float:
        nonlocal count
        count += 1
        folders.append(count)
        return bowl(configuration)

    for evaluations in (4, 5):
        minimize(counts, SPACE, evaluations, "random", out=tmp_path / "kept")
        minimize(partial(bowl), SPACE, evaluations, "random", out=tmp_path / "partial")
        minimize(Counted(), SPACE, evaluations, "random", out=tmp_path / "object")
    assert count == 5


def test_a_function_that_cannot_be_looked_at_is_said_to_be(tmp_path: Path) -> None:
    assert minimize(len, SPACE, 4, "random", out=tmp_path / "kept").objective == 2
    with pytest.warns(UserWarning, match=r"^len .*not known.*kept\b"):
        minimize(len, SPACE, 5, "random", out=tmp_path / "kept")


def test_its_directory_can_be_read_but_not_resumed_without_the_function(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(load_run(kept).trials) == 6
    assert main(["report", str(kept)]) == 0
    assert (kept / "report/index.html").is_file()
    assert main(["status", str(kept)]) == main(["replay", str(kept)]) == 0
    capsys.readouterr()
    before = (kept / "journal.jsonl").read_bytes()
    assert main(["resume", str(kept)]) == 2
    message = capsys.readouterr().err
    assert "bowl" in message
    assert "out=DIR" in message
    assert "restore" not in message, "that would not help"
    assert (kept / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_damaged_problem_is_named(text: str, kept: Path) -> None:
    (kept / "problem.json").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"kept/problem\.json .*restore"):
        load_run(kept)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"is not empty.*out=DIR") as raised:
        minimize(bowl, SPACE, 6, "random", out=tmp_path)
    assert "delete" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_cannot_be_accessed_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"nnn.*out=DIR"):
        minimize(bowl, SPACE, 6, "random", out=tmp_path / ("n" * 300))


@pytest.mark.parametrize(
    ("optimizer", "options", "origin"),
    [(Seesaw, {"step": 0.5}, MODEL), (Above, {"start": 3.0}, MODEL), (optuna.samplers.RandomSampler, {}, RANDOM)],
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
    Climb, Other = (type("Größer", (Seesaw,), {"_suggest": method}) for method in (Seesaw._suggest, suggest_far))
    for name, optimizer in (("a", Climb), ("b", Other)):
        minimize(bowl, SPACE, 4, optimizer, out=tmp_path / name)
    with pytest.warns(UserWarning, match="has changed"):
        minimize(bowl, SPACE, 6, Other, out=tmp_path / "a")


def test_options_are_recorded_as_they_are_and_the_same_ones_resume(tmp_path: Path) -> None:
    calls: list[dict[str, Any]] = []

    def make(space: Space, seed: int, **options: Any) -> Above:
        calls.append(options)
        return Above(space, seed)

    options = {"shape": (1, (np.int64(2), tmp_path)), "limit": float("inf"), "names": {"a": [None, True, (0.5,)]}}
    for evaluations in (4, 4, 6):
        minimize(bowl, SPACE, evaluations, make, out=tmp_path / "out", **options)
    kept = {"shape": [1, [2, str(tmp_path)]], "limit": float("inf"), "names": {"a": [None, True, [0.5]]}}
    assert [options for options in calls if options != kept] == []
    assert len(load_run(tmp_path / "out").trials) == 6


def test_an_argument_may_be_a_number_of_numpy() -> None:
    two = np.int64(2)
    result = minimize(
        bowl, SPACE, two + 1, Seesaw, seed=two, initial_design=two - 1, failures=two, step=np.float64(0.25)
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
        ({"optimizer": Seesaw, "stp": 3}, "optimizer.stp: .*did you mean step"),
        ({"optimizer": Seesaw, "step": "far"}, "optimizer.step = 'far'"),
        ({"optimizer": Seesaw, "step": print}, "step = <built-in"),
        ({"optimizer": Above, "start": {"a": [print]}}, "start = <built-in"),
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
    calls = Counted()

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
