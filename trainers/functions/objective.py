"""A function of one's own as a problem: variables, and what it returns is minimised.

    @objective([Real("C", 1e-3, 1e3, log=True), Nominal("kernel", ["linear", "rbf"])])
    def svm(configuration):
        return 1.0 - accuracy(configuration["C"], configuration["kernel"])

The function is given the configuration, and by name what of this it takes:

| parameter | meaning |
|---|---|
| epochs | how long to train: all the epochs, or fewer where an optimizer asks for a short training |
| seed | what to derive randomness from, below 2**32; trial t of a repeat has the same whoever asked for it |
| report | report(epoch, value) after an epoch, counted from 1; there a training ends that must end |
"""

import inspect
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from numbers import Real as RealNumber
from typing import Any

from fmnas.search_spaces import Evaluation, FmnasError, Real, Space, Trial
from fmnas.search_spaces.variables import Discrete, Variable
from fmnas.trainers.contract import (
    DeviceFailedError,
    EvaluationStoppedError,
    Report,
    Stop,
    TrainerError,
    TrainingFailedError,
    check_trial,
    ignore,
    never,
)
from fmnas.trainers.problem import Problem

Function = Callable[..., Any]
OFFERED = ("epochs", "seed", "report")
"""What a function may take beside its configuration."""
SHOWN = 100
"""How many characters of a value a message shows."""
BEGINNING, ENDING = 100, 250
"""How many of an exception's text: packages that sum up many errors put the cause last."""


def objective(
    variables: Space | Iterable[Variable],
    *,
    penalty: float | None = None,
    minimum: float | None = None,
    log_objective: bool = False,
    epochs: int = 1,
    dataset: str = "",
) -> Callable[[Function], Problem]:
    """Makes a function a problem, which a configuration names by "FILE.py:FUNCTION"; `.function` is the function.

    variables: a list of them, or a Space where some combinations are infeasible.
    penalty: the objective that an optimizer is told for a trial that failed; None: the worst it was told so far.
    minimum: the lowest objective there is, where it is known.
    log_objective: whether models see the logarithm; the function must then be above 0.
    epochs: of a full training, for a function that takes them. dataset: what it trains on, for tables and MLflow.
    Raises TrainerError for settings or parameters that cannot be, SpaceError for such variables.
    """
    space = _space(variables)
    _check_settings(penalty, minimum, log_objective, epochs)

    def decorate(function: Function) -> Problem:
        taken = _taken(function)
        if epochs > 1 and "epochs" not in taken:
            raise TrainerError(f"epochs = {epochs}: {_name(function)} takes no epochs: give it the parameter, or leave "
                               "epochs out")  # fmt: skip
        return Problem(
            space=space,
            build=lambda data, hardware: ObjectiveTrainer(space, function, positive=log_objective),
            penalty=penalty,
            epochs=epochs,
            log_objective=log_objective,
            minimum=minimum,
            function=function,
            description=" ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split()),
            dataset=dataset,
        )

    return decorate


