"""An optimizer of the free variables as one of the whole space: the same suggestions, completed, with any results."""

from collections.abc import Callable

import numpy as np
import pytest

from fmnas.baselines.bohb import BOHB
from fmnas.baselines.random_search import RandomSearch
from fmnas.optimizers import BOFM, Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.subspace import SubspaceOptimizer
from fmnas.search_spaces import Integer, Nominal, Real, Space, Subspace, Trial

SPACE = Space([Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Integer("k", 0, 4), Nominal("op", ["a", "b", "c"])])
MIXED, DISCRETE, CONTINUOUS = {"x": 0.5, "op": "b"}, {"x": 0.5, "y": 0.25}, {"k": 3, "op": "a"}
EPOCHS, ASKS = 3, 9

Make = Callable[[Space], Optimizer]
MAKERS: dict[str, Make] = {
    "bohb": lambda space: BOHB(space, seed=3, epochs=EPOCHS),
    "bo-fm": lambda space: BOFM(space, seed=3, epochs=EPOCHS, initial_design=random_design(space, 2, 1)),
}


def score(trial: Trial) -> float:
    """Of what is free and fixed alike; only differences between trials matter."""
    return 0.1 + sum((i + 1) * SPACE.encode(trial.configuration)[i] for i in range(len(SPACE)))


def run_trials(optimizer: Optimizer, complete: Callable[[Trial], Trial] = lambda trial: trial) -> list[Trial]:
    """Its trials, one of them forgotten. complete: makes of a trial one of the whole space."""
    trials = []
    for number in range(ASKS):
        trial = optimizer.ask()
        if number == 4:
            optimizer.forget(trial)
        else:
            optimizer.tell(trial, score(complete(trial)))
        trials.append(trial)
    return trials


@pytest.mark.parametrize("fixed", [MIXED, DISCRETE, CONTINUOUS], ids=["mixed", "discrete", "continuous"])
@pytest.mark.parametrize("name", MAKERS)
def test_it_suggests_what_the_inner_one_would_and_completes_it(name: str, fixed: dict[str, object]) -> None:
    subspace = Subspace(SPACE, fixed)

    def complete_trial(trial: Trial) -> Trial:
        return Trial(**{**vars(trial), "configuration": subspace.add_fixed(trial.configuration)})

    alone = run_trials(MAKERS[name](subspace.free), complete_trial)
    whole = run_trials(SubspaceOptimizer(subspace, MAKERS[name](subspace.free)))
    assert whole == [complete_trial(trial) for trial in alone]
    for trial in whole:
        SPACE.validate(trial.configuration)
        assert {key: trial.configuration[key] for key in fixed} == fixed


@pytest.mark.parametrize("name", MAKERS)
def test_a_restored_optimizer_continues_the_same(name: str) -> None:
    subspace = Subspace(SPACE, MIXED)
    first = SubspaceOptimizer(subspace, MAKERS[name](subspace.free))
    trials = run_trials(first)
    again = SubspaceOptimizer(subspace, MAKERS[name](subspace.free))
    for number, trial in enumerate(trials):
        again.restore(Trial.from_dict(trial.to_dict()))
        if number == 4:
            again.forget(trial)
        else:
            again.tell(trial, score(trial))
    assert again.ask() == first.ask()
    assert [trial for trial, _ in again.history] == [trial for trial, _ in first.history]


def test_it_waits_where_the_inner_one_waits() -> None:
    class OneByOne(RandomSearch):
        def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
            return None if self.pending else super()._suggest(rng)

    subspace = Subspace(SPACE, MIXED)
    optimizer = SubspaceOptimizer(subspace, OneByOne(subspace.free))
    trial = optimizer.ask()
    assert optimizer.ask() is None
    optimizer.tell(trial, 1.0)
    assert optimizer.ask() is not None


def test_an_optimizer_of_another_space_is_refused() -> None:
    subspace = Subspace(SPACE, MIXED)
    with pytest.raises(
        OptimizerError, match=r"RandomSearch over \['x', 'y', 'k', 'op'\]: it must be over \['y', 'k'\]"
    ):
        SubspaceOptimizer(subspace, RandomSearch(SPACE))
    asked = RandomSearch(subspace.free)
    asked.ask()
    with pytest.raises(OptimizerError, match="not have been asked"):
        SubspaceOptimizer(subspace, asked)


def test_a_result_without_a_logarithm_leaves_the_trial_pending_inside_and_outside() -> None:
    subspace = Subspace(SPACE, MIXED)
    optimizer = SubspaceOptimizer(subspace, BOFM(subspace.free, log_objective=True))
    trial = optimizer.ask()
    with pytest.raises(OptimizerError, match=r"objective -1\.0 with log_objective"):
        optimizer.tell(trial, -1.0)
    assert (list(optimizer.pending), optimizer.history) == ([0], [])
    optimizer.tell(trial, 0.5)
    assert len(optimizer.inner.history) == 1
