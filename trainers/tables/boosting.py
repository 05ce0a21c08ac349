"""The trainer of boosted trees: xgboost, tuned in 3 nominal variables, one integer and 4 continuous ones.

An epoch is a boosting round: so a short training is the beginning of a long one, and its error is that of its rounds.

| | xgb_fashion_mnist | xgb_digits |
|---|---|---|
| data | FashionMNIST, 49,000 + 21,000 images | scikit-learn's digits, 1,257 + 540 |
| rounds of a full training | 50 | 100 |
| objective | the lowest validation error after any round | the validation error after the last round |
| published by | BO-FM | Casmopolitan, MCBO |

Both published protocols leave xgboost's seed at its default, 0, and so does this: the trial's seed changes nothing.
All classes start alike (base_score 0.5), as in the versions of xgboost at the time; later ones start from the classes'
shares, and with a small learning rate they never get away from there. Trees grow by histograms, as later versions have
it: the papers' values need not be met to the last digit.

`xgb_fashion_mnist_small` is the protocol of xgb_fashion_mnist on 6,000 + 3,000 of the images, as many of each class:
another problem, of which nothing is published, and whose values are never compared with those of all images.

On all of FashionMNIST, 50 rounds of depth 6 with learning rate 0.3, subsample 0.8, min_split_loss 0.01 and reg_lambda 1
gave 0.1104 (xgboost 3.2), in five minutes on one core. On the part they gave 0.1437 in 47 seconds: its 784 features
cost more than its rows. Deep trees take longer, and so does `dart`, which looks at all earlier trees in each round.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fmnas.search_spaces import Evaluation, Integer, Nominal, Real, Space, Trial
from fmnas.trainers.contract import (
    EvaluationStoppedError,
    Report,
    Stop,
    TrainerError,
    check_trial,
    ignore,
    never,
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
"""`loss` is what xgboost calls objective: here that is what is minimised."""


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
"""The BO-FM paper's."""

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
"""MCBO's: only the learning rate is on a logarithmic scale."""


class BoostingTrainer:
    """Evaluates trials by boosting for `trial.epochs` rounds, on CPUs.

    The objective is a share of validation images. `Evaluation.errors` holds the error after the last round, `curve`
    that after each. Same configuration, epochs, data and threads: the same evaluation, its seconds apart.
    """

    def __init__(
        self,
        space: Space,
        split: Split,
        best_round: bool,
        threads: int = 1,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """space: of xgboost's parameters, by their names there but for `loss`. split: put into xgboost's form once.

        best_round: whether the objective is the lowest error after any round, or that after the last.
        threads: that xgboost uses. clock: tells the seconds.
        Raises TrainerError without xgboost, or for less than one thread.
        """
        if threads < 1:
            raise TrainerError(f"threads = {threads}: it must be at least 1")
        self._xgboost = optional_module("xgboost", "boosting")
        self.space = space
        self._best_round = best_round
        self._threads = threads
        self._clock = clock
        matrix = self._xgboost.QuantileDMatrix
        self._train = matrix(split.train_inputs, split.train_labels, nthread=threads)
        self._validation = matrix(split.held_out_inputs, split.held_out_labels, ref=self._train, nthread=threads)

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        """Boost; reports after each round. What `report` raises ends the evaluation and reaches the caller.

        Raises SpaceError for a configuration outside the space, TrainerError for epochs or a seed that cannot be,
        EvaluationStoppedError once `stop`, asked after each round, says yes.
        """
        start = self._clock()
        check_trial(trial, self.space)
        curve: list[float] = []

        def after_round(error: float) -> None:
            curve.append(error)
            report(0, len(curve), error)
            if stop():
                raise EvaluationStoppedError(f"trial {trial.id} was stopped after {len(curve)} rounds")

        self._xgboost.train(
            self._parameters(trial),
            self._train,
            num_boost_round=trial.epochs,
            evals=[(self._validation, "validation")],
            verbose_eval=False,
            callbacks=[_listener(self._xgboost, after_round)],
        )
        objective = min(curve) if self._best_round else curve[-1]
        return Evaluation(
            objective, trial.epochs, errors=(curve[-1],), curve=tuple(curve), seconds=self._clock() - start
        )

    def _parameters(self, trial: Trial) -> dict[str, Any]:
        parameters = dict(trial.configuration)
        return {
            "objective": parameters.pop("loss"),
            **parameters,
            "num_class": CLASSES,
            "eval_metric": "merror",
            "tree_method": "hist",
            "seed": 0,
            "base_score": 0.5,
            "nthread": self._threads,
            "verbosity": 0,
        }


def _listener(xgboost: Any, after_round: Callable[[float], None]) -> Any:
    """A callback of xgboost's that passes each round's validation error on."""

    class Listener(xgboost.callback.TrainingCallback):  # type: ignore[misc]  # a class only where xgboost is there
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            after_round(float(evals_log["validation"]["merror"][-1]))
            return False  # go on

    return Listener()


def xgb_fashion_mnist(settings: ProblemSettings, name: str = "xgb_fashion_mnist") -> Problem:
    """On FashionMNIST; the settings' data are complete. name: of the problem."""
    data = settings.data
    assert data.train is not None
    assert data.validation is not None
    read = partial(fashion_mnist_table, data.train, data.validation, data.path)
    problem = _problem(name, FASHION_MNIST_SPACE, "fashion_mnist", read, rounds=50, best_round=True)
    return replace(problem, has_authors_points=name == "xgb_fashion_mnist")


def _problem(
    name: str, space: Space, dataset: str, read: Callable[[], Split], rounds: int, best_round: bool
) -> Problem:
    def load() -> Split:
        optional_module("xgboost", f"problem {name}")
        return read()

    return Problem(
        space=space,
        build=lambda split, hardware: BoostingTrainer(space, split, best_round, hardware.threads),
        penalty=GUESSING_ERROR,
        epochs=rounds,
        objective=f"The objective is the {'lowest error after any round' if best_round else 'last error'} on images "
        "that the trees were not trained on.",
        seeds=1,
        dataset=dataset,
        load=load,
    )


XGB_DIGITS = _problem("xgb_digits", DIGITS_SPACE, "digits", digits_table, rounds=100, best_round=False)
XGB_FASHION_MNIST = ConfigurableProblem(xgb_fashion_mnist, {"root": None, "train": 49_000, "validation": 21_000})
XGB_FASHION_MNIST_SMALL = ConfigurableProblem(
    partial(xgb_fashion_mnist, name="xgb_fashion_mnist_small"), {"root": None, "train": 6_000, "validation": 3_000}
)
