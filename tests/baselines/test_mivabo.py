"""MiVaBO, MiVaBO-SA and GP-SA: searches, options, annealing."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.baselines.annealing import CHAINS, anneal
from fmnas.baselines.gp_annealing import BitKernel
from fmnas.baselines.mivabo import MiVaBO
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import Region
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, QuadraticConstraint, Real, Space
from fmnas.search_spaces.records import FAILED_FIT, MODEL, RANDOM
from fmnas.testing.subject import CONSTRAINED, SPACES, run_sequentially

BITS = [Integer(f"b{i}", 0, 1) for i in range(4)]
SPACE = Space([Real("x", 0.0, 1.0), *BITS])


def run_mivabo(space: Space, count: int, **options: Any) -> MiVaBO:
    optimizer = MiVaBO(space, seed=0, **options)
    run_sequentially(optimizer, count)
    return optimizer


@pytest.mark.parametrize("search", ["alternating", "dual", "annealing"])
@pytest.mark.parametrize("space", [*SPACES.values(), *CONSTRAINED.values()], ids=[*SPACES, *CONSTRAINED])
def test_every_search_suggests_new_feasible_points(search: Any, space: Space) -> None:
    trials = run_sequentially(MiVaBO(space, seed=0, search=search, annealing_steps=2_000), 14)[10:]
    assert {trial.origin for trial in trials} == {MODEL}
    assert all(space.meets_constraints(trial.configuration, strictly=True) for trial in trials)


def test_the_minimum_of_a_function_of_the_model_is_found() -> None:
    """Bits and pairs of them, whose minimum is -9, and a wave between -1 and 1 whose phase a bit moves."""

    def value(c: Mapping[str, Any]) -> float:
        b = [float(c[f"b{k}"]) for k in range(12)]
        pairs = 2 * b[0] * b[1] - 3 * b[2] * b[3] + b[5] * b[6]
        return pairs - b[4] - sum(b[7:]) + math.cos(3 * c["x"] + b[0])

    space = Space([Real("x", 0.0, 1.0), *(Integer(f"b{i}", 0, 1) for i in range(12))])
    optimizer = MiVaBO(space, seed=0, beta=100.0)
    for _ in range(40):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, value(trial.configuration))
    lowest = min(evaluation.objective for _, evaluation in optimizer.history)
    rng = np.random.default_rng(0)
    random = np.array([[value(space.sample(rng)) for _ in range(40)] for _ in range(100)]).min(axis=1)
    assert lowest < -9.9 < np.quantile(random, 0.05)


def test_a_draw_s_dual_gap_is_in_the_note() -> None:
    optimizer = run_mivabo(SPACE, 12, search="dual")
    notes = [trial.note for trial, _ in optimizer.history[10:]]
    assert all(note.startswith(("at most", "the least value")) for note in notes)
    assert any(note.startswith("at most") for note in notes), "with reals a gap usually remains"
    assert "at most" not in run_mivabo(Space(BITS), 11, search="dual").history[-1][0].note, "without reals it is exact"


def test_dual_decomposition_needs_a_list_of_values() -> None:
    with pytest.raises(OptimizerError, match="4096"):
        MiVaBO(Space([Integer(f"b{i}", 0, 1) for i in range(13)]), search="dual")


def test_the_scale_of_the_theory() -> None:
    optimizer = run_mivabo(SPACE, 12, posterior_scale="theory", features=3)
    assert optimizer._scale() == pytest.approx(24 * (11 + 3 + 33) * math.log(12) * math.log(10))


def test_the_objective_s_scale_has_no_influence() -> None:
    one, other = (MiVaBO(SPACE, seed=3) for _ in range(2))
    for _ in range(12):
        trial, again = one.ask(), other.ask()
        assert trial is not None
        assert again is not None
        assert trial.configuration == pytest.approx(again.configuration)
        y = sum(float(v) for v in trial.configuration.values())
        one.tell(trial, y)
        other.tell(again, 1e5 * y - 3e4)


def test_pending_trials_enter_at_their_means() -> None:
    optimizer = run_mivabo(SPACE, 12)
    y = torch.randn(12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    points = Points.from_encoded(SPACE, SPACE.sample_encoded(np.random.default_rng(1), 15))
    alone = optimizer._condition(Points(points.C[:12], points.V[:12]), y)
    believed = optimizer._condition(points, y)
    torch.testing.assert_close(believed.mean.W, alone.mean.W, rtol=1e-7, atol=1e-9)
    assert len(believed.y) == 15


def test_constraints_over_many_variables_are_met() -> None:
    """Too many combinations for a list: a budget over 20 bits, a product with a Real, a group of two variables."""
    bits = [Integer(f"b{i}", 0, 1) for i in range(20)]
    constraints = [
        LinearConstraint({bit.name: 1 for bit in bits}, 4),
        QuadraticConstraint({}, {("x", "b0"): 1}, 0.3),
        LinearConstraint({"b1": -1, "n": 1}, 1),
    ]
    space = Space([Real("x", 0.0, 1.0), Integer("n", 0, 2), *bits], constraints)
    for trial in run_sequentially(MiVaBO(space, seed=0), 12)[10:]:
        assert trial.origin == MODEL
        assert space.meets_constraints(trial.configuration, strictly=True)


@pytest.mark.parametrize("temperatures", ["scaled", "published"])
def test_annealing_finds_a_feasible_minimum(temperatures: Any) -> None:
    """x + n is least at (0, 2) where x + n >= 2; published temperatures accept everything, and keep the best."""
    space = Space([Real("x", 0.0, 1.0), Integer("n", 0, 5)], [LinearConstraint({"x": -1, "n": -1}, -2)])
    region = Region(space)

    def energy(points: Points) -> torch.Tensor:
        return points.C[:, 0] + points.V[:, 0]

    points, values = anneal(energy, region, np.random.default_rng(0), temperatures)
    assert len(points) == CHAINS
    assert region.feasible(points).all()
    assert (values.diff() >= 0).all()
    assert float(values[0]) == pytest.approx(2.0, abs=0.01)
    torch.testing.assert_close(values, energy(points))


def test_the_kernel_of_gp_sa_is_a_squared_exponential_of_bits() -> None:
    space = Space([Real("x", 0.0, 1.0), Nominal("n", list("abcde"))])
    points = Points.from_encoded(space, np.array([[0.0, 0.0], [0.5, 3.0], [1.0, 4.0]]))
    r, _ = BitKernel(space).condition_on({"theta": torch.tensor([0.8], dtype=torch.float64)}, points).correlate(points)
    codes = np.array([[0.0, 0, 0, 0], [0.5, 0, 1, 1], [1.0, 1, 0, 0]])
    square = ((codes[:, None] - codes[None]) ** 2).sum(-1)
    np.testing.assert_allclose(r, np.exp(-0.5 * square / 0.64), rtol=1e-12)


def test_a_variable_of_very_many_values_is_searched() -> None:
    """A matrix over its values would have 10^10 entries; its codes have 17 bits."""
    optimizer = run_mivabo(Space([Real("x", 0.0, 1.0), Integer("n", 1, 100_000)]), 11)
    assert optimizer.history[-1][0].origin == MODEL


@pytest.mark.parametrize("seed", range(30))
def test_results_of_one_configuration_alone_are_modelled(seed: int) -> None:
    """Their expected variance is zero, up to rounding."""
    rng = np.random.default_rng(seed)
    optimizer = MiVaBO(SPACE, seed=seed, initial_design=[SPACE.sample(rng)] * 5)
    for _ in range(5):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, float(rng.standard_normal()))
    suggested = optimizer.ask()
    assert suggested is not None
    assert suggested.origin == MODEL


@pytest.mark.parametrize("options", [{"alpha": 1e-300}, {"beta": 1e300}], ids=str)
def test_a_model_that_cannot_be_fitted_gives_way_to_a_random_configuration(options: dict[str, float]) -> None:
    optimizer = run_mivabo(Space(BITS), 16, **options)
    trial = optimizer.history[-1][0]
    assert (trial.origin, trial.fallback) == (RANDOM, FAILED_FIT)
