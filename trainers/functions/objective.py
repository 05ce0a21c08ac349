"""A user-defined function as a problem: its return value is minimised over the variables.

    @objective([Real("C", 1e-3, 1e3, log=True), Nominal("kernel", ["linear", "rbf"])])
    def svm(configuration):
        return 1.0 - accuracy(configuration["C"], configuration["kernel"])

Beside the configuration, the function may have these parameters:

| parameter | meaning |
|---|---|
| epochs | how long to train: full fidelity, or less if an optimizer uses short trainings |
| seed | source of randomness, below 2**32; the same for trial t of a repeat with any optimizer |
| report | report(epoch, value) after an epoch, from 1; it raises if the evaluation is cancelled |
"""

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Real as RealNumber
from time import perf_counter
from traceback import extract_tb
from typing import Any

import numpy as np

from fmnas.search_spaces import Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.variables import Variable
from fmnas.trainers.contract import (
    Clock,
    DeviceFailedError,
    EvaluationStoppedError,
    Report,
    Stop,
    TrainerError,
    TrainingFailedError,
    check_trial,
    never_stop,
    no_report,
)
from fmnas.trainers.memory import device_failure
from fmnas.trainers.problem import Problem

Function = Callable[..., Any]
OPTIONAL_PARAMETERS = ("epochs", "seed", "report")
EQUAL_WEIGHTS = (1.0, 1.0)
"""The default weights of two objectives."""
MAX_VALUE_CHARS = 100
"""The characters that a message shows of a value."""
FIRST_CHARS, LAST_CHARS = 100, 250
"""The characters that a message shows of a long exception: packages that summarise many errors put the cause last."""


def objective(
    variables: Space | Iterable[Variable],
    *,
    penalty: float | None = None,
    minimum: float | None = None,
    log_objective: bool = False,
    epochs: int = 1,
    dataset: str = "",
    objectives: Mapping[str, float] | None = None,
    weights: Sequence[float] = EQUAL_WEIGHTS,
) -> Callable[[Function], Problem]:
    """Turn a function into a problem, for configs "FILE.py:FUNCTION"; `.function` is the function itself.

    variables: a list, or a Space with constraints.
    penalty: the objective reported to an optimizer for a failed trial; None: the worst one observed.
    minimum: the known optimum. log_objective: whether models see the logarithm; the values must then be above 0.
    epochs: full fidelity, for a function with that parameter. dataset: name of its data, for reports and MLflow.
    objectives: of a function that returns two numbers, their names and values in the reference point of the
    hypervolume. weights: of the sum of the two that optimizers of one objective minimise.
    Raises TrainerError for invalid settings or parameters, SpaceError for invalid variables.
    """
    space = variables if isinstance(variables, Space) else Space(variables)
    for name, value in (("penalty", penalty), ("minimum", minimum)):
        if value is not None:
            finite_number(value, f"{name} =")
            if log_objective and (value < 0 or (name == "penalty" and value == 0)):
                raise TrainerError(f"{name} = {value}: with log_objective objectives are above 0")
    if type(epochs) is not int or epochs < 1:
        raise TrainerError(f"epochs = {epochs!r}: it must be an integer of at least 1")

    two = _two_objectives(objectives or {}, weights)

    def decorate(function: Function) -> Problem:
        if "epochs" not in _accepted_parameters(function) and epochs > 1:
            raise TrainerError(f"epochs = {epochs}: the function has no parameter epochs; add it, or omit epochs")
        return Problem(
            space=space,
            build=lambda data, hardware: FunctionTrainer(space, function, positive=log_objective, weights=two),
            penalty=penalty,
            epochs=epochs,
            log_objective=log_objective,
            minimum=minimum,
            function=function,
            description=" ".join((inspect.getdoc(_inner(function)) or "").partition("\n\n")[0].split()),
            dataset=dataset,
            objective=weighted_sum(objectives, weights) if objectives else Problem.objective,
            objectives=dict(objectives or {}),
        )

    return decorate


