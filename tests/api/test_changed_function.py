"""A function is known by a digest of its code: one that changed is reported, and not compared."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from search_of_bowl import SPACE, CountedBowl, bowl

from fmnas.api import load_run, minimize
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.provenance import hash_function

pytestmark = pytest.mark.slow


def define_function(text: str) -> Callable[..., Any]:
    """The function f that a text defines, as a cell of a notebook would."""
    names: dict[str, Any] = {}
    exec(compile(text, "<text>", "exec"), names)
    return cast(Callable[..., Any], names["f"])


MAKER = "def make(a):\n    def f(c):\n        return c['x'] + a\n    return f\nf = make({})"


def test_different_functions_of_one_name_are_not_compared(tmp_path: Path) -> None:
    first, other = (define_function(f"f = lambda c: c['x'] * {factor}") for factor in (2, 3))
    for name, function, optimizer in (("a", first, "random"), ("b", other, "tpe"), ("c", first, "tpe")):
        minimize(function, SPACE, 4, optimizer, out=tmp_path / name)
    with pytest.raises(RunDirectoryError, match=r"lambda is a different function in .*a and in .*b\b"):
        load_run(tmp_path / "a", tmp_path / "b")
    assert set(load_run(tmp_path / "a", tmp_path / "c").summary.optimizers) == {"random", "tpe"}
    with pytest.warns(UserWarning, match="has changed"):
        minimize(other, SPACE, 5, "random", out=tmp_path / "a")
    assert "differs" in load_run(tmp_path / "a", tmp_path / "b").summary.caution


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f = lambda c: c['x'] * 2", "f = lambda c: c['x'] * 3"),
        ("f = lambda c: abs(c['x'])", "f = lambda c: float(c['x'])"),
        ("def f(c, k=2):\n    return k", "def f(c, k=3):\n    return k"),
        ("f = lambda c: sum(i for i in (1, 2))", "f = lambda c: sum(i for i in (1, 3))"),
        (MAKER.format(1), MAKER.format(2)),
    ],
)
def test_a_digest_follows_what_a_function_does(before: str, after: str) -> None:
    digest = hash_function(define_function(before))
    assert digest == hash_function(define_function("\n" + before)) != hash_function(define_function(after))


def test_a_name_that_nothing_was_assigned_to_has_no_digest_of_its_own() -> None:
    maker = "def make(a):\n    if a:\n        b = 1\n    def f(c):\n        return b\n    return f\nf = make({})"
    assert hash_function(define_function(maker.format(0))) != hash_function(define_function(maker.format(1)))


def test_a_changed_function_is_warned_of_in_the_call_and_in_every_report(tmp_path: Path) -> None:
    same = {"space": SPACE, "optimizer": "random", "out": tmp_path / "kept"}
    first, other = (define_function(f"def f(c):\n    return {body}") for body in ("c['x'] ** 2", "100 + c['x']"))
    result = minimize(first, evaluations=4, **same)
    with pytest.warns(UserWarning, match=r"^f has changed.*kept\b.*another out=DIR") as warned:
        again = minimize(other, evaluations=4, **same)
    assert again.trials["objective"].tolist() == result.trials["objective"].tolist()
    assert warned[0].filename == __file__
    assert "f was changed" not in load_run(same["out"]).summary.caution
    with pytest.warns(UserWarning, match="^f has changed"):
        minimize(other, evaluations=6, **same)
    assert "f was changed during the experiment" in load_run(same["out"]).summary.caution
    out = tmp_path / "out"
    minimize(other, SPACE, 8, "random", seed=3, out=out, warm_start=str(same["out"]))
    assert "The code of the problem was different there." in load_run(out).summary.caution


def test_a_function_that_counts_its_calls_is_the_same_function(tmp_path: Path) -> None:
    count, folders = 0, list[int]()

    def counts(configuration: dict[str, Any]) -> float:
        nonlocal count
        count += 1
        folders.append(count)
        return bowl(configuration)

    for evaluations in (4, 5):
        minimize(counts, SPACE, evaluations, "random", out=tmp_path / "kept")
        minimize(partial(bowl), SPACE, evaluations, "random", out=tmp_path / "partial")
        minimize(CountedBowl(), SPACE, evaluations, "random", out=tmp_path / "object")
    assert count == 5


def test_a_function_that_cannot_be_looked_at_is_said_to_be(tmp_path: Path) -> None:
    assert minimize(len, SPACE, 4, "random", out=tmp_path / "kept").objective == 2
    with pytest.warns(UserWarning, match=r"^len .*not known.*kept\b"):
        minimize(len, SPACE, 5, "random", out=tmp_path / "kept")