class ObjectiveTrainer:
    """Evaluates trials by calling a function that somebody wrote: objective = function(configuration, ...).

    What the function reports is the evaluation's curve where every epoch was reported. It is told to stop in `report`.
    """

    def __init__(
        self,
        space: Space,
        function: Function,
        positive: bool = False,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """positive: whether the objective must be above 0. clock: tells the seconds."""
        self.space = space
        self._function, self._positive, self._clock = function, positive, clock
        self._taken = _taken(function)

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """The number that the function returns.

        Raises SpaceError outside the space, TrainingFailedError where the function raises, TrainerError where it
        returns or reports anything but a finite number, EvaluationStoppedError where it reports and was to stop,
        DeviceFailedError where it used a GPU, by torch, that does not serve this process any more.
        """
        start = self._clock()
        check_trial(trial, self.space)
        values: dict[int, float] = {}
        listener = _listener(values, trial.epochs, report, stop)
        offered = {"epochs": trial.epochs, "seed": trial.seed, "report": listener}
        given = {name: offered[name] for name in self._taken}
        try:
            returned = self._function(dict(trial.configuration), **given)
        except FmnasError:
            raise
        except (Exception, SystemExit) as error:
            if why := _device_failure(error):
                raise DeviceFailedError(why) from error
            raise TrainingFailedError(_told(error, self._function)) from error
        value = finite_number(returned, "it returned")
        if self._positive and value <= 0:
            raise TrainerError(f"it returned {value}: with log_objective it must be above 0")
        curve = tuple(values.values()) if len(values) == trial.epochs else ()
        return Evaluation(value, epochs=trial.epochs, curve=curve, seconds=self._clock() - start)


def _listener(values: dict[int, float], epochs: int, report: Report, stop: Stop) -> Callable[[int, float], None]:
    """The `report` of one evaluation, which puts the value of each epoch among `values`.

    It raises TrainerError for an epoch or a value that cannot be, EvaluationStoppedError where it must stop.
    """

    def listen(epoch: int, value: float) -> None:
        value = finite_number(value, f"it reported for epoch {epoch!r}")
        before = max(values, default=0)
        whole = isinstance(epoch, int) and not isinstance(epoch, bool)
        if not whole or not before < epoch <= epochs:
            raise TrainerError(
                f"it reported epoch {epoch!r} after {before}: epochs are counted from 1 to {epochs}, upwards"
            )
        values[epoch] = value
        report(0, epoch, value)
        if stop():
            raise EvaluationStoppedError(f"it was told to stop after epoch {epoch}")

    return listen


def finite_number(value: Any, who: str) -> float:
    """The value as a float, numpy's and torch's scalars too. Raises TrainerError for what is no finite real number.

    who: begins the message, e.g. "it returned".
    """
    plain = value.item() if getattr(value, "shape", None) == () else value
    if not isinstance(plain, bool) and isinstance(plain, RealNumber):
        try:
            found = float(plain)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    shown = " ".join(repr(plain).split())[:SHOWN]
    raise TrainerError(f"{who} {shown} ({type(value).__name__}): it must be a finite number")


def _space(variables: Any) -> Space:
    if isinstance(variables, Space):
        return variables
    if callable(variables) or not isinstance(variables, Iterable):
        raise TrainerError("@objective needs the variables: write @objective([Real(...), Nominal(...)])")
    listed = list(variables)
    for each in listed:
        if not isinstance(each, Real | Discrete):
            raise TrainerError(f"variable {each!r}: it must be a Real, Integer, Ordinal, Nominal or Graph")
    return Space(listed)


def _check_settings(penalty: float | None, minimum: float | None, log_objective: bool, epochs: int) -> None:
    for name, value in (("penalty", penalty), ("minimum", minimum)):
        if value is not None:
            finite_number(value, f"{name} =")
    if log_objective and penalty is not None and penalty <= 0:
        raise TrainerError(f"penalty = {penalty}: with log_objective it must be above 0")
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise TrainerError(f"epochs = {epochs!r}: it must be a whole number of at least 1")


def _taken(function: Function) -> list[str]:
    """What of OFFERED the function takes. Raises TrainerError for one that cannot be called with it."""
    parameters = list(inspect.signature(function).parameters.values())
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not parameters or parameters[0].kind not in by_position or parameters[0].name in OFFERED:
        raise TrainerError(f"{_name(function)}: its first parameter must be the configuration")
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for each in parameters[1:]:
        if each.name not in OFFERED and each.default is each.empty and each.kind not in optional:
            raise TrainerError(
                f"{_name(function)}: nothing is known of its parameter {each.name!r}; beside the configuration it may "
                f"take {', '.join(OFFERED)}, or others that have a default"
            )
    return [each.name for each in parameters[1:] if each.name in OFFERED]


def _device_failure(error: BaseException) -> str:
    """Why what the function raised is a GPU's failure; empty where it is its own, or it used none by torch."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    from fmnas.trainers.images.devices import device_failure

    return device_failure(error, torch.device("cuda"))


def _name(function: Function) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _ends(text: str) -> str:
    plain = text.strip()
    return plain if len(plain) <= BEGINNING + ENDING else f"{plain[:BEGINNING]} ... {plain[-ENDING:]}"


def _told(error: BaseException, function: Function) -> str:
    """What the function raised, and the line of its file where, which a worker's log alone would have."""
    if isinstance(error, SystemExit):
        what = f"it called sys.exit({error.code!r})"
    else:
        what = ": ".join(part for part in (type(error).__name__, _ends(str(error))) if part)
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{what} ({file.rpartition('/')[2]}, line {lines[-1]})" if lines else what
