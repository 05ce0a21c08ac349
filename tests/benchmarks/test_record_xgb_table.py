"""The script that records the table of boosted trees: its trainings are those that are shipped."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
import record_xgb_table as script

from fmnas.trainers.tables.boosting_table import FILE, SPACE, read_rows

CHEAP = 50
"""Rounds."""


def test_the_shipped_configurations_are_those_that_are_drawn() -> None:
    rng = np.random.default_rng(0)
    assert [script.draw(rng) for _ in range(50)] == [
        configuration for configuration, _ in read_rows(FILE.read_bytes())[:50]
    ]


def test_trainings_again_have_the_shipped_errors() -> None:
    """Another version of xgboost may classify a few rows otherwise."""
    rows = [row for row in read_rows(FILE.read_bytes())[:60] if int(row[0]["nrounds"]) < CHEAP]
    assert {row[0]["booster"] for row in rows} == {"gbtree", "gblinear"}
    folds = script.make_folds()
    assert [script.cross_validate(configuration, folds) for configuration, _ in rows] == pytest.approx(
        [error for _, error in rows], abs=0.02
    )


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    rows = [(SPACE.coerce(script.draw(np.random.default_rng(seed))), seed / 569) for seed in range(3)]
    script.write_table(tmp_path, rows, {"rows": 3})
    again = read_rows((tmp_path / FILE.name).read_bytes())
    assert [configuration for configuration, _ in again] == [configuration for configuration, _ in rows]
    assert [error for _, error in again] == [error for _, error in rows]
    assert json.loads((tmp_path / "xgb_table.json").read_text()) == {"rows": 3}
