"""Tables of trials and summaries, written by hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import nan
from typing import Any

import pandas as pd
import pytest

from fmnas.comparison import Summary, figures
from fmnas.comparison.analysis.checkpoints import Checkpoint, CheckpointRow, Reached, Target
from fmnas.comparison.analysis.paired_tests import NONE, SECOND, TOO_FEW, Comparisons, PairedTest
from fmnas.comparison.analysis.retrained import Retrained, RetrainedBest, RetrainedMean
from fmnas.comparison.analysis.sanity_checks import SanityChecks
from fmnas.comparison.analysis.trials import typed_trials

START = datetime(2026, 1, 1, tzinfo=UTC)
Table = Callable[..., pd.DataFrame]


def row(optimizer: str, repeat: int, trial: int, **columns: Any) -> dict[str, Any]:
    """A finished full training of 25 epochs, 10 s and a suggestion of 1 s. at: when it finished, in seconds."""
    at = columns.pop("at", 10.0 * (trial + 1))
    if columns.get("status", "finished") != "finished":
        columns |= {"objective": None, "train_seconds": None}
    return {
        "run": f"{optimizer}/repeat-{repeat}",
        "optimizer": optimizer,
        "repeat": repeat,
        "trial": trial,
        "origin": "random",
        "parent": None,
        "epochs": 25,
        "objective": 1.0,
        **dict.fromkeys(("error", "flops", "flops_ratio")),
        "diverged": False,
        "status": "finished",
        "suggest_seconds": 1.0,
        "train_seconds": 10.0,
        "started_at": (START + timedelta(seconds=at - 7)).isoformat(),
        "finished_at": (START + timedelta(seconds=at)).isoformat(),
        "worker": "w0",
        "attempt": 1,
        "reason": "",
        "note": "",
        "x": trial / 7,
        **columns,
    }


@pytest.fixture(scope="session")
def make_row() -> Callable[..., dict[str, Any]]:
    """row(optimizer, repeat, trial, **columns)."""
    return row


@pytest.fixture(scope="session")
def make_table() -> Table:
    """make_table({(optimizer, repeat): [objective or {column: value}, ...]}): the trials of runs."""

    def make(runs: Mapping[tuple[str, int], list[float | Mapping[str, Any]]]) -> pd.DataFrame:
        columns = {
            key: [trial if isinstance(trial, Mapping) else {"objective": trial} for trial in trials]
            for key, trials in runs.items()
        }
        rows = [row(*key, number, **mine) for key, of_run in columns.items() for number, mine in enumerate(of_run)]
        return typed_trials(pd.DataFrame(rows), "a test")

    return make


@pytest.fixture(scope="session")
def make_run(make_table: Table) -> Table:
    """make_run(optimizer, repeat, trials as for make_table): the trials of one run."""
    return lambda optimizer, repeat, trials: make_table({(optimizer, repeat): trials})


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that looks at the numbers of a report: its figures take most of the time."""
    monkeypatch.setattr(figures, "FIGURES", ())


@pytest.fixture(scope="session")
def with_statistics() -> Callable[[Summary], Summary]:
    """with_statistics(summary): the summary of at least two optimizers with three repeats, and every optional part."""
    return add_statistics


def add_statistics(summary: Summary) -> Summary:
    """Numbers written by hand: they need not follow from the trials to be shown."""
    first, second, *_ = names = list(summary.optimizers)
    values, evaluations = {0: 0.07, 1: 0.08, 2: nan}, {0: 12.0, 1: nan}
    rows = tuple(CheckpointRow(name, 0.075, 0.005, 0.07, 0.08, 1.5, values) for name in names)
    reached = tuple(Reached(name, 2, 3, 12.5, evaluations) for name in names)
    return replace(
        summary,
        checkpoints=tuple(Checkpoint(share, 25, 1.0, rows) for share in (0.25, 0.5, 1.0)),
        tests=paired_tests(first, second),
        targets=(Target(0.0751, f"{first}'s mean at 100%", reached),),
        sanity_checks=sanity_checks(first, second),
        retrained=make_retrained(first, second),
    )


def paired_tests(first: str, second: str, repeats: int = 3) -> Comparisons:
    """A pair with every verdict, the last without numbers."""
    numbers = {"difference": -0.01, "low": -0.02, "high": 0.004, "p": 0.25, "p_corrected": 0.75, "effect": -1.0}
    pairs = (
        PairedTest(first, second, repeats, repeats, verdict=TOO_FEW, **numbers),
        PairedTest(second, first, repeats, repeats, verdict=SECOND, **numbers),
        PairedTest(first, first, repeats, repeats, verdict=NONE, **dict.fromkeys(numbers, nan)),
    )
    return Comparisons(pairs, repeats, repeats_needed=6)


def sanity_checks(first: str, second: str) -> tuple[SanityChecks, ...]:
    """An optimizer without a warning, and one with a warning that HTML must escape."""
    good = SanityChecks(
        first,
        trials=75,
        shares={"initial": 0.4, "model": 0.6},
        model_share=0.6,
        method_share=0.6,
        method_unused=False,
        charged=10,
        unfinished=0,
        fallbacks=3,
        failed_fits=1,
        extrapolated=0.2,
        duplicates=2,
        isomorphic_duplicates=0,
        suggest_seconds=1.5,
        suggest_share=0.004,
        warnings=(),
    )
    return good, replace(good, optimizer=second, warnings=("mostly random search <3>",))


def make_retrained(first: str, second: str) -> Retrained:
    """One network of each, the second's without a standard error."""
    best = RetrainedBest(
        f"{first}/repeat-0", first, 0, 3, 0.08, 0.0712, 0.0809, 0.0007, errors=(0.08, 0.0818), seconds=5000.0
    )
    other = replace(best, optimizer=second, run=f"{second}/repeat-0", standard_error=nan)
    means = (
        RetrainedMean(first, 0.0712, 0.0809, nan, nan, nan, 1),
        RetrainedMean(second, 0.0712, 0.0809, nan, 0.0801, 0.0822, 2),
    )
    return Retrained(100, 60000, 2, 10000, (best, other), means, paired_tests(second, first, repeats=2))
