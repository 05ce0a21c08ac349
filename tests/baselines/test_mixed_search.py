"""MiVaBO's oracles: binary quadratic programs, alternation and dual decomposition, against known minima."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.baselines import binary_codes, binary_quadratic
from fmnas.baselines.binary_codes import BinaryCodes, code_table
from fmnas.baselines.binary_quadratic import BinaryQuadratic, DiscreteOracle
from fmnas.baselines.dual_bound import DualProblem, least_waves, points_on_path
from fmnas.baselines.linear_model import Features, LinearFunction
from fmnas.baselines.mixed_search import MixedSearch
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, QuadraticConstraint, Real, Space

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_mivabo.json").read_text())


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


FEATURES = Features(GOLDEN["small"]["n_bits"], tensor(GOLDEN["small"]["omega"]), tensor(GOLDEN["small"]["b"]))


def as_matrix(w: Any, features: Features = FEATURES) -> Tensor:
    """Weights [M], ordered (discrete, continuous, products), as W."""
    count, F = 1 + features.bits + features.pairs.shape[1], len(features.shift)
    w, W = tensor(w), torch.zeros(1 + count, 1 + F, dtype=torch.float64)
    W[1:, 0], W[0, 1:], W[1:, 1:] = w[:count], w[count : count + F], w[count + F :].reshape(count, F)
    return W


BITS = [Integer(f"b{i}", 0, 1) for i in range(8)]
NONE_KNOWN = torch.zeros(0, 8, dtype=torch.int64)
at_most = [LinearConstraint({bit.name: 1 for bit in BITS}, k) for k in (1, 2, 3)]
MIXED: list[Any] = [
    QuadraticConstraint({"b4": 1}, {("b0", "b1"): 1, ("b2", "b3"): 1}, 0),
    LinearConstraint({f"b{i}": -a for i, a in enumerate((2, 1, 3, 1, 2, 1, 1, 2))}, -5),
]
"""x1 x2 + x3 x4 + x5 <= 0, and at least 5 of a weighted sum."""


def quadratic_of(case: dict[str, Any]) -> BinaryQuadratic:
    pairs = torch.zeros(1, 8, 8, dtype=torch.float64)
    i, j = torch.triu_indices(8, 8, 1)
    pairs[0, i, j] = pairs[0, j, i] = tensor(case["c2"])
    return BinaryQuadratic(tensor([case["c0"]]), tensor([case["c1"]]), pairs)


def minimum_of(case: dict[str, Any], constraints: list[Any]) -> tuple[list[int], float]:
    oracle, f = DiscreteOracle(BinaryCodes(Space(BITS, constraints))), quadratic_of(case)
    start = Points(torch.zeros(1, 0, dtype=torch.float64), torch.zeros(1, 8, dtype=torch.int64))
    if constraints is MIXED:
        start.V[0] = tensor([1, 0, 0, 1, 0, 0, 0, 1]).long()
    V, value = oracle.minimise(f, start, NONE_KNOWN)
    return V[0].tolist(), float(value)


@pytest.mark.parametrize("limit", [2**16, 4], ids=["listed", "tabu"])
@pytest.mark.parametrize("case", GOLDEN["binary_quadratic"], ids=lambda case: str(case["c0"]))
def test_golden_quadratic_programs(case: dict[str, Any], limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_codes, "LARGEST_LIST", limit)
    forms = [([], case["minimum"]), *zip([[one] for one in at_most], case["cardinality"], strict=True)]
    for constraints, expected in [*forms, (MIXED, case["mixed_constraints"])]:
        V, value = minimum_of(case, constraints)
        assert (V, value) == (expected["x"], pytest.approx(expected["value"], abs=1e-10))
        if limit > 4 and "feasible" in expected:
            listed = BinaryCodes(Space(BITS, constraints)).vertices
            assert listed is not None
            assert len(listed) == expected["feasible"]


def test_codes_are_binary_numbers() -> None:
    np.testing.assert_array_equal(
        code_table(Nominal("n", list("abcde"))), [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]]
    )


def test_a_constraint_s_values_are_listed_and_other_variables_are_single() -> None:
    space = Space(
        [Integer("a", 0, 2), Nominal("n", list("abcde")), Integer("c", 0, 3), Real("x", 0.0, 1.0)],
        [LinearConstraint({"a": 1, "c": 1}, 2), LinearConstraint({"x": 1, "a": 1}, 2.5)],
    )
    codes = BinaryCodes(space)
    assert [str(one) for one in codes.loose] == ["x + a <= 2.5"]
    assert codes.group.bincount().tolist() == [6, 5]
    assert codes.bits == 7
    assert codes.vertices is not None
    assert codes.vertices[:, [0, 2]].sum(1).max() == 2
    np.testing.assert_array_equal(codes.group_vertices[codes.locate(codes.vertices)].sum(1), codes.vertices)
    np.testing.assert_array_equal(codes.group_bits[codes.locate(codes.vertices)].sum(1), codes.encode(codes.vertices))


@pytest.mark.parametrize("seed", range(8))
def test_tabu_search_finds_the_minimum_over_values(seed: int) -> None:
    """Codes without a value are never taken; a constraint with a Real is checked at each point."""
    rng = np.random.default_rng(seed)
    space = Space(
        [Real("x", 0.0, 1.0), Integer("a", 0, 2), Nominal("n", list("abcde")), *BITS[:4]],
        [LinearConstraint({"x": 1, "a": 1, "b0": 1}, 2.4)],
    )
    exact = DiscreteOracle(BinaryCodes(space))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(binary_codes, "LARGEST_LIST", 5)
        tabu = DiscreteOracle(BinaryCodes(space))
    pairs = torch.from_numpy(np.triu(rng.standard_normal((6, 9, 9)), 1))
    f = BinaryQuadratic(
        torch.from_numpy(rng.standard_normal(6)), torch.from_numpy(rng.standard_normal((6, 9))), pairs + pairs.mT
    )
    starts = Points.from_encoded(space, space.sample_encoded(rng, 6))
    none = torch.zeros(0, 6, dtype=torch.int64)
    (V, best), (W, tabu_best) = exact.minimise(f, starts, none), tabu.minimise(f, starts, none)
    np.testing.assert_allclose(tabu_best, best, rtol=1e-9)
    np.testing.assert_array_equal(V, W)
    assert space.feasible(Points(starts.C, W).to_encoded(space), strictly=True).all()


@pytest.mark.parametrize("limit", [2**16, 4], ids=["listed", "tabu"])
def test_known_vertices_are_avoided(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_codes, "LARGEST_LIST", limit)
    oracle = DiscreteOracle(BinaryCodes(Space(BITS[:3])))
    f = BinaryQuadratic(tensor([0.0]), tensor([[-4.0, -2.0, -1.0]]), torch.zeros(1, 3, 3, dtype=torch.float64))
    start = Points(torch.zeros(1, 0, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.int64))
    known = torch.tensor([[1, 1, 1], [1, 1, 0], [0, 0, 0]])
    V, value = oracle.minimise(f, start, known)
    assert (V[0].tolist(), float(value)) == ([1, 0, 1], -5.0)


@pytest.mark.parametrize("limit", [2**16, 4], ids=["listed", "tabu"])
def test_known_vertices_are_returned_if_there_are_no_others(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binary_codes, "LARGEST_LIST", limit)
    oracle = DiscreteOracle(BinaryCodes(Space(BITS[:3])))
    f = BinaryQuadratic(tensor([0.5]), tensor([[1.0, 2.0, 4.0]]), torch.zeros(1, 3, 3, dtype=torch.float64))
    start = Points(torch.zeros(1, 0, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.int64))
    V, value = oracle.minimise(f, start, torch.tensor(list(product([0, 1], repeat=3))))
    assert (V[0].tolist(), float(value)) == ([0, 0, 0], 0.5)
    V, value = oracle.minimise(f, start, start.V)  # a known start, with the least value of all
    assert (V[0].tolist(), float(value)) == ([1, 0, 0], 1.5)


@pytest.mark.parametrize("limit", [2**16, 4], ids=["listed", "tabu"])
def test_the_minimum_of_positive_values_is_feasible(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With x = 1, x + b0 + b1 + b2 >= 2.5 holds with two bits, and all zeros are the least otherwise."""
    monkeypatch.setattr(binary_codes, "LARGEST_LIST", limit)
    constraint = LinearConstraint({"x": -1, "b0": -1, "b1": -1, "b2": -1}, -2.5)
    oracle = DiscreteOracle(BinaryCodes(Space([Real("x", 0.0, 1.0), *BITS[:3]], [constraint])))
    f = BinaryQuadratic(tensor([10.0]), tensor([[1.0, 2.0, 4.0]]), torch.zeros(1, 3, 3, dtype=torch.float64))
    start = Points(tensor([[1.0]]), torch.ones(1, 3, dtype=torch.int64))
    V, value = oracle.minimise(f, start, NONE_KNOWN[:, :3])
    assert (V[0].tolist(), float(value)) == ([1, 1, 0], 13.0)


