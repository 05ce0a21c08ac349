"""Tables of trials, written by hand."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import nan
from typing import Any

import pandas as pd
import pytest

from fmnas.comparison import Summary
from fmnas.comparison.analysis.checkpoints import Checkpoint, Standing
from fmnas.comparison.analysis.efficiency import Area, Equivalent, Reached, Target
from fmnas.comparison.analysis.paired_tests import NONE, SECOND, TOO_FEW, Comparisons, PairedTest
from fmnas.comparison.analysis.retrained import Retrained, RetrainedBest, RetrainedMean
from fmnas.comparison.analysis.sanity_checks import Honesty
from fmnas.comparison.analysis.tradeoff import Tradeoff
from fmnas.comparison.analysis.trials import typed_trials

START = datetime(2026, 1, 1, tzinfo=UTC)
Table = Callable[..., pd.DataFrame]


def row(optimizer: str, repeat: int, trial: int, **given: Any) -> dict[str, Any]:
    """A finished full training of 25 epochs, 10 s and a suggestion of 1 s; `at`: when it finished, in seconds."""
    at = given.pop("at", 10.0 * (trial + 1))
    plain = {
        "run": f"{optimizer}/repeat-{repeat}",
        "optimizer": optimizer,
        "repeat": repeat,
        "trial": trial,
        "origin": "random",
        "parent": None,
        "epochs": 25,
        "objective": 1.0,
        "error": None,
        "flops": None,
        "flops_ratio": None,
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
    }
    given = {
        **given,
        **({"objective": None, "train_seconds": None} if given.get("status", "finished") != "finished" else {}),
    }
    return plain | given


@pytest.fixture(scope="session")
def make_row() -> Callable[..., dict[str, Any]]:
    """row(optimizer, repeat, trial, **columns)."""
    return row


@pytest.fixture(scope="session")
def make_run() -> Table:
    """make_run(optimizer, repeat, [objective or {column: value}, ...]): the trials of one run."""

    def make(optimizer: str, repeat: int, trials: list[float | Mapping[str, Any]]) -> pd.DataFrame:
        given = [trial if isinstance(trial, Mapping) else {"objective": trial} for trial in trials]
        rows = [row(optimizer, repeat, number, **each) for number, each in enumerate(given)]
        return typed_trials(pd.DataFrame(rows), "a test")

    return make


@pytest.fixture(scope="session")
def make_table(make_run: Table) -> Table:
    """make_table({(optimizer, repeat): trials as for make_run})."""

    def make(runs: Mapping[tuple[str, int], list[Any]]) -> pd.DataFrame:
        return pd.concat([make_run(*key, trials) for key, trials in runs.items()], ignore_index=True)

    return make


@pytest.fixture(scope="session")
def with_statistics() -> Callable[[Summary], Summary]:
    """with_statistics(summary): the summary of at least two optimizers with three repeats, and every further part."""
    return fill_in


def fill_in(summary: Summary) -> Summary:
    """Numbers by hand: they need not follow from the trials to be shown."""
    first, second, *_ = names = list(summary.optimizers)
    return replace(
        summary,
        checkpoints=checkpoints(names),
        area=tuple(Area(name, 0.09, 0.01, VALUES) for name in names),
        tests=paired_tests(first, second),
        targets=(Target(0.0751, f"{first}'s mean at 100%", tuple(Reached(n, 2, 3, 12.5, TIMES) for n in names)),),
        equivalents=equivalents(first, second),
        honesty=honesty(first, second),
        retrained=retrained(first, second),
        tradeoff=tuple(Tradeoff(name, 0.6, 0.01, {0: 0.59, 1: 0.61}, ((0.1, 0.4), (0.3, 0.2))) for name in names),
    )


VALUES = {0: 0.07, 1: 0.08, 2: nan}
TIMES = {0: 12.0, 1: nan}


def checkpoints(names: list[str]) -> tuple[Checkpoint, ...]:
    """Where every optimizer stands at three shares of the budget."""
    rows = tuple(Standing(name, 0.075, 0.005, 0.07, 0.08, 1.5, VALUES) for name in names)
    return tuple(Checkpoint(share, 25, 1.0, rows) for share in (0.25, 0.5, 1.0))


def paired_tests(first: str, second: str, repeats: int = 3) -> Comparisons:
    """A pair of every verdict, the last without numbers."""
    numbers = {"difference": -0.01, "low": -0.02, "high": 0.004, "p": 0.25, "p_corrected": 0.75, "effect": -1.0}
    pairs = (
        PairedTest(first, second, repeats, repeats, verdict=TOO_FEW, **numbers),
        PairedTest(second, first, repeats, repeats, verdict=SECOND, **numbers),
        PairedTest(first, first, repeats, repeats, verdict=NONE, **dict.fromkeys(numbers, nan)),
    )
    return Comparisons(pairs, repeats, repeats_needed=6)


def equivalents(first: str, second: str) -> tuple[Equivalent, ...]:
    """What the second needs to be as good as the first: more than there is, and 20 evaluations."""
    return (
        Equivalent(first, 25.0, 0.075, second, nan, nan, nan, nan),
        Equivalent(first, 12.0, 0.08, second, 20.0, nan, nan, nan),
        Equivalent(second, 25.0, 0.07, first, 20.0, 12.0, nan, 0.03),
    )


def honesty(first: str, second: str) -> tuple[Honesty, ...]:
    """An optimizer without a warning, and one with a warning that HTML must escape."""
    honest = Honesty(
        first,
        trials=75,
        shares={"initial": 0.4, "model": 0.6},
        model_share=0.6,
        has_model=True,
        method_share=0.6,
        model_unused=False,
        method_unused=False,
        charged=10,
        unfinished=0,
        fallbacks=3,
        failed_fits=1,
        duplicates=2,
        isomorphic_duplicates=0,
        suggest_seconds=1.5,
        suggest_share=0.004,
        idle_seconds=12.0,
        warnings=(),
    )
    return honest, replace(honest, optimizer=second, warnings=("mostly random search in disguise <3>",))


def retrained(first: str, second: str) -> Retrained:
    """One network of each, the second's without a standard error."""
    best = RetrainedBest(
        f"{first}/repeat-0", first, 0, 3, 0.08, 0.0712, 0.0809, 0.0007, errors=(0.08, 0.0818), seconds=5000.0
    )
    other = replace(best, optimizer=second, run=f"{second}/repeat-0", standard_error=nan)
    means = (
        RetrainedMean(first, 0.0712, 0.0809, nan, nan, nan, 1),
        RetrainedMean(second, 0.0712, 0.0809, nan, 0.0801, 0.0822, 2),
    )
    tests = paired_tests(second, first, repeats=2)
    return Retrained(100, 60000, 2, 10000, (best, other), means, tests)
