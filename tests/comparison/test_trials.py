import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportError, read_trials
from fmnas.comparison.analysis.trials import (
    COLUMNS,
    LAST_COLUMN,
    OPTIONAL_COLUMNS,
    SOURCE,
    configuration_of,
    typed_trials,
    variable_columns,
)
from fmnas.platform.experiment.trial_result import trials_table

FLOATS = {
    "error": 0.2,
    "error_seed_1": 0.1,
    "error_seed_2": 0.30000000000000004,
    "flops": 70_274_048,
    "flops_ratio": 1 / 3,
}
OPTIONAL = {
    **{"lost_seconds": 0.5, "extrapolated": True},
    **{"device": "NVIDIA H200", "arrangement": "stacked (captured)", "fallback": "failed fit"},
}
VARIABLES = {"lr": 0.1 * 3, "op": "None", "in2": "-1,0", "n": 2}
ORDER = [*(name for name in COLUMNS if name != LAST_COLUMN), *FLOATS, *OPTIONAL, LAST_COLUMN, *VARIABLES]


@pytest.fixture
def table(make_row):
    """A finished and a failed trial, in the order of a trials.csv."""
    finished = {"objective": 0.1 + 0.2, "reason": 'a "b",\nc', **FLOATS}
    failed = {"status": "failed", **dict.fromkeys(FLOATS), "device": ""}
    rows = [make_row("bo-fm", 0, i, **OPTIONAL | VARIABLES | row) for i, row in enumerate((finished, failed))]
    return pd.DataFrame(rows)[list(dict.fromkeys(ORDER))]


def write(table, folder):
    table.to_csv(folder / "trials.csv", index=False)
    return folder / "trials.csv"


def test_file_and_memory_give_the_same_table(table, tmp_path):
    read = read_trials(write(table, tmp_path))
    pd.testing.assert_frame_equal(read, typed_trials(table, "memory"), check_dtype=False)
    assert read["objective"].iloc[0] == 0.1 + 0.2  # to the last bit
    assert configuration_of(read.iloc[0], variable_columns(read)) == VARIABLES
    assert read["finished_at"].iloc[0] - read["started_at"].iloc[0] == pd.Timedelta(seconds=7)
    assert read["reason"].iloc[0] == 'a "b",\nc'
    assert pd.isna(read["objective"].iloc[1])
    assert list(read["device"]) == ["NVIDIA H200", ""]


def test_texts_that_are_the_same_number_stay_apart(table, tmp_path):
    table["op"] = ["8", "08"]
    assert list(read_trials(write(table, tmp_path))["op"]) == ["8", "08"]


@pytest.mark.parametrize("other", ["nan", "1.5"])
def test_a_text_that_is_no_number_is_not_lost(table, tmp_path, other):
    table["op"] = ["nan", other]
    assert list(read_trials(write(table, tmp_path))["op"]) == ["nan", other]


def test_optional_columns_have_defaults(table, tmp_path):
    read = read_trials(write(table.drop(columns=list(OPTIONAL)), tmp_path))
    assert {name: read[name].iloc[0] for name in OPTIONAL_COLUMNS} == OPTIONAL_COLUMNS
    assert variable_columns(read) == list(VARIABLES)
    assert set(OPTIONAL_COLUMNS) == {*OPTIONAL, SOURCE}


def test_an_empty_table_has_all_columns(tmp_path):
    for empty in (trials_table([], 4), pd.DataFrame(columns=list(COLUMNS)), pd.DataFrame()):
        read = read_trials(write(empty, tmp_path))
        assert len(read) == 0
        assert set(COLUMNS) <= set(read.columns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="epochs"), r"trials\.csv: column 'epochs'"),
        (lambda t: t.rename(columns={"worker": "wurker"}), "'worker' is missing"),
        (lambda t: t.assign(epochs="many"), "'epochs' does not parse.*many"),
        (lambda t: t.assign(epochs=0), "'epochs' holds 0"),
        (lambda t: t.assign(epochs="inf"), "'epochs' holds inf"),
        (lambda t: t.assign(objective="0,5"), "'objective' does not parse.*0,5"),
        (lambda t: t.assign(diverged="maybe"), "'diverged' does not parse.*maybe.*True and False"),
        (lambda t: t.assign(finished_at="yesterday"), "'finished_at' does not parse.*yesterday"),
        (lambda t: t.assign(finished_at=None), "'finished_at' is empty in row 0"),
        (lambda t: t.assign(status="done"), "'status' holds 'done'; allowed are finished, failed"),
        (lambda t: t.assign(origin="guess"), "'origin' holds 'guess'; allowed are initial"),
        (lambda t: t.assign(fallback="no"), "'fallback' holds 'no'"),
        (lambda t: pd.concat([t, t]), "trial 0 of run 'bo-fm/repeat-0'"),
    ],
)
def test_errors_name_file_and_column(table, tmp_path, change, message):
    with pytest.raises(ReportError, match=message):
        read_trials(write(change(table), tmp_path))


def test_a_file_that_is_not_a_table(tmp_path):
    with pytest.raises(ReportError, match=r"trials\.csv"):
        read_trials(tmp_path / "trials.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match=r"binary\.csv"):
        read_trials(tmp_path / "binary.csv")


def test_budget():
    assert Budget(200, 25).epochs == 5000
    with pytest.raises(ReportError, match="evaluations = 0"):
        Budget(0, 25)
    with pytest.raises(ReportError, match="seconds = 0"):
        Budget(1, 25, seconds=0.0)