SMALL_SPACE = [Real("x1", 0.0, 1.0), Real("x2", 0.0, 1.0), *BITS[:3]]


def search_of(constraints: list[Any]) -> tuple[MixedSearch, Points]:
    search = MixedSearch(BinaryCodes(Space(SMALL_SPACE, constraints)))
    return search, search.region.sample(np.random.default_rng(0), 8)


@pytest.mark.parametrize("case", GOLDEN["mixed_acquisition"], ids=lambda case: str(case["w"][0]))
@pytest.mark.parametrize("form", ["minimum", "at_most_one"])
def test_golden_mixed_minima_and_their_bounds(case: dict[str, Any], form: str) -> None:
    constraints = [LinearConstraint({"b0": 1, "b1": 1, "b2": 1}, 1)] if form == "at_most_one" else []
    search, starts = search_of(constraints)
    f = LinearFunction(FEATURES, as_matrix(case["w"]))
    points, values, bound = search.decompose(f, starts, NONE_KNOWN[:, :3])
    expected = case[form]
    assert (points.V[0].tolist(), float(values[0])) == (expected["x_d"], pytest.approx(expected["value"], abs=1e-8))
    np.testing.assert_allclose(points.C[0], expected["x_c"], atol=1e-4)
    assert expected["value"] - 0.5 < bound <= expected["value"] + 1e-9


