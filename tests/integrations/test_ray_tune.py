"""BOFMSearch without a Ray cluster: domains, suggestions, what BO-FM receives, save and restore."""

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from fmnas.integrations.ranges import Choices, Grid, Interval, Range
from fmnas.integrations.ray_tune import BOFMSearch, ranges_of
from fmnas.optimizers import OptimizerError

pytestmark = pytest.mark.slow

SPACE = {
    "x": tune.uniform(0.0, 1.0),
    "net": {"op": tune.choice(["a", None, {"b": 1}]), "deep": {"layers": tune.randint(1, 5)}},
    "fixed": tune.choice([7]),
    "constant": 3,
}
FEW = {"a": tune.choice("pqr"), "b": tune.choice([None, 1])}
"""A space of six configurations."""


def search(space: dict[str, Any] = SPACE, mode: str = "min", **options: Any) -> BOFMSearch:
    searcher = BOFMSearch(seed=0, **{"n_startup_trials": 3, **options})
    assert searcher.set_search_properties("loss", mode, space)
    return searcher


def run(searcher: BOFMSearch, trials: range, sign: int = 1) -> list[dict[str, Any]]:
    """What is suggested for these trials, each reported at once."""
    suggested = []
    for number in trials:
        suggested.append(searcher.suggest(str(number)))
        searcher.on_trial_complete(str(number), {"loss": sign * (suggested[-1]["x"] - 0.3) ** 2, "other": "text"})
    return suggested


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (tune.uniform(-1, 2.5), Interval(-1, 2.5)),
        (tune.loguniform(1e-4, 1.0), Interval(1e-4, 1.0, log=True)),
        (tune.randint(1, 5), Grid(1, 4)),
        (tune.lograndint(1, 5), Grid(1, 4, log=True)),
        (tune.choice(["a", 1]), Choices(("a", 1))),
    ],
    ids=lambda given: repr(given) if isinstance(given, Interval | Grid | Choices) else type(given).__name__,
)
def test_each_domain_is_a_range_that_holds_what_tune_draws(domain: Any, expected: Range) -> None:
    (result,) = ranges_of({"folder": {"p": domain}}).values()
    assert result == expected
    for value in domain.sample(size=200):
        decoded = result.decode(result.encode(value))
        assert decoded == pytest.approx(value) if not isinstance(expected, Choices) else decoded == value


@pytest.mark.parametrize(
    "domain",
    [
        *(tune.randn(), tune.quniform(0, 1, 0.1), tune.grid_search([1, 2]), tune.sample_from(lambda _: 1)),
        *([tune.uniform(0, 1)], tune.uniform(1, 0), tune.choice([tune.uniform(0, 1), 3])),
        tune.choice([{"x": tune.grid_search([1, 2])}, None]),
    ],
    ids=["normal", "quantized", "grid", "function", "list", "empty", "choice of domains", "choice of grids"],
)
def test_invalid_ranges_are_refused_by_name(domain: Any) -> None:
    with pytest.raises(OptimizerError, match=r"^net/p"):
        ranges_of({"net": {"p": domain}})


def test_a_suggestion_is_nested_like_the_space_and_has_no_constants() -> None:
    for suggested in run(search(), range(6)):
        assert set(suggested) == {"x", "net", "fixed"}
        assert suggested["fixed"] == 7
        assert suggested["net"]["op"] in ["a", None, {"b": 1}]
        assert suggested["net"]["deep"]["layers"] in range(1, 5)


def test_running_trials_are_pending() -> None:
    searcher = search(FEW, n_startup_trials=1)
    asked = [tuple(searcher.suggest(str(number)).values()) for number in range(6)]
    assert len(set(asked)) == 6


@pytest.mark.parametrize(
    ("ends", "received"),
    [
        ({"result": {"loss": 0.5}}, [3.0, 1.0, 0.5]),
        ({"error": True}, [3.0, 1.0, 3.0]),
        ({"result": {"loss": float("nan")}}, [3.0, 1.0, 3.0]),
        ({"result": {"loss": "bad"}}, [3.0, 1.0, 3.0]),
        ({"result": {"another": 1.0}}, [3.0, 1.0, 3.0]),
        ({}, [3.0, 1.0, 2.0]),
    ],
    ids=["result", "error", "nan", "text", "no metric", "paused"],
)
def test_results_received_from_each_end(ends: dict[str, Any], received: list[float]) -> None:
    searcher = search()
    for name, loss in (("one", 3.0), ("two", 1.0)):
        searcher.suggest(name)
        searcher.on_trial_complete(name, {"loss": loss})
    searcher.suggest("three")
    searcher.on_trial_result("three", {"loss": 2.0})
    searcher.on_trial_complete("three", **ends)
    searcher.on_trial_complete("three", {"loss": 9.0})  # again: it is not running any more
    assert [results.objective for _, results in searcher.optimizer.history] == received
    assert not searcher.optimizer.pending


def test_an_error_before_any_result_is_forgotten() -> None:
    searcher = search()
    searcher.suggest("one")
    searcher.on_trial_complete("one", error=True)
    assert not searcher.optimizer.history
    assert not searcher.optimizer.pending


def test_a_restored_search_continues_as_the_saved_one(tmp_path: Path) -> None:
    saved, restored = search(), BOFMSearch(seed=0, n_startup_trials=3)
    saved.suggest("forgotten")
    saved.on_trial_complete("forgotten")
    run(saved, range(6))
    saved.suggest("live")
    saved.on_trial_result("live", {"loss": 0.2})
    saved.save_to_dir(str(tmp_path))
    restored.restore_from_dir(str(tmp_path))
    for searcher in (saved, restored):
        searcher.on_trial_complete("live")
    assert run(saved, range(6, 9)) == run(restored, range(6, 9))


def test_what_is_missing_is_named() -> None:
    searcher = BOFMSearch()
    with pytest.raises(OptimizerError, match="no space"):
        searcher.suggest("one")
    for _ in range(2):
        with pytest.raises(OptimizerError, match="two or more values"):
            searcher.set_search_properties("loss", "min", {"p": tune.choice([1])})
    searcher = BOFMSearch()
    searcher.set_search_properties(None, None, FEW)
    with pytest.raises(OptimizerError, match="metric = None, mode = None"):
        searcher.suggest("one")


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "rbf"},
        {"bofm_mode": "fast"},
        {"n_startup_trials": 0},
        {"n_startup_trials": 2.5},
        {"seed": -1},
        {"seed": None},
    ],
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(OptimizerError, match="it must be"):
        BOFMSearch(**options)
