"""A small search: a function, its variables, and optimizers of a user."""

from collections.abc import Callable
from typing import Any

import numpy as np

from fmnas.optimizers import Optimizer, Suggestion
from fmnas.search_spaces import Nominal, Real, Space

SPACE = [Real("x", -5.0, 5.0), Nominal("kind", ["a", "b"])]


def bowl(configuration: dict[str, Any]) -> float:
    return configuration["x"] ** 2 + (configuration["kind"] == "a")


class CountedBowl:
    """A function that knows how often it was called; at a call of that number it does something first."""

    __name__ = "format_count"

    def __init__(self, at: int = 0, does: Callable[[], object] = lambda: None) -> None:
        self.calls, self._at, self._does = 0, at, does

    def __call__(self, configuration: dict[str, Any]) -> float:
        self.calls += 1
        if self.calls == self._at:
            self._does()
        return bowl(configuration)


class Alternating(Optimizer):
    """x = step and x = -step in turn."""

    def __init__(self, space: Space, *, step: float = 1.0, **others: Any) -> None:
        super().__init__(space, **others)
        self.step = step

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion({"x": self.step * (-1) ** self._asked, "kind": "b"}, "model")


def suggest_far(optimizer: Alternating, rng: np.random.Generator) -> Suggestion:
    return Suggestion({"x": 4.0, "kind": "b"}, "model")


class AskTell:
    """ask and tell: x is one more than the best so far."""

    def __init__(self, space: Space, seed: int, start: float = 2.0) -> None:
        self.results = [(np.inf, start - 1.0)]

    def ask(self) -> dict[str, Any]:
        return {"x": min(self.results)[1] + 1.0, "kind": "a"}

    def tell(self, configuration: dict[str, Any], value: float) -> None:
        self.results.append((value, configuration["x"]))


def raise_interrupt() -> None:
    raise KeyboardInterrupt