@pytest.mark.parametrize("form", ["unconstrained", "at_most_two"])
@pytest.mark.parametrize("case", GOLDEN["synthetic"]["cases"], ids=lambda case: case["kind"])
def test_golden_minima_with_645_weights(case: dict[str, Any], form: str) -> None:
    features = Features(8, tensor(GOLDEN["synthetic"]["omega"]), tensor(GOLDEN["synthetic"]["b"]))
    f = LinearFunction(features, as_matrix(case["w"], features))
    space = Space([*(Real(f"x{i}", 0.0, 1.0) for i in range(8)), *BITS], [at_most[1]] if "at" in form else [])
    search = MixedSearch(BinaryCodes(space))
    _, values = search.alternate(f, search.region.sample(np.random.default_rng(0), 40), NONE_KNOWN)
    assert float(values[0]) == pytest.approx(case[form]["minimum"], rel=1e-8)
    for point in case["points"]:
        value = f.value(tensor([point["x_d"]]), tensor([point["x_c"]]))
        assert float(value) == pytest.approx(point["value"], rel=1e-9)


def test_one_wave_is_certified() -> None:
    """One factor on one variable and no purely discrete weight: the copies can agree."""
    features = Features(1, tensor([[3.0]]), tensor([0.4]))
    f = LinearFunction(features, tensor([[0.0, 1.0], [0.0, 0.0], [0.0, 2.0]]))
    search = MixedSearch(BinaryCodes(Space([Real("x", 0.0, 1.0), BITS[0]])))
    points, values, bound = search.decompose(f, search.region.sample(np.random.default_rng(0), 4), NONE_KNOWN[:, :1])
    assert float(values[0]) == pytest.approx(3.0 * np.sqrt(2) * -1.0, rel=1e-8)
    assert (points.V[0, 0], float(points.C[0, 0])) == (1, pytest.approx((np.pi - 0.4) / 3.0, abs=1e-4))
    assert bound == pytest.approx(float(values[0]), rel=1e-6)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_the_least_wave_is_below_a_grid_and_attained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    features = Features(0, torch.from_numpy(4.0 * rng.standard_normal((3, 2))), torch.from_numpy(rng.uniform(0, 7, 3)))
    a, k = torch.from_numpy(3.0 * rng.standard_normal((5, 3))), torch.from_numpy(4.0 * rng.standard_normal((3, 2)))
    least, phase = least_waves(features, a, k)
    grid = tensor(list(product(np.linspace(0, 1, 201), repeat=2)))
    waves = a[:, :, None] * torch.cos(features.omega @ grid.T + features.shift[:, None]) - k @ grid.T
    assert (least <= waves.amin(-1) + 1e-12).all()
    assert (least >= waves.amin(-1) - 0.01).all()
    for row, t in zip(range(5), phase, strict=True):
        c = points_on_path(features, k, t)
        np.testing.assert_allclose((features.omega * c).sum(1) + features.shift, t, atol=1e-9)
        np.testing.assert_allclose(a[row] * t.cos() - (k * c).sum(1), least[row], atol=1e-9)


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_any_multipliers_bound_the_function_from_below(seed: int) -> None:
    rng = np.random.default_rng(seed)
    f = LinearFunction(FEATURES, as_matrix(rng.standard_normal(39)))
    codes = BinaryCodes(Space(SMALL_SPACE))
    step = DualProblem(f, codes).relax(
        torch.from_numpy(rng.standard_normal((4, 3))), torch.from_numpy(rng.standard_normal((4, 2)))
    )
    points = MixedSearch(codes).region.sample(rng, 200)
    assert step.bound <= float(f.value(codes.encode(points.V), points.C).min())


