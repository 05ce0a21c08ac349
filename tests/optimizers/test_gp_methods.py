"""What a newcomer writes for a new method with a Gaussian process: a kernel; every promise of an optimizer is kept."""

import json
import pickle

import pytest
from torch import Tensor

from fmnas.optimizers import BayesianOptimizer, OptimizerError, random_design
from fmnas.optimizers.bayesian import ModelSettings
from fmnas.optimizers.gp.autograd_kernel import AutogradKernel, squared_distance
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.kernel import Kernel, matern52
from fmnas.optimizers.gp.parameters import LogNormal, Parameter, Uniform, Values
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, Nominal, Ordinal, Real, Space, Trial
from fmnas.search_spaces.records import FALLBACK, INITIAL, MODEL, RANDOM

pytestmark = pytest.mark.slow

QUICK = ModelSettings(
    FitSettings(starts=2, screening=4, finalists=1, iterations=10),
    SearchSettings(random_points=80, spray_points=20, starts=2, rounds=3, steps=3),
)


class OneHotKernel(AutogradKernel):
    """A Matern over the unit cube and one-hot codes: two vertices are 2 apart in square, whichever they are."""

    parameters = (
        Parameter("theta", 1, (1e-2, 1e2), Uniform(0.1, 1.0), LogNormal(0.5, 1.0)),
        Parameter("hot", 1, (1e-2, 1e2), Uniform(0.5, 2.0), LogNormal(1.0, 1.0)),
    )

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        differ = 2.0 * (a.V != b.V).double().sum(-1)
        return matern52(squared_distance(a.C, b.C, values["theta"]) + differ / values["hot"].square())


class OneHot(BayesianOptimizer):
    settings = QUICK

    def kernel(self, space: Space) -> Kernel:
        return OneHotKernel(space)


VARIABLES = [Real("x", 0.0, 1.0), Nominal("op", list("abc")), Integer("k", 0, 4), Real("z", 0.1, 10.0, log=True)]
SPACES = {
    "mixed": Space(VARIABLES),
    "constrained": Space(VARIABLES, [LinearConstraint({"x": 1, "k": 0.5}, bound=1.5)]),
    "discrete": Space([Nominal("op", list("abcd")), Ordinal("width", [1, 2, 4])]),
}


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


def score(space: Space, trial: Trial) -> float:
    sizes = [1.0] * len(space.continuous) + [len(variable.vertices) - 1 for variable in space.discrete]
    return float(((space.encode(trial.configuration) / sizes - 0.4) ** 2).sum())


def build_optimizer(space: Space, design: int = 4, seed: int = 0) -> OneHot:
    return OneHot(space, seed=seed, initial_design=random_design(space, design, seed))


def ask_next(optimizer: BayesianOptimizer) -> Trial:
    return optimizer.ask()


def busy(optimizer: BayesianOptimizer, asks: int) -> list[tuple[Trial, float | None]]:
    """Ask with two trials pending; (trial, None) for an ask, (trial, objective) for its result."""
    happened: list[tuple[Trial, float | None]] = []
    for _ in range(asks):
        happened.append((ask_next(optimizer), None))
        if len(optimizer.pending) > 2:
            oldest = next(iter(optimizer.pending.values()))
            happened.append((oldest, score(optimizer.space, oldest)))
            optimizer.tell(*happened[-1])
    return happened


def trials(happened: list[tuple[Trial, float | None]]) -> list[Trial]:
    return [trial for trial, objective in happened if objective is None]


def test_what_is_asked_is_valid_new_and_the_models(space: Space) -> None:
    result = trials(busy(build_optimizer(space), 10))
    assert [t.origin for t in result[:4]] == [INITIAL] * 4
    assert {t.origin for t in result[6:]} == {MODEL}
    for trial in result:
        space.validate(trial.configuration)
    assert len({json.dumps(t.configuration) for t in result}) == 10


def test_restored_from_json_it_continues_the_same(space: Space) -> None:
    optimizer, again = build_optimizer(space, seed=1), build_optimizer(space, seed=1)
    for trial, objective in busy(optimizer, 9):
        copy = Trial.from_dict(json.loads(json.dumps(trial.to_dict())))
        if objective is None:
            again.restore(copy)
        else:
            again.tell(copy, Evaluation(objective))
    assert ask_next(again) == ask_next(optimizer)
    assert ask_next(again) == ask_next(optimizer)


def test_a_pickled_one_continues_the_same() -> None:
    optimizer = build_optimizer(SPACES["mixed"])
    busy(optimizer, 7)
    assert ask_next(pickle.loads(pickle.dumps(optimizer))) == ask_next(optimizer)


def test_a_small_space_is_explored_to_its_end_and_then_chance_chooses() -> None:
    optimizer, space = build_optimizer(SPACES["discrete"], design=2), SPACES["discrete"]
    for number in range(13):
        trial = ask_next(optimizer)
        optimizer.tell(trial, score(space, trial))
        assert (trial.origin, trial.fallback) == ((RANDOM, FALLBACK) if number == 12 else (trial.origin, ""))
    assert len({json.dumps(t.configuration) for t, _ in optimizer.history}) == 12


def test_a_variable_with_too_many_values_is_refused_at_once() -> None:
    OneHot(Space([Integer("n", 1, 2000)]), initial_design=[])
    with pytest.raises(OptimizerError, match=r"n has 2001 values.* 2000.*Real"):
        OneHot(Space([Integer("n", 1, 2001)]), initial_design=[])


def test_a_search_that_finds_nothing_feasible_is_not_taken_for_one_of_known_points() -> None:
    class Nothing(OneHot):
        def candidates(self, surface: Surface, state: SearchState) -> Points:
            return super().candidates(surface, state).select(slice(0))

    optimizer = Nothing(SPACES["mixed"], initial_design=random_design(SPACES["mixed"], 3, 0))
    for number in range(4):
        trial = ask_next(optimizer)
        optimizer.tell(trial, float(number))
    assert (trial.origin, trial.fallback, trial.note) == (RANDOM, FALLBACK, "no candidate was feasible")
    assert trial.memo


def test_equal_results_leave_it_to_chance() -> None:
    optimizer = build_optimizer(SPACES["mixed"], design=2)
    for _ in range(2):
        optimizer.tell(ask_next(optimizer), 0.5)
    trial = ask_next(optimizer)
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    assert "all results are equal" in trial.note