class FunctionTrainer:
    """Evaluates trials by a function: objective = function(configuration, ...) + noise x U[0, 1), by its seed.

    With weights the function returns a number for each, and the objective is their weighted sum.
    The reported values are the evaluation's curve if every epoch was reported. Cancellation raises in `report`.
    """

    def __init__(
        self,
        space: Space,
        function: Function,
        noise: float = 0.0,
        positive: bool = False,
        clock: Clock = perf_counter,
        weights: Sequence[float] = (),
    ) -> None:
        """noise: its width, 0 or more. positive: whether the objective must be above 0."""
        self.space, self.noise = space, noise
        self._function, self._positive, self._clock = function, positive, clock
        self._weights = tuple(weights)
        self._parameters = _accepted_parameters(function)

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Call the function.

        Raises SpaceError outside the space, TrainingFailedError if the function raises, TrainerError if it returns or
        reports anything but a finite number, EvaluationStoppedError if it reports and `stop` returns true,
        DeviceFailedError if it uses a GPU by torch that has failed.
        """
        start = self._clock()
        check_trial(trial, self.space)
        curve: dict[int, float] = {}
        listener = _listener(curve, trial.epochs, report, stop)
        optional = {"epochs": trial.epochs, "seed": trial.seed, "report": listener}
        try:
            result = self._function(dict(trial.configuration), **{name: optional[name] for name in self._parameters})
        except FmnasError:
            raise
        except (Exception, SystemExit) as error:
            if failure := device_failure(error):
                raise DeviceFailedError(failure) from error
            raise TrainingFailedError(_failure_message(error, self._function)) from error
        several = _numbers(result, len(self._weights)) if self._weights else ()
        if several:
            result = sum(weight * number for weight, number in zip(self._weights, several, strict=True))
        value = finite_number(result, "the weighted sum of what it returned is" if several else "it returned")
        if self._positive and value <= 0:
            raise TrainerError(f"it returned {value}: with log_objective it must be above 0")
        if self.noise:
            value += self.noise * np.random.default_rng(np.random.SeedSequence(trial.seed)).random()
        reported = tuple(curve.values()) if len(curve) == trial.epochs else ()
        seconds = self._clock() - start
        return Evaluation(value, epochs=trial.epochs, curve=reported, seconds=seconds, values=several)


def _listener(values: dict[int, float], epochs: int, report: Report, stop: Stop) -> Callable[[int, float], None]:
    """The `report` of one evaluation, which adds the value of each epoch to `values`.

    It raises TrainerError for an invalid epoch or value, EvaluationStoppedError if the evaluation is cancelled.
    """

    def listen(epoch: Any, value: float) -> None:
        value = finite_number(value, f"for epoch {epoch!r} it reported")
        previous = max(values, default=0)
        if isinstance(epoch, bool) or not isinstance(epoch, int | np.integer) or not previous < epoch <= epochs:
            raise TrainerError(
                f"it reported epoch {epoch!r} after {previous}: epochs must be integers from 1 to {epochs}, increasing"
            )
        values[int(epoch)] = value
        report(0, int(epoch), value)
        if stop():
            raise EvaluationStoppedError(f"cancelled after epoch {epoch}")

    return listen


def finite_number(value: Any, what: str) -> float:
    """The value as a float; also for scalars of numpy and torch. Raises TrainerError unless it is a finite real number.

    what: the beginning of the message, e.g. "it returned".
    """
    plain = value.item() if getattr(value, "shape", None) == () else value
    with suppress(OverflowError):
        if not isinstance(plain, bool) and isinstance(plain, RealNumber) and math.isfinite(plain):
            return float(plain)
    text = " ".join(repr(plain).split())[:MAX_VALUE_CHARS]
    raise TrainerError(f"{what} {text} ({type(value).__name__}): it must be a finite number")


def _numbers(result: Any, count: int) -> tuple[float, ...]:
    """The numbers that a function returned together. Raises TrainerError unless there are `count`, all finite."""
    result = result.tolist() if hasattr(result, "tolist") else result  # an array of numpy or torch
    if not isinstance(result, Sequence) or isinstance(result, str) or len(result) != count:
        raise TrainerError(
            f"it returned {repr(result)[:MAX_VALUE_CHARS]} ({type(result).__name__}): with {count} objectives it must "
            f"return {count} numbers, e.g. a tuple"
        )
    return tuple(finite_number(number, f"as objective {i} it returned") for i, number in enumerate(result, start=1))


def weighted_sum(objectives: Mapping[str, float], weights: Sequence[float] = EQUAL_WEIGHTS) -> str:
    """A sentence on the objective of a problem with several, for `Problem.objective`."""
    terms = (f"{weight:g} x {name}" for name, weight in zip(objectives, weights, strict=True))
    return f"The objective of optimizers of one objective is {' + '.join(terms)}."


def _two_objectives(objectives: Mapping[str, float], weights: Sequence[float]) -> Sequence[float]:
    """The weights if there are objectives. Raises TrainerError unless there are two of each, all finite numbers."""
    is_readable = isinstance(objectives, Mapping) and isinstance(weights, Collection)
    if not is_readable or (objectives and (len(objectives), len(weights)) != (2, 2)):
        raise TrainerError(
            f"objectives = {objectives!r}, weights = {weights!r}: give none or two names with their values in "
            'the reference point, e.g. {"error": 1.0, "seconds": 60.0}, and two weights'
        )
    for name, value in objectives.items():
        finite_number(value, f"objectives: {name} =")
    for weight in weights:
        finite_number(weight, "weights: one is")
    return weights if objectives else ()


def _accepted_parameters(function: Function) -> list[str]:
    """Those of OPTIONAL_PARAMETERS that the function has. Raises TrainerError if it cannot be called with them."""
    if not callable(function):
        raise TrainerError(f"{function!r}: pass a function of the configuration, without calling it")
    try:
        signature = inspect.signature(function)
    except ValueError:
        raise TrainerError(f"{function!r} does not say which parameters it has: wrap it in a Python function") from None
    names = [name for name in OPTIONAL_PARAMETERS if name in signature.parameters]
    try:
        signature.bind({}, **dict.fromkeys(names))
    except TypeError as error:
        raise TrainerError(
            f"{getattr(function, '__name__', function)}{signature}: {error}; its first parameter must be the "
            f"configuration, and the others any of {', '.join(OPTIONAL_PARAMETERS)} or have a default"
        ) from None
    return names


def _inner(function: Function) -> Function:
    """The function that a partial completes; any other itself."""
    return function.func if isinstance(function, partial) else function


def _failure_message(error: BaseException, function: Function) -> str:
    """The exception, shortened, and the line of the function's file that raised it."""
    text = str(error).strip()
    if len(text) > FIRST_CHARS + LAST_CHARS:
        text = f"{text[:FIRST_CHARS]} ... {text[-LAST_CHARS:]}"
    message = ": ".join(part for part in (type(error).__name__, text) if part)
    file = getattr(getattr(_inner(function), "__code__", None), "co_filename", "")
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == file]
    return f"{message} ({file.rpartition('/')[2]}, line {lines[-1]})" if lines else message