def test_many_known_vertices_are_avoided_in_little_memory() -> None:
    """All but one of 4,096; compared with one another they would take 200 megabytes."""
    codes = BinaryCodes(Space([Integer(f"b{i}", 0, 1) for i in range(12)]))
    oracle, listed = DiscreteOracle(codes), codes.vertices
    assert listed is not None
    f = BinaryQuadratic(tensor([0.0]), tensor([[1.0] * 12]), torch.zeros(1, 12, 12, dtype=torch.float64))
    start = Points(torch.zeros(1, 0, dtype=torch.float64), listed[:1])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        V, value = oracle.minimise(f, start, listed[torch.arange(len(listed)) != 2_000])
    torch.testing.assert_close(V, listed[2_000:2_001])
    assert float(value[0]) == float(listed[2_000].sum())
    assert max(event.cpu_memory_usage for event in profile.events()) < 10_000_000


def search_by_flips(f: Any, start: list[int], tenures: list[int]) -> tuple[float, list[int]]:
    """The least value of a tabu search from one start, and where it was: a flip per step, as in Glover (1989)."""
    x, until = list(start), [0] * len(start)
    best = (f(x), list(x))
    for step, tenure in enumerate(tenures):
        flipped = [[*x[:i], 1 - x[i], *x[i + 1 :]] for i in range(len(x))]
        allowed = [i for i, y in enumerate(flipped) if until[i] <= step or f(y) < best[0]]
        i = min(allowed, key=lambda i: f(flipped[i]))
        x, until[i] = flipped[i], step + 1 + tenure
        best = min(best, (f(x), list(x)))
    return best


def test_tabu_search_flips_what_was_just_flipped_only_if_the_result_is_the_best_so_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps, bits, problems = 12, 8, 60
    monkeypatch.setattr(binary_codes, "LARGEST_LIST", 4)
    monkeypatch.setattr(binary_quadratic, "TABU_STEPS", steps)
    rng = np.random.default_rng(0)
    linear, upper = rng.standard_normal((problems, bits)), np.triu(rng.standard_normal((problems, bits, bits)), 1)
    pairs = upper + upper.transpose(0, 2, 1)
    f = BinaryQuadratic(*map(torch.from_numpy, (np.zeros(problems), linear, pairs)))
    V = torch.from_numpy(rng.integers(2, size=(problems, bits)))
    starts, none = Points(torch.zeros(problems, 0, dtype=torch.float64), V), torch.zeros(0, bits, dtype=torch.int64)
    lowest_V, lowest = DiscreteOracle(BinaryCodes(Space(BITS))).minimise(f, starts, none)
    tenures = np.random.default_rng(0).integers(2 * bits // 3 + 1, size=(steps, problems))
    for s in range(problems):
        value, x = search_by_flips(
            lambda x, s=s: float(linear[s] @ x + 0.5 * np.array(x) @ pairs[s] @ x),
            V[s].tolist(),
            tenures[:, s].tolist(),
        )
        assert float(lowest[s]) == pytest.approx(value, abs=1e-12)
        assert lowest_V[s].tolist() == x
