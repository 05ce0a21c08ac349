"""Boosted trees by xgboost: 3 nominal variables, one integer and 4 continuous ones.

An epoch is a boosting round, so a short training is the beginning of a long one.

| | xgb_fashion_mnist | xgb_digits |
|---|---|---|
| data | FashionMNIST, 49,000 + 21,000 images | scikit-learn's digits, 1,257 + 540 |
| rounds of a full training | 50 | 100 |
| objective | the lowest validation error after any round | the validation error after the last round |
| published by | BO-FM | Casmopolitan, MCBO |

As in both published protocols, xgboost's seed is its default, 0: the trial's seed has no effect. base_score is 0.5, as
in the versions of xgboost at the time; later ones start from the shares of the classes, and with a small learning rate
never leave them. Trees use histograms, as in later versions, so values may differ from the papers' in the last digits.

On all images, 50 rounds of depth 6 with learning rate 0.3, subsample 0.8, min_split_loss 0.01 and reg_lambda 1 gave
0.1104 (xgboost 3.2), in five minutes on one core. Deep trees and `dart` are slower.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from fmnas.search_spaces import Evaluation, Integer, Nominal, Real, Space, Trial
from fmnas.trainers.contract import (
    Clock,
    EvaluationStoppedError,
    Report,
    Stop,
    check_trial,
    never_stop,
    no_report,
    optional_module,
)
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings
from fmnas.trainers.split import CLASSES, GUESSING_ERROR, Split
from fmnas.trainers.tables.tables import digits_table, fashion_mnist_table

XGBOOST_CHOICES = (
    Nominal("booster", ("gbtree", "dart")),
    Nominal("grow_policy", ("depthwise", "lossguide")),
    Nominal("loss", ("multi:softmax", "multi:softprob")),
)
"""`loss` is xgboost's parameter `objective`."""

FASHION_MNIST_SPACE = Space(
    [
        Real("learning_rate", 1e-6, 1.0, log=True),
        Real("min_split_loss", 1e-4, 10.0, log=True),
        Real("subsample", 1e-3, 1.0, log=True),
        Real("reg_lambda", 0.0, 5.0),
        Integer("max_depth", 1, 10),
        *XGBOOST_CHOICES,
    ]
)
"""The variables of the BO-FM paper."""

DIGITS_SPACE = Space(
    [
        *XGBOOST_CHOICES,
        Real("learning_rate", 1e-5, 1.0, log=True),
        Integer("max_depth", 1, 10),
        Real("min_split_loss", 0.0, 10.0),
        Real("subsample", 1e-3, 1.0),
        Real("reg_lambda", 0.0, 5.0),
    ]
)
"""The variables of MCBO: only the learning rate has a logarithmic scale."""


class BoostingTrainer:
    """Evaluates trials by boosting for `trial.epochs` rounds, on CPUs.

    The objective is a validation error. `Evaluation.errors` has the error after the last round, `curve` the error after
    each. Same configuration, epochs, data and threads: same evaluation, except its seconds.
    """

    def __init__(
        self, space: Space, split: Split, best_round: bool, threads: int = 1, clock: Clock = time.perf_counter
    ) -> None:
        """space: xgboost's parameters, by their names except `loss`. split: converted to xgboost's format once.

        best_round: whether the objective is the lowest error after any round, or that after the last.
        Raises TrainerError without xgboost.
        """
        self._xgboost = optional_module("xgboost", "boosting")
        self.space, self._best_round, self._threads, self._clock = space, best_round, threads, clock
        matrix = self._xgboost.QuantileDMatrix
        self._train = matrix(split.train_inputs, split.train_labels, nthread=threads)
        self._validation = matrix(split.held_out_inputs, split.held_out_labels, ref=self._train, nthread=threads)

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Boost, with a report after each round; an exception in `report` ends the evaluation and is raised.

        Raises SpaceError for a configuration outside the space, TrainerError for invalid epochs or an invalid seed,
        EvaluationStoppedError once `stop`, called after each round, returns true.
        """
        start = self._clock()
        check_trial(trial, self.space)
        configuration = dict(trial.configuration)
        parameters = {
            "objective": configuration.pop("loss"),
            **configuration,
            "num_class": CLASSES,
            "eval_metric": "merror",
            "tree_method": "hist",
            "seed": 0,
            "base_score": 0.5,
            "nthread": self._threads,
            "verbosity": 0,
        }
        booster = self._xgboost.Booster(parameters, [self._train, self._validation])
        curve: list[float] = []
        for number in range(trial.epochs):
            booster.update(self._train, number)
            curve.append(float(booster.eval(self._validation).rpartition(":")[2]))
            report(0, number + 1, curve[-1])
            if stop():
                raise EvaluationStoppedError(f"trial {trial.id} was cancelled after {number + 1} rounds")
        objective = min(curve) if self._best_round else curve[-1]
        return Evaluation(
            objective, trial.epochs, errors=(curve[-1],), curve=tuple(curve), seconds=self._clock() - start
        )


def xgb_fashion_mnist(settings: ProblemSettings) -> Problem:
    """The problem on FashionMNIST, for settings without missing data keys."""
    data = settings.data
    assert data.train
    assert data.validation
    read = partial(fashion_mnist_table, data.train, data.validation, data.root)
    problem = _problem(FASHION_MNIST_SPACE, "fashion_mnist", read, rounds=50, best_round=True)
    return replace(problem, has_authors_points=True)


def _problem(space: Space, dataset: str, read: Callable[[], Split], rounds: int, best_round: bool) -> Problem:
    def load() -> Split:
        optional_module("xgboost", "boosting")
        return read()

    return Problem(
        space=space,
        build=lambda split, hardware: BoostingTrainer(space, split, best_round, hardware.threads),
        penalty=GUESSING_ERROR,
        epochs=rounds,
        objective=f"The objective is the {'lowest error after any round' if best_round else 'last error'} on "
        "validation images.",
        seeds=1,
        dataset=dataset,
        load=load,
    )


XGB_DIGITS = _problem(DIGITS_SPACE, "digits", digits_table, rounds=100, best_round=False)
XGB_FASHION_MNIST = ConfigurableProblem(xgb_fashion_mnist, {"root": None, "train": 49_000, "validation": 21_000})
