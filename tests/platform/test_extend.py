"""Experiments that grow: what was done stays unchanged, and what is added is what it would have been from the start."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import begin, journal_dicts

from fmnas.platform.config.schema import Config
from fmnas.platform.errors import ConfigError, Ending
from fmnas.platform.experiment.configuration import check_extension, extended_config
from fmnas.platform.experiment.events import DriverWork, Extended
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.provenance import driver_started
from fmnas.platform.experiment.replay import Mismatch, replay
from fmnas.platform.experiment.state import ExperimentState

pytestmark = pytest.mark.slow

Drive = Callable[..., tuple[str, ExperimentState, Any]]
Configured = Callable[..., Config]
Results = Callable[[Path], dict[tuple[str, int], Any]]
Asks = Callable[[Path], list[tuple[str, str]]]

EVOLUTION = {"name": "regularized-evolution", "population": 4, "tournament": 2}
QUICK: list[Any] = ["bo-fm", EVOLUTION, "bohb", "random", "cocabo"]


def grow(journal: Path, before: Config, after: Config) -> None:
    """What the command writes."""
    with Journal(journal) as log:
        log.append(driver_started(after, DriverWork.EXPERIMENT, 0.0))
        log.append(Extended(check_extension(before, after, journal.parent), after.model_dump(mode="json"), 0.0))


def by_run(asked: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """run -> its suggestions, with their seeds, in turn."""
    trials: dict[str, list[str]] = {}
    for run, trial in asked:
        trials.setdefault(run, []).append(trial)
    return trials


GROWTHS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "repeats": ({"repeats": 1}, {"repeats": 2}),
    "optimizers": ({"optimizers": QUICK[:1]}, {"optimizers": QUICK}),
    "evaluations": (
        {"optimizers": [EVOLUTION, "bohb", "random", "rounding-gp"]},
        {"optimizers": [EVOLUTION, "bohb", "random", "rounding-gp"], "budget": {"evaluations": 8}},
    ),
    "seconds": (
        {"optimizers": [EVOLUTION, "random"], "budget": {"evaluations": 5, "seconds": 1e-9}},
        {"optimizers": [EVOLUTION, "random"], "budget": {"evaluations": 5, "seconds": None}},
    ),
    "all of it": (
        {"optimizers": ["random", "bohb"], "repeats": 1},
        {"optimizers": ["random", "bohb", EVOLUTION], "repeats": 3, "budget": {"evaluations": 8}},
    ),
}


@pytest.mark.parametrize("name", GROWTHS)
def test_an_experiment_that_grew_is_the_one_that_was_so_from_the_start(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks, results: Results, name: str
) -> None:
    before, after = (configured(**{"optimizers": QUICK, **keys}) for keys in GROWTHS[name])
    journal, other = tmp_path / "grown", tmp_path / "whole"
    assert drive(before, journal)[0] == Ending.FINISHED
    first = journal.read_bytes()
    grow(journal, before, after)
    assert drive(after, journal)[0] == Ending.FINISHED
    assert journal.read_bytes().startswith(first)
    drive(after, other)
    assert by_run(asks(journal)) == by_run(asks(other))
    assert results(journal) == results(other)
    assert len(results(journal)) > sum(b'"finished"' in line for line in first.splitlines())


@pytest.mark.parametrize(
    ("seconds", "wanted", "refused"),
    [(None, "5", True), (9.0, "5", True), (9.0, "10", False), (9.0, "null", False), (None, "null", False)],
)
def test_a_limit_in_seconds_may_be_raised_and_lifted_and_not_set_later(
    tmp_path: Path, configured: Configured, seconds: float | None, wanted: str, refused: bool
) -> None:
    config = configured(budget={"evaluations": 5, "seconds": seconds})
    if refused:
        with pytest.raises(ConfigError, match=r"budget\.seconds = 5"):
            extended_config(config, [f"budget.seconds={wanted}"], tmp_path)
    else:
        after = extended_config(config, [f"budget.seconds={wanted}"], tmp_path)
        assert after.budget.seconds == (None if wanted == "null" else float(wanted))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_it_is_resumed_after_any_record(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks, results: Results, concurrency: int
) -> None:
    """Cut before the extension, it is extended again; cut after it, the rest follows."""
    names = ("random", "regularized-evolution") if concurrency == 1 else ("bohb", "random")
    entries = [{"name": name, "concurrency": concurrency} for name in names]
    before = configured(optimizers=entries[:1], repeats=1)
    after = configured(optimizers=entries, repeats=2, budget={"evaluations": 6})
    journal = tmp_path / "whole"
    drive(before, journal, capacity=concurrency)
    grow(journal, before, after)
    drive(after, journal, capacity=concurrency)
    whole, objectives, lines = by_run(asks(journal)), results(journal), journal.read_bytes().splitlines(keepends=True)
    events = [record["event"] for record in journal_dicts(journal)]
    assert 10 < events.index("extended") < len(events) - 10
    for cut in range(0, len(lines), 3 if concurrency == 1 else 5):
        again = tmp_path / f"cut-{cut}"
        again.write_bytes(b"".join(lines[:cut]))
        if not cut:
            begin(again, before)
        if "extended" not in events[:cut]:
            grow(again, before, after)
        status, state, _ = drive(after, again, capacity=concurrency)
        assert status == Ending.FINISHED
        assert all(run.budget.spent <= 18 and not run.budget.committed for run in state.ledger.runs.values())
        if concurrency == 1:
            assert by_run(asks(again)) == whole
            assert results(again) == objectives
        if cut % 3 == 0:
            assert not differences(again, before, after)


def differences(journal: Path, *stages: Config) -> list[Mismatch]:
    """What a replay of a journal finds."""
    experiments = [build_experiment(config, {}, False) for config in stages]
    return replay(read_journal(journal), experiments)[1]


def test_an_optimizer_with_two_budgets_is_replayed_to_the_last_number(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks
) -> None:
    """And it is not a run that knew the larger budget from the start, or the smaller one to the end."""
    before, after = (configured(optimizers=["cocabo"], budget={"evaluations": n}, seed=1) for n in (10, 20))
    journal = tmp_path / "j"
    drive(before, journal)
    grow(journal, before, after)
    drive(after, journal)
    assert differences(journal, before, after) == []
    drive(after, tmp_path / "whole")
    assert differences(journal, after, after) != []
    assert differences(journal, before, before) != []
    assert by_run(asks(journal)) != by_run(asks(tmp_path / "whole"))
