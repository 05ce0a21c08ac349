"""Tables of trials, written by hand."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from fmnas.comparison.trials import typed_trials

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
