"""The trainer of a problem that is a plain function of the configuration: it has no epochs."""

import math
import time
from collections.abc import Callable

import numpy as np

from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.trainers.errors import TrainerError
from fmnas.trainers.synthetic import Function
from fmnas.trainers.trainer import Report, Stop, check_trial, ignore, never

NOISE = 1e-6
"""The width of the one-sided noise that the published code adds to the functions of `synthetic`."""


class FunctionTrainer:
    """Evaluates trials by calling a function: objective = function(configuration) + noise x U[0, 1).

    The noise is drawn from the trial's seed alone. Epochs are counted, and change nothing.
    """

    def __init__(
        self,
        space: Space,
        function: Function,
        noise: float = NOISE,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """noise: its width, 0 or more; TrainerError otherwise. clock: tells the seconds."""
        if not (math.isfinite(noise) and noise >= 0):
            raise TrainerError(f"noise = {noise}: it must be a finite number of at least 0")
        self.space = space
        self.noise = noise
        self._function = function
        self._clock = clock

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """The function's value, at once: there is nothing to report, and nothing to stop.

        Raises SpaceError outside the space, TrainerError for a value that is not finite.
        """
        start = self._clock()
        check_trial(trial, self.space)
        value = float(self._function(trial.configuration))
        if not math.isfinite(value):
            raise TrainerError(f"trial {trial.id}: the function is {value} at {trial.configuration}; it must be finite")
        draw = np.random.default_rng(np.random.SeedSequence(trial.seed)).random() if self.noise else 0.0
        return Evaluation(value + self.noise * draw, epochs=trial.epochs, seconds=self._clock() - start)
