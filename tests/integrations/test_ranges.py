"""Parameters of other tools as variables: each value there and back, and nothing beyond the bounds."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.integrations.ranges import MAX_PATH_LENGTH, Choices, Grid, Interval, Range, SpaceTranslator
from fmnas.search_spaces import Integer, Nominal, Real, SpaceError

RANGES: list[tuple[Range, type]] = [
    (Interval(-1.0, 3.0), Real),
    (Interval(1e-5, 1e-1, log=True), Real),
    (Grid(3, 7), Integer),
    (Grid(0, MAX_PATH_LENGTH - 1), Integer),
    (Grid(0, MAX_PATH_LENGTH), Real),
    (Grid(-10.2, 10.2, 0.1), Real),
    (Grid(0.0, 1.0, 0.25), Integer),
    (Grid(1, 300, log=True), Real),
    (Grid(0.1, 10.0, 0.1, log=True), Real),
    (Choices(("a", None, 3.5)), Nominal),
]


@pytest.mark.parametrize(("range_", "kind"), RANGES, ids=repr)
def test_the_kind_of_variable(range_: Range, kind: type) -> None:
    assert isinstance(range_.variable("v"), kind)


@pytest.mark.parametrize("range_", [item for item, _ in RANGES], ids=repr)
@given(seed=st.integers(0, 10_000))
def test_whatever_is_suggested_is_a_value_and_comes_back(range_: Range, seed: int) -> None:
    translation = SpaceTranslator({"a/b": range_})
    configuration = translation.space.sample(np.random.default_rng(seed))
    parameters = translation.parameters(configuration)
    assert translation.parameters(translation.configuration(parameters)) == parameters
    if isinstance(range_, Choices):
        assert parameters["a/b"] in range_.choices
        return
    assert isinstance(range_, Interval | Grid)
    assert range_.low <= parameters["a/b"] <= range_.high
    if isinstance(range_, Grid):
        assert type(parameters["a/b"]) is type(range_.low + range_.step)
        place = (parameters["a/b"] - range_.low) / range_.step
        assert place == pytest.approx(round(place), abs=1e-8)


@given(low=st.integers(-50, 50), step=st.integers(1, 9), count=st.integers(1, 200), rest=st.integers(0, 8))
def test_a_grid_has_its_points_and_no_other(low: int, step: int, count: int, rest: int) -> None:
    grid = Grid(low, low + (count - 1) * step + min(rest, step - 1), step)
    assert grid.count == count
    assert [grid.decode(place) for place in range(-1, count + 1)] == [
        low + min(max(place, 0), count - 1) * step for place in range(-1, count + 1)
    ]


def test_points_of_a_long_grid_are_equally_wide() -> None:
    grid = Grid(0, 99)
    variable = grid.variable("v")
    assert isinstance(variable, Real)
    places = [grid.decode(value) for value in variable.from_units((np.arange(1000) + 0.5) / 1000)]
    assert set(np.bincount(np.array(places, dtype=int))) == {10}


def test_not_a_number_is_a_choice_equal_to_itself() -> None:
    choices = Choices((1.0, math.nan))
    assert choices.encode(float("nan")) == 1


@pytest.mark.parametrize("parameters", [{"x": 2.0, "c": "a"}, {"x": 0.5, "c": "z"}], ids=repr)
def test_invalid_configurations_are_refused(parameters: dict[str, Any]) -> None:
    translation = SpaceTranslator({"x": Interval(0.0, 1.0), "c": Choices(("a", "b"))})
    with pytest.raises(SpaceError):
        translation.configuration(parameters)


NAMES = st.text() | st.tuples(st.text(), st.text()) | st.integers()


@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_names_may_be_anything(names: list[Any]) -> None:
    translation = SpaceTranslator({name: Choices(("a", "b")) for name in names})
    chosen = {name: "ab"[i % 2] for i, name in enumerate(names)}
    assert translation.parameters(translation.configuration(chosen)) == chosen


def test_an_error_has_the_name_of_the_parameter() -> None:
    translation = SpaceTranslator({"x": Interval(0.0, 1.0), "decay": Interval(0.0, 1.0)})
    with pytest.raises(SpaceError, match=r"decay.* = 2\.0"):
        translation.configuration({"x": 0.5, "decay": 2.0})
