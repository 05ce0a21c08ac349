"""BOHB and Hyperband against the originals: hpbandster's own master and model, and what is needed of that package."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fmnas.baselines import BOHB
from fmnas.baselines.external import suppress_logs
from fmnas.baselines.hyperband import Hyperband
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.search_spaces import Integer, Nominal, Real, Space, Trial, errors
from fmnas.search_spaces.records import MODEL, PROMOTION

pytestmark = pytest.mark.slow

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 4)])
NATIVE = Space(
    [Real("x", 0.0, 1.0), Real("rate", 1e-3, 1e-1, log=True), Integer("k", 0, 4), Nominal("op", list("abc"))]
)


def score(trial: Trial) -> float:
    """Lower near x = 0.3 and k = 3, and with more epochs; no ties."""
    c = trial.configuration
    return (float(c["x"]) - 0.3) ** 2 + 0.1 * abs(int(c["k"]) - 3) + 1.0 / trial.epochs


def native_space() -> Any:
    """NATIVE as a user of hpbandster writes it."""
    from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace
    from ConfigSpace import UniformFloatHyperparameter as Float
    from ConfigSpace import UniformIntegerHyperparameter as Int

    space = ConfigurationSpace()
    space.add(Float("x", 0.0, 1.0), Float("rate", 1e-3, 1e-1, log=True), Int("k", 0, 4))
    space.add(CategoricalHyperparameter("op", list("abc")))
    return space


class Hpbandster:
    """hpbandster's own BOHB, with its master's brackets, sampler and results, but without its nameserver."""

    def __init__(self, epochs: int) -> None:
        from hpbandster import optimizers
        from hpbandster.optimizers.config_generators import bohb

        self.space = native_space()
        least, most = 0.5 + 1e-6, epochs + 0.5 - 1e-6
        rungs = -int(np.log(least / most) / np.log(3)) + 1
        budgets = most * np.power(3, -np.linspace(rungs - 1, 0, rungs))
        self.generator = bohb.BOHB(self.space)
        self.master = SimpleNamespace(eta=3, max_SH_iter=rungs, budgets=budgets, config_generator=self.generator)
        self.next_iteration = lambda number: optimizers.BOHB.get_next_iteration(self.master, number)
        self.iterations = [self.next_iteration(0)]

    def ask(self, seed: int, number: int) -> Any:
        """The next job, from the random numbers of our ask of that number."""
        from hpbandster.core.dispatcher import Job

        rng = np.random.default_rng([seed, number])
        with IsolatedRNG(int(rng.integers(2**32))).activate():
            self.space.seed(int(rng.integers(2**31)))
            run = self.iterations[-1].get_next_run()
            if run is None:
                self.iterations.append(self.next_iteration(len(self.iterations)))
                run = self.iterations[-1].get_next_run()
        return Job(run[0], config=run[1], budget=run[2])

    def tell(self, job: Any, loss: float) -> None:
        job.result = {"loss": loss}
        self.iterations[-1].register_result(job)
        self.generator.new_result(job)


@pytest.mark.parametrize(("epochs", "count"), [(1, 60), (9, 90)])
def test_hpbandsters_own_bohb_proposes_the_same(epochs: int, count: int) -> None:
    """On the same results, with its model, in its brackets, from its own space."""
    with suppress_logs("hpbandster"):
        theirs, ours, models = Hpbandster(epochs), BOHB(NATIVE, seed=4, epochs=epochs), 0
        for number in range(count):
            job, trial = theirs.ask(4, number), ours.ask()
            assert trial is not None
            assert trial.epochs == round(job.kwargs["budget"])
            proposed = NATIVE.coerce(job.kwargs["config"])
            assert NATIVE.encode(proposed) == pytest.approx(NATIVE.encode(trial.configuration), abs=1e-9)
            info = theirs.iterations[-1].data[job.id].config_info
            assert trial.origin == PROMOTION or (trial.origin == MODEL) == info["model_based_pick"]
            models += trial.origin == MODEL
            loss = score(trial)
            ours.tell(trial, loss)
            theirs.tell(job, loss)
    assert models > 15


def test_it_does_not_need_the_one_dependency_that_must_be_compiled() -> None:
    code = """
import sys
sys.modules["netifaces"] = None
from fmnas.baselines import BOHB
from fmnas.search_spaces import Integer, Real, Space
optimizer = BOHB(Space([Real("x", 0, 1), Integer("k", 0, 4)]), epochs=3)
origins = []
for _ in range(40):
    trial = optimizer.ask()
    origins.append(trial.origin)
    optimizer.tell(trial, trial.configuration["x"])
assert origins.count("model") > 5, origins
assert not hasattr(sys.modules["netifaces"], "ifaddresses")
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("method", [BOHB, Hyperband])
def test_without_hpbandster_it_says_how_to_get_it(method: type[Hyperband], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(OptimizerError, match=f"{method.__name__.lower()} .*--no-deps hpbandster"):
        method(SPACE)


def test_defaults_of_the_model_are_hpbandsters() -> None:
    from hpbandster.optimizers.config_generators import bohb

    with suppress_logs("hpbandster"):
        expected = bohb.BOHB(BOHB(SPACE)._model._configuration_space)
    names = ("min_points_in_model", "top_n_percent", "num_samples", "random_fraction", "bw_factor", "min_bandwidth")
    result = BOHB(SPACE)._model.generator
    assert {name: getattr(result, name) for name in names} == {name: getattr(expected, name) for name in names}
