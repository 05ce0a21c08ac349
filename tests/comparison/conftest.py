"""Tables of trials, written by hand."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from fmnas.comparison.numbers.trials import typed_trials

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
def with_statistics() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """with_statistics(summary): the summary of at least two optimizers with three repeats, and every further key."""
    return fill_in


def fill_in(summary: dict[str, Any]) -> dict[str, Any]:
    """Numbers by hand: they need not follow from the trials to be shown."""
    first, second, *_ = names = list(summary["optimizers"])
    return {
        **summary,
        **progress(names),
        "tests": paired_tests(first, second),
        "targets": targets(names),
        "equivalents": equivalents(first, second),
        "honesty": honesty(first, second),
        "retrained": retrained(first, second),
    }


def progress(names: list[str]) -> dict[str, Any]:
    """Where every optimizer stands at three shares of the budget, and the area under its curve."""
    values = {"0": 0.07, "1": 0.08, "2": None}
    row = {"mean": 0.075, "standard_error": 0.005, "low": 0.07, "high": 0.08, "rank": 1.5, "values": values}
    return {
        "checkpoints": [
            {"share": s, "epochs": 25, "evaluations": 1.0, "rows": [{"optimizer": n, **row} for n in names]}
            for s in (0.25, 0.5, 1.0)
        ],
        "area": [{"optimizer": n, "mean": 0.09, "standard_error": 0.01, "values": values} for n in names],
    }


def paired_tests(first: str, second: str) -> dict[str, Any]:
    """A pair of every verdict, the last without numbers."""
    pair = {
        "repeats": 3,
        "difference": -0.01,
        "low": -0.02,
        "high": 0.004,
        "p": 0.25,
        "p_corrected": 0.75,
        "effect": -1,
    }
    nothing = {"difference": None, "low": None, "high": None, "p": None, "p_corrected": None, "effect": None}
    return {
        "level": 0.05,
        "correction": "holm",
        "power": "3 paired repeats: the smallest p is 0.25; 6 can reach 5%",
        "repeats": 3,
        "repeats_needed": 6,
        "pairs": [
            {"first": first, "second": second, "verdict": "too few repeats to tell", **pair},
            {"first": second, "second": first, "verdict": "second better", **pair},
            {"first": first, "second": first, "verdict": "no difference shown", **pair, **nothing},
        ],
    }


def targets(names: list[str]) -> list[dict[str, Any]]:
    """One target, which every optimizer reaches in two of three repeats."""
    return [
        {
            "target": 0.0751,
            "from": f"{names[0]}'s mean at 100%",
            "rows": [
                {"optimizer": n, "reached": 2, "repeats": 3, "evaluations": 12.5, "values": {"0": 12, "1": None}}
                for n in names
            ],
        }
    ]


def equivalents(first: str, second: str) -> list[dict[str, Any]]:
    """What the second needs to be as good as the first: more than there is, and 20 evaluations."""
    return [
        {"optimizer": first, "at": 25, "value": 0.075, "other": second, "evaluations": None},
        {"optimizer": first, "at": 12, "value": 0.08, "other": second, "evaluations": 20},
        {
            **{"optimizer": second, "at": 25, "value": 0.07, "other": first, "evaluations": 20},
            **{"low": 12.0, "high": None, "late": 0.03},
        },
    ]


def honesty(first: str, second: str) -> list[dict[str, Any]]:
    """An optimizer without a warning, and one with a warning that HTML must escape."""
    honest = {"trials": 75, "shares": {"initial": 0.4, "model": 0.6}, "model_share": 0.6, "fallbacks": 3}
    honest |= {"failed_fits": 1, "duplicates": 2, "isomorphic_duplicates": 0, "suggest_seconds": 1.5}
    honest |= {"suggest_share": 0.004, "idle_seconds": 12.0, "warnings": []}
    return [
        {"optimizer": first, **honest},
        {"optimizer": second, **honest, "warnings": ["mostly random search in disguise <3>"]},
    ]


def retrained(first: str, second: str) -> dict[str, Any]:
    """One network of each, the second's without a standard error."""
    row = {"optimizer": first, "repeat": 0, "trial": 3, "selected_objective": 0.08, "selected_error": 0.0712}
    row |= {"error": 0.0809, "standard_error": 0.0007, "errors": [0.08, 0.0818], "seconds": 5000.0}
    other = {**row, "optimizer": second, "run": f"{second}/repeat-0", "standard_error": None}
    means = {"selected_error": 0.0712, "error": 0.0809, "standard_error": None}
    return {
        "epochs": 100,
        "images": 60000,
        "seeds": 2,
        "test_images": 10000,
        "rows": [{**row, "run": f"{first}/repeat-0"}, other],
        "means": [{"optimizer": first, **means}, {"optimizer": second, **means, "low": 0.0801, "high": 0.0822}],
        "tests": {**paired_tests(second, first), "power": "two retrained are too few"},
    }
