"""What a user may set is read from a constructor, and refused by it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.options import Between, check_options, options_of, parameters_of
from fmnas.search_spaces import Real, Space

SPACE = Space([Real("x", 0.0, 1.0)])


class Mine(Optimizer):
    """Takes options of each kind."""

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        evaluations: int | None = None,
        rate: Annotated[float, Between(0.0, 1.0)] = 0.5,
        size: Annotated[int, Between(least=2)] = 3,
        rule: Literal["a", "b"] | Mapping[str, int] = "a",
        share: Annotated[float, Between(0.0, 1.0)] | Literal["all"] = 0.5,
        plain: bool = False,
    ) -> None:
        super().__init__(space, seed=seed)
        check_options(type(self), rate=rate, size=size, rule=rule, share=share, plain=plain)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), "random")


def told(optimizer: type[Optimizer]) -> dict[str, tuple[Any, Any]]:
    """Annotation and default of its options."""
    return {name: (option.annotation, option.default) for name, option in options_of(optimizer).items()}


def test_options_are_what_the_platform_does_not_set() -> None:
    assert list(parameters_of(Mine)) == ["seed", "evaluations", "rate", "size", "rule", "share", "plain"]
    assert told(Mine) == {
        "rate": (Annotated[float, Between(0.0, 1.0)], 0.5),
        "size": (Annotated[int, Between(2)], 3),
        "rule": (Literal["a", "b"], "a"),  # a mapping can be given in Python alone
        "share": (Annotated[float, Between(0.0, 1.0)] | Literal["all"], 0.5),
        "plain": (bool, False),
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate": 1.5}, "rate = 1.5: it must be at least 0.0 and at most 1.0"),
        ({"size": 1}, "size = 1: it must be at least 2"),
        ({"rule": "c"}, "rule = 'c': it must be one of 'a', 'b'"),
        ({"share": 1.5}, "share = 1.5: it must be at least 0.0 and at most 1.0, or one of 'all'"),
        ({"share": "some"}, "share = 'some': it must be at least 0.0 and at most 1.0, or one of 'all'"),
        ({"rate": "all"}, "rate = 'all': it must be at least 0.0 and at most 1.0"),
    ],
)
def test_what_an_annotation_does_not_allow_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptimizerError, match=f"^{words}$"):
        Mine(SPACE, **options)


def test_what_it_allows_is_taken() -> None:
    Mine(SPACE, rate=0.0, size=10**9, rule="b", plain=True)
    Mine(SPACE, rate=1.0, rule={"of my own": 1})
    Mine(SPACE, share=0.0)
    Mine(SPACE, share="all")


def test_an_option_that_no_configuration_could_hold_is_a_mistake() -> None:
    class Odd(Mine):
        def __init__(self, space: Space, *, table: dict[str, int] | None = None, what: Mapping[str, int]) -> None:
            super().__init__(space)

    with pytest.raises(TypeError, match="an option must be of plain types or Literals"):
        options_of(Odd)


class Modern(Optimizer):
    """Its annotations are texts, as `from __future__ import annotations` makes them."""

    def __init__(
        self,
        space: "KnownToCheckersAlone",  # type: ignore[name-defined]  # noqa: F821
        *,
        seed: "AlsoThat" = 0,  # type: ignore[name-defined]  # noqa: F821
        rate: "Annotated[float, Between(0.0, 1.0), 'a share']" = 0.5,
        size: Annotated[int, "a size"] = 3,
    ) -> None:
        super().__init__(space, seed=seed)
        check_options(type(self), rate=rate, size=size)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), "random")


def test_only_the_annotations_of_options_must_be_known_and_only_betweens_count() -> None:
    assert told(Modern) == {
        "rate": (Annotated[float, Between(0.0, 1.0)], 0.5),
        "size": (int, 3),
    }
    with pytest.raises(OptimizerError, match="rate = 2"):
        Modern(SPACE, rate=2)


def test_an_option_with_an_annotation_that_cannot_be_read_is_named() -> None:
    class Riddle(Modern):
        def __init__(self, space: Space, *, rule: "Unheard" = 1, **others: Any) -> None:  # type: ignore[name-defined]  # noqa: F821
            super().__init__(space, **others)

    with pytest.raises(OptimizerError, match=r"Riddle: the annotation of rule cannot be read .* outside TYPE_CHECKING"):
        options_of(Riddle)
