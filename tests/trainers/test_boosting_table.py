"""The table of boosted trees: its space, what it holds, and the nearest configuration."""

import gzip
import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.search_spaces import Configuration
from fmnas.trainers.tables.boosting_table import ERROR, FILE, SPACE, XGB_TABLE, read_rows, read_table

TABLE = read_table()
ROWS = read_rows(FILE.read_bytes())
PATIENTS = 569
"""Rows of the data: errors are multiples of 1/569."""


def distance(a: Configuration, b: Configuration) -> float:
    """Return the squared distance in the unit cube, variable by variable."""
    total = 0.0
    for variable in SPACE.continuous:
        total += (variable.to_unit(a[variable.name]) - variable.to_unit(b[variable.name])) ** 2
    for discrete in SPACE.discrete:
        places = (discrete.index(a[discrete.name]) - discrete.index(b[discrete.name])) / (len(discrete.vertices) - 1)
        total += places**2
    return total


def test_the_space_is_that_of_the_paper() -> None:
    ranges = {real.name: (real.low, real.high) for real in SPACE.continuous}
    assert ranges == {
        "alpha": (0.000985, 1009.20969),
        "lambda": (0.000978, 999.020893),
        "eta": (0.000979, 0.995686),
        "min_child_weight": (1.012169, 127.041806),
        "colsample_bylevel": (0.046776, 0.998424),
        "colsample_bytree": (0.062528, 0.99964),
        "subsample": (0.100215, 0.99983),
    }
    values = {discrete.name: discrete.vertices for discrete in SPACE.discrete}
    assert (values["booster"], values["max_depth"]) == (("gbtree", "gblinear"), tuple(range(1, 16)))
    assert (values["nrounds"][0], values["nrounds"][-1], len(values["nrounds"])) == (3, 5000, 32)
    assert [real.name for real in SPACE.continuous if real.log] == ["alpha", "lambda", "eta", "min_child_weight"]


def test_the_table_is_of_2000_configurations_of_the_space_and_of_whole_errors() -> None:
    assert TABLE.X.shape == (2000, 10)
    assert (TABLE.X >= 0.0).all()
    assert (TABLE.X <= 1.0).all()
    assert len(np.unique(TABLE.X, axis=0)) == 2000
    assert TABLE.errors * PATIENTS == pytest.approx(np.round(TABLE.errors * PATIENTS), abs=1e-9)
    assert gzip.decompress(FILE.read_bytes()).decode().partition("\n")[0] == ",".join([*SPACE.names, ERROR])


def test_errors_are_graded_for_both_boosters() -> None:
    """As the docstring of the problem says."""
    errors = {booster: [error for c, error in ROWS if c["booster"] == booster] for booster in ("gbtree", "gblinear")}
    assert {booster: round(min(of_booster), 3) for booster, of_booster in errors.items()} == {
        "gbtree": 0.021,
        "gblinear": 0.047,
    }
    assert np.mean(np.round(TABLE.errors, 3) == 0.373) == pytest.approx(0.42, abs=0.005)
    assert (TABLE.errors == XGB_TABLE.minimum).sum() == 1


def test_the_minimum_is_that_of_the_table() -> None:
    assert XGB_TABLE.minimum == TABLE.errors.min()
    best = ROWS[int(TABLE.errors.argmin())][0]
    assert TABLE.nearest_error(best) == XGB_TABLE.minimum


def test_a_recorded_configuration_has_its_own_error() -> None:
    assert [TABLE.nearest_error(configuration) for configuration, _ in ROWS[:50]] == [error for _, error in ROWS[:50]]


@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=20)
def test_another_has_that_of_the_nearest(seed: int) -> None:
    drawn = SPACE.sample(np.random.default_rng(seed))
    nearest = min(ROWS, key=lambda row: distance(row[0], drawn))
    assert TABLE.nearest_error(drawn) == nearest[1]


def test_how_it_was_recorded_lies_beside_it() -> None:
    about = json.loads((FILE.parent / "xgb_table.json").read_text())
    assert about["rows"] == len(ROWS)
    assert "record_xgb_table.py" in about["command"]
    assert {"date", "data", "versions"} <= about.keys()


def test_the_table_is_small() -> None:
    assert FILE.stat().st_size < 150_000
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
    assert "*.csv.gz" in project["tool"]["setuptools"]["package-data"]["fmnas.trainers.tables"]
