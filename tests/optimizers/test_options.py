"""What a user may set is read from a constructor, and refused by it."""

from collections.abc import Mapping
from math import nan
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from annotated_types import Gt, Interval, Le

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.options import check_options, get_choices, get_options, get_parameters, yaml_types
from fmnas.search_spaces import Real, Space

SPACE = Space([Real("x", 0.0, 1.0)])
UNIT = Interval(ge=0.0, le=1.0)
OPTIONS = ["rate", "size", "rule", "share", "scale", "depth", "plain"]


class Mine(Optimizer):
    """Takes options of each kind."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        evaluations: int | None = None,
        rate: Annotated[float, UNIT] = 0.5,
        size: Annotated[int, Interval(ge=2)] = 3,
        rule: Literal["a", "b"] | Mapping[str, int] = "a",
        share: Annotated[float, UNIT] | Literal["all"] = 0.5,
        scale: Annotated[float, Gt(0), Le(9)] = 1.0,
        depth: Annotated[int, Interval(gt=0, lt=7)] | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(space, seed=seed)
        check_options(type(self), rate=rate, size=size, rule=rule, share=share)
        check_options(type(self), scale=scale, depth=depth, plain=plain)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), "random")


def test_options_are_what_the_platform_does_not_set() -> None:
    assert list(get_parameters(Mine)) == ["seed", "evaluations", *OPTIONS]
    options = get_options(Mine)
    assert {name: yaml_types(option.annotation) for name, option in options.items()} == {
        "rate": Annotated[float, UNIT],
        "size": Annotated[int, Interval(ge=2)],
        "rule": Literal["a", "b"],  # a mapping can be given in Python alone
        "share": Annotated[float, UNIT] | Literal["all"],
        "scale": Annotated[float, Gt(0), Le(9)],
        "depth": Annotated[int, Interval(gt=0, lt=7)] | None,
        "plain": bool,
    }
    assert [option.default for option in options.values()] == [0.5, 3, "a", 0.5, 1.0, None, False]
    assert get_choices(options["share"].annotation) == ["all"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"rate": 1.5}, ["rate = 1.5", "0.0", "1.0"]),
        ({"size": 1}, ["size = 1", "2"]),
        ({"rule": "c"}, ["rule = 'c'", "'a', 'b'"]),
        ({"share": 1.5}, ["share = 1.5", "0.0", "1.0", "'all'"]),
        ({"share": "some"}, ["share = 'some'", "0.0", "1.0", "'all'"]),
        ({"rate": "all"}, ["rate = 'all'", "0.0", "1.0"]),
        ({"rate": nan}, ["rate = nan", "0.0", "1.0"]),
        ({"rate": None}, ["rate = None", "0.0", "1.0"]),
        ({"rate": True}, ["rate = True", "0.0", "1.0"]),
        ({"size": 10.5}, ["size = 10.5", "integer", "2"]),
        ({"scale": 0}, ["scale = 0", "0"]),
        ({"scale": 9.5}, ["scale = 9.5", "9"]),
        ({"depth": 0}, ["depth = 0", "0", "7"]),
        ({"depth": 7}, ["depth = 7", "0", "7"]),
    ],
)
def test_a_value_outside_its_annotation_is_refused(options: dict[str, Any], named: list[str]) -> None:
    with pytest.raises(OptimizerError) as caught:
        Mine(SPACE, **options)
    assert [words for words in named if words not in str(caught.value)] == []


@pytest.mark.parametrize(
    "options",
    [
        {"rate": 0.0, "size": 10**9, "rule": "b", "plain": True},
        {"rate": 1.0, "rule": {"own": 1}},
        {"share": 0.0},
        {"rate": np.float32(0.5), "size": np.int64(2)},
        {"scale": 9, "depth": None},
        {"share": "all"},
    ],
)
def test_allowed_values_are_taken(options: dict[str, Any]) -> None:
    Mine(SPACE, **options)


class Modern(Mine):
    """Its annotations are texts, as `from __future__ import annotations` makes them."""

    def __init__(self, space: "Space", *, share: "Annotated[float, UNIT, 'a share']" = 0.5, **others: "Any") -> None:
        super().__init__(space, **others)
        check_options(type(self), share=share)


class Unknown(Mine):
    def __init__(self, space: "Nowhere", *, depth: "Nowhere" = 1, **others: Any) -> None:  # type: ignore[name-defined]  # noqa: F821
        super().__init__(space, **others)
        check_options(type(self), depth=depth)


def test_annotations_as_text_are_resolved_if_they_can_be_and_those_of_bases_count() -> None:
    assert list(get_options(Modern)) == OPTIONS
    with pytest.raises(OptimizerError, match="share = 2"):
        Modern(SPACE, share=2)
    assert set(get_options(Unknown)) == {*OPTIONS, "depth"}
    Unknown(SPACE, depth=3)
