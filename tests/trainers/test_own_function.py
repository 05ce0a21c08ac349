"""A function of one's own: what it is given, what it may return and report, and how the decorator refuses."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, Nominal, Real, Space, SpaceError, Trial
from fmnas.trainers import DeviceFailedError, EvaluationStoppedError, TrainerError, TrainingFailedError, objective
from fmnas.trainers.functions.objective import OFFERED, ObjectiveTrainer, finite_number
from fmnas.trainers.images import devices

VARIABLES = [Real("x", 0.0, 1.0), Nominal("op", ["a", "b"])]
TRIAL = Trial(4, {"x": 0.25, "op": "b"}, epochs=3, origin="random", seed=11)


def trainer(function: Callable[..., Any], positive: bool = False) -> ObjectiveTrainer:
    ticks = iter(range(100))
    return ObjectiveTrainer(Space(VARIABLES), function, positive, clock=lambda: float(next(ticks)))


def test_the_decorated_function_is_a_problem() -> None:
    @objective(VARIABLES, penalty=2.0, minimum=0.0, epochs=3, dataset="a table")
    def mine(configuration: dict[str, Any], epochs: int) -> float:
        return float(configuration["x"])

    assert mine.space == Space(VARIABLES)
    assert (mine.penalty, mine.minimum, mine.epochs, mine.dataset, mine.seeds) == (2.0, 0.0, 3, "a table", 0)
    assert mine.trainer.evaluate(TRIAL).objective == 0.25
    assert mine.function is not None
    assert mine.function({"x": 0.5}, epochs=1) == 0.5  # type: ignore[call-arg]  # with what it takes


@pytest.mark.parametrize("taken", [(), ("seed",), ("report", "epochs"), OFFERED])
def test_it_is_given_what_it_takes_by_name(taken: tuple[str, ...]) -> None:
    heard: dict[str, Any] = {}
    scope: dict[str, Any] = {"heard": heard}
    exec(f"def f(c, {', '.join(taken)}):\n    heard.update(locals())\n    return c['x']", scope)
    evaluation = trainer(scope["f"]).evaluate(TRIAL)
    assert evaluation == Evaluation(0.25, epochs=3, seconds=1.0)
    assert heard["c"] == TRIAL.configuration
    assert {name: heard[name] for name in ("epochs", "seed") if name in taken} == {
        name: value for name, value in (("epochs", 3), ("seed", 11)) if name in taken
    }


def test_it_cannot_change_the_trial() -> None:
    def changes(configuration: dict[str, Any]) -> float:
        return float(configuration.pop("x"))

    trainer(changes).evaluate(TRIAL)
    assert TRIAL.configuration == {"x": 0.25, "op": "b"}


@pytest.mark.parametrize("one", [1, 1.0, np.float32(1), np.int64(1), np.array(1.0), torch.tensor(1.0), Fraction(1)])
def test_any_real_number_will_do(one: Any) -> None:
    found = finite_number(one, "it returned")
    assert type(found) is float
    assert found == 1.0


@pytest.mark.parametrize(
    "odd",
    [
        *(None, "0.5", True, np.bool_(True), 1j, np.complex128(1), math.nan, np.float64("nan"), -math.inf, 10**400),
        *([0.5], np.array([0.5]), torch.tensor([0.5]), torch.tensor(True), "x" * 10**6),
    ],
)
def test_anything_else_is_named(odd: Any) -> None:
    with pytest.raises(
        TrainerError, match=rf"^it returned .*\({type(odd).__name__}\): it must be a finite number"
    ) as e:
        trainer(lambda configuration: odd).evaluate(TRIAL)
    assert len(str(e.value)) < 200


def test_with_a_logarithm_it_must_be_positive() -> None:
    assert trainer(lambda configuration: 0.1, positive=True).evaluate(TRIAL).objective == 0.1
    with pytest.raises(TrainerError, match=r"returned 0\.0: with log_objective"):
        trainer(lambda configuration: 0, positive=True).evaluate(TRIAL)


def _raises(configuration: dict[str, Any]) -> float:
    raise ValueError("no such kernel\n" + "x" * 10_000)


def _leaves(configuration: dict[str, Any]) -> float:
    raise SystemExit("enough")


@pytest.mark.parametrize(("function", "words"), [(_raises, "ValueError: no such kernel"), (_leaves, "'enough'")])
def test_what_it_raises_is_told_with_its_line(function: Callable[..., float], words: str) -> None:
    with pytest.raises(TrainingFailedError) as caught:
        trainer(function).evaluate(TRIAL)
    assert words in str(caught.value)
    assert str(caught.value).endswith(f"(test_own_function.py, line {function.__code__.co_firstlineno + 1})")
    assert len(str(caught.value)) < 400


def test_of_a_long_message_the_end_is_told_too() -> None:
    """Packages that sum up many errors put the cause last."""

    def sums_up(configuration: dict[str, Any]) -> float:
        raise ValueError("All the 5 fits failed.\n" + "-" * 1000 + "\nValueError: max_depth must be positive")

    with pytest.raises(TrainingFailedError) as caught:
        trainer(sums_up).evaluate(TRIAL)
    assert "All the 5 fits failed." in str(caught.value)
    assert "ValueError: max_depth must be positive (test_own_function.py, line" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_gpu_that_failed_is_not_the_trials_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"no such kernel": "cuda does not answer any more"}
    monkeypatch.setattr(devices, "device_failure", lambda error, device: told.get(str(error).splitlines()[0], ""))
    with pytest.raises(TrainingFailedError):  # it used none
        trainer(_raises).evaluate(TRIAL)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(DeviceFailedError, match="does not answer"):
        trainer(_raises).evaluate(TRIAL)
    with pytest.raises(TrainingFailedError, match="enough"):
        trainer(_leaves).evaluate(TRIAL)


def test_reports_are_the_curve_and_are_passed_on() -> None:
    def trains(configuration: dict[str, Any], epochs: int, report: Callable[[int, float], None]) -> float:
        for epoch in range(1, epochs + 1):
            report(epoch, 1 / epoch)
        return 0.3

    heard: list[tuple[int, int, float]] = []
    evaluation = trainer(trains).evaluate(TRIAL, report=lambda *told: heard.append(told))
    assert evaluation.curve == (1.0, 0.5, 1 / 3)
    assert heard == [(0, 1, 1.0), (0, 2, 0.5), (0, 3, 1 / 3)]


@given(st.sets(st.integers(1, 3)))
def test_a_curve_with_gaps_is_none(epochs: set[int]) -> None:
    def trains(configuration: dict[str, Any], report: Callable[[int, float], None]) -> float:
        for epoch in sorted(epochs):
            report(epoch, 0.5)
        return 0.5

    assert trainer(trains).evaluate(TRIAL).curve == ((0.5,) * 3 if len(epochs) == 3 else ())


@pytest.mark.parametrize("epochs", [[0], [4], [2, 2], [2, 1], [1.0], [True], ["1"]])
def test_epochs_are_counted_upwards(epochs: list[Any]) -> None:
    def trains(configuration: dict[str, Any], report: Callable[[Any, float], None]) -> float:
        for epoch in epochs:
            report(epoch, 0.5)
        return 0.5

    with pytest.raises(TrainerError, match=r"reported epoch .*counted from 1 to 3"):
        trainer(trains).evaluate(TRIAL)


def test_a_report_of_no_number_is_named() -> None:
    def trains(configuration: dict[str, Any], report: Callable[[int, Any], None]) -> float:
        report(1, None)
        return 0.5

    with pytest.raises(TrainerError, match="it reported for epoch 1 None"):
        trainer(trains).evaluate(TRIAL)


def test_it_ends_in_report_when_it_must_stop() -> None:
    def trains(configuration: dict[str, Any], report: Callable[[int, float], None]) -> float:
        report(1, 0.5)
        raise AssertionError("it went on")

    with pytest.raises(EvaluationStoppedError):
        trainer(trains).evaluate(TRIAL, stop=lambda: True)


def test_a_space_with_constraints_will_do() -> None:
    space = Space([Integer("a", 0, 3), Integer("b", 0, 3)], [LinearConstraint({"a": 1, "b": 1}, bound=2)])
    made = objective(space)(lambda configuration: 0.0)
    assert made.space is space
    with pytest.raises(SpaceError, match="infeasible"):
        made.trainer.evaluate(Trial(0, {"a": 3, "b": 3}, 1, "random"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: objective(lambda configuration: 0.0), "needs the variables"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES[0]), "needs the variables"),  # type: ignore[arg-type]
        (lambda: objective(["x"]), "variable 'x': it must be a Real"),  # type: ignore[list-item]
        (lambda: objective([VARIABLES[0], VARIABLES[0]]), "given twice: ['x']"),
        (lambda: objective(VARIABLES, penalty=math.nan), "penalty = nan"),
        (lambda: objective(VARIABLES, minimum="low"), "minimum = 'low'"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES, penalty=0.0, log_objective=True), "penalty = 0.0: with log_objective"),
        (lambda: objective(VARIABLES, epochs=0), "epochs = 0"),
        (lambda: objective(VARIABLES, epochs=5)(_raises), "_raises takes no epochs"),
        (lambda: objective(VARIABLES)(lambda: 0.0), "first parameter must be the configuration"),
        (lambda: objective(VARIABLES)(lambda seed: 0.0), "first parameter must be the configuration"),
        (lambda: objective(VARIABLES)(lambda x, op: 0.0), "its parameter 'op'; beside the configuration it may take"),
    ],
)
def test_what_cannot_be_is_refused_at_once(make: Callable[[], Any], words: str) -> None:
    with pytest.raises((TrainerError, SpaceError)) as caught:
        make()
    assert words in str(caught.value)


def test_parameters_with_defaults_are_left_alone() -> None:
    made = objective(VARIABLES)(lambda configuration, folds=5, **more: float(folds + len(more)))
    assert made.trainer.evaluate(TRIAL).objective == 5.0
