"""A user-defined function: its arguments, what it may return and report, and what the decorator refuses."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.problems import problem
from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, Nominal, Real, Space, SpaceError, Trial
from fmnas.trainers import DeviceFailedError, EvaluationStoppedError, TrainerError, TrainingFailedError, objective
from fmnas.trainers.functions import objective as module
from fmnas.trainers.functions.objective import OPTIONAL_PARAMETERS, FunctionTrainer, finite_number

VARIABLES = [Real("x", 0.0, 1.0), Nominal("op", ["a", "b"])]
TRIAL = Trial(4, {"x": 0.25, "op": "b"}, epochs=3, origin="random", seed=11)


def trainer(function: Callable[..., Any], positive: bool = False, noise: float = 0.0) -> FunctionTrainer:
    ticks = itertools.count()
    return FunctionTrainer(Space(VARIABLES), function, noise, positive, clock=lambda: float(next(ticks)))


def reporting(*epochs: Any, value: Any = 0.5) -> FunctionTrainer:
    """Of a function that reports the value for these epochs."""

    def trains(configuration: dict[str, Any], report: Callable[[Any, Any], None]) -> float:
        for epoch in epochs:
            report(epoch, value)
        return 0.3

    return trainer(trains)


def test_a_decorated_function_is_a_problem() -> None:
    @objective(VARIABLES, penalty=2.0, minimum=0.0, epochs=3, dataset="a table")
    def mine(configuration: dict[str, Any], epochs: int) -> float:
        return float(configuration["x"])

    assert mine.space == Space(VARIABLES)
    assert (mine.penalty, mine.minimum, mine.epochs, mine.dataset, mine.seeds) == (2.0, 0.0, 3, "a table", 0)
    assert mine.trainer.evaluate(TRIAL).objective == 0.25
    assert mine.function({"x": 0.5}, epochs=1) == 0.5  # type: ignore[misc, call-arg]


@pytest.mark.parametrize("names", [(), ("seed",), ("report", "epochs"), OPTIONAL_PARAMETERS])
def test_it_is_called_with_the_parameters_that_it_has(names: tuple[str, ...]) -> None:
    arguments: dict[str, Any] = {}
    scope: dict[str, Any] = {"arguments": arguments}
    exec(f"def f(c, {', '.join(names)}):\n    arguments.update(locals())\n    return c.pop('x')", scope)
    assert trainer(scope["f"]).evaluate(TRIAL) == Evaluation(0.25, epochs=3, seconds=1.0)
    assert arguments["c"] == {"op": "b"}
    assert TRIAL.configuration == {"x": 0.25, "op": "b"}, "the function has a copy"
    expected = {"epochs": 3, "seed": 11}
    assert all(arguments[name] == expected[name] for name in names if name in expected)


@pytest.mark.parametrize("one", [1, 1.0, np.float32(1), np.int64(1), np.array(1.0), torch.tensor(1.0), Fraction(1)])
def test_any_real_number_is_valid(one: Any) -> None:
    number = finite_number(one, "it returned")
    assert type(number) is float
    assert number == 1.0


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, np.bool_(True), np.complex128(1), np.float64("nan"), -math.inf, 10**400),
        *([0.5], np.array([0.5]), torch.tensor([0.5]), "x" * 10**6),
    ],
)
def test_anything_else_is_named(value: Any) -> None:
    for evaluate in (trainer(lambda configuration: value).evaluate, reporting(1, value=value).evaluate):
        with pytest.raises(TrainerError, match=rf"\({type(value).__name__}\)") as caught:
            evaluate(TRIAL)
        assert len(str(caught.value)) < 200


def test_with_a_logarithm_it_must_be_positive() -> None:
    assert trainer(lambda configuration: 0.1, positive=True).evaluate(TRIAL).objective == 0.1
    with pytest.raises(TrainerError, match=r"0\.0.*log_objective"):
        trainer(lambda configuration: 0, positive=True).evaluate(TRIAL)


def _raises(configuration: dict[str, Any]) -> float:
    raise ValueError("no such kernel\n" + "x" * 10_000 + "the cause")


def _exits(configuration: dict[str, Any]) -> float:
    raise SystemExit("enough")


@pytest.mark.parametrize(
    ("function", "text"), [(_raises, "ValueError: no such kernel"), (_exits, "SystemExit: enough")]
)
@pytest.mark.parametrize("wrap", [lambda function: function, partial])
def test_an_exception_is_reported_with_its_line(
    function: Callable[..., float], text: str, wrap: Callable[[Any], Any]
) -> None:
    with pytest.raises(TrainingFailedError, match=text) as caught:
        trainer(wrap(function)).evaluate(TRIAL)
    line = function.__code__.co_firstlineno + 1
    assert str(caught.value).endswith(f"(test_objective.py, line {line})")
    assert len(str(caught.value)) < 500
    assert function is _exits or "the cause" in str(caught.value), "the end of a long message is kept"


def test_a_gpu_that_failed_is_not_the_trials_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "device_failure", lambda error: "cuda failed" * ("kernel" in str(error)))
    with pytest.raises(DeviceFailedError, match="cuda failed"):
        trainer(_raises).evaluate(TRIAL)
    with pytest.raises(TrainingFailedError, match="enough"):
        trainer(_exits).evaluate(TRIAL)


@given(st.sets(st.integers(1, 3)))
def test_reports_of_all_epochs_are_the_curve(epochs: set[int]) -> None:
    reports: list[tuple[int, int, float]] = []
    evaluation = reporting(*sorted(epochs)).evaluate(TRIAL, report=lambda *report: reports.append(report))
    assert evaluation.curve == ((0.5,) * 3 if len(epochs) == 3 else ())
    assert reports == [(0, epoch, 0.5) for epoch in sorted(epochs)]


@pytest.mark.parametrize("epochs", [[0], [4], [2, 2], [2, 1], [1.0], [True], ["1"]])
def test_epochs_must_increase(epochs: list[Any]) -> None:
    with pytest.raises(TrainerError, match=rf"epoch {epochs[-1]!r} .* 1 to 3"):
        reporting(*epochs).evaluate(TRIAL)


def test_epochs_may_be_numpys() -> None:
    assert reporting(*np.arange(1, 4)).evaluate(TRIAL).curve == reporting(1, 2, 3).evaluate(TRIAL).curve


def test_cancellation_raises_in_report() -> None:
    with pytest.raises(EvaluationStoppedError):
        reporting(1, 99).evaluate(TRIAL, stop=lambda: True)


def test_a_space_with_constraints_is_used() -> None:
    space = Space([Integer("a", 0, 3), Integer("b", 0, 3)], [LinearConstraint({"a": 1, "b": 1}, bound=2)])
    constrained = objective(space)(lambda configuration: 0.0)
    assert constrained.space is space
    with pytest.raises(SpaceError):
        constrained.trainer.evaluate(Trial(0, {"a": 3, "b": 3}, 1, "random"))


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: objective(lambda configuration: 0.0), "variables"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES[0]), "variables"),  # type: ignore[arg-type]
        (lambda: objective(["x"]), "['x']"),  # type: ignore[list-item]
        (lambda: objective([VARIABLES[0], VARIABLES[0]]), "['x']"),
        (lambda: objective(VARIABLES, penalty=math.nan), "penalty = nan"),
        (lambda: objective(VARIABLES, minimum="low"), "minimum = 'low'"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES, penalty=0.0, log_objective=True), "penalty = 0.0"),
        (lambda: objective(VARIABLES, minimum=-1.0, log_objective=True), "minimum = -1.0"),
        (lambda: objective({"x": (0, 1)}), "Real("),  # type: ignore[dict-item]
        (lambda: objective(5), "Real("),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES, epochs=0), "epochs = 0"),
        (lambda: objective(VARIABLES, objectives={"a": 1.0, "b": 2.0}, weights=3), "weights = 3"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES, objectives=["a", "b"]), "objectives = ['a', 'b']"),  # type: ignore[arg-type]
        (lambda: objective(VARIABLES, epochs=5)(_raises), "epochs = 5"),
        (lambda: objective(VARIABLES)(lambda: 0.0), "too many positional arguments"),
        (lambda: objective(VARIABLES)(lambda seed: 0.0), "multiple values for argument 'seed'"),
        (lambda: objective(VARIABLES)(lambda x, op: 0.0), "argument: 'op'"),
    ],
)
def test_invalid_settings_are_refused(make: Callable[[], Any], key: str) -> None:
    with pytest.raises((TrainerError, SpaceError)) as caught:
        make()
    assert key in str(caught.value)


def test_a_function_is_described_by_its_docstring() -> None:
    def multiply(configuration: dict[str, Any], scale: float) -> float:
        """Twice
        x.

        More.
        """
        return scale * float(configuration["x"])

    doubled = objective(VARIABLES)(partial(multiply, scale=2.0))
    assert doubled.description == "Twice x."
    assert doubled.trainer.evaluate(TRIAL).objective == 0.5
    assert objective(VARIABLES)(_raises).description == ""


def test_parameters_with_defaults_are_not_set() -> None:
    defaults = objective(VARIABLES)(lambda configuration, folds=5, **more: float(folds + len(more)))
    assert defaults.trainer.evaluate(TRIAL).objective == 5.0


def test_noise_is_one_sided_uniform_and_fixed_by_the_seed() -> None:
    noisy = trainer(lambda configuration: 0.0, noise=2.0)
    draws = np.array([noisy.evaluate(replace(TRIAL, seed=seed)).objective for seed in range(40)])
    assert 0.0 <= draws.min() < 0.3 < 1.7 < draws.max() < 2.0
    assert len(set(draws)) == 40
    assert noisy.evaluate(replace(TRIAL, seed=7)).objective == draws[7]


@pytest.mark.parametrize("name", ["func2c", "func3c", "ackley5c", "ackley53c", "ackley53c_gebo"])
def test_noise_is_that_of_the_published_code(name: str) -> None:
    assert problem(name).trainer.noise == (1e-6 / 3 if name == "ackley53c_gebo" else 1e-6)
