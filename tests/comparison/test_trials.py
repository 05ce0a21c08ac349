from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportError, read_trials
from fmnas.comparison.analysis.trials import (
    COLUMNS,
    LAST_COLUMN,
    WAY_COLUMNS,
    configuration_of,
    typed_trials,
    variable_columns,
)
from fmnas.platform.experiment import trial_result as outcomes
from fmnas.search_spaces import Conditions, Evaluation, Trial


def outcome(number: int, status: str = "finished", seeds: int = 2, **configuration: object) -> outcomes.TrialResult:
    errors = (0.1, 0.30000000000000004)[:seeds]
    how = Conditions("stacked", True, "NVIDIA H200", "2.13.0", 91002)
    evaluation = Evaluation(0.1 + 0.2, 25, errors, 70_274_048, 1 / 3, (), 1.5, False, how)
    evaluation = evaluation if status == "finished" else None
    trial = Trial(number, {"lr": 0.1 * 3, "op": "None", "in2": "-1,0", "n": 2, **configuration}, 25, "random")
    return outcomes.TrialResult(
        "bo-fm", 0, trial, status, evaluation, 0.25, 1.7e9, 1.7e9 + 2, "gpu-0", reason='a "b",\nc'
    )


def write(table: pd.DataFrame, folder: Path) -> Path:
    table.to_csv(folder / "trials.csv", index=False)
    return folder / "trials.csv"


def test_the_platform_writes_what_this_room_reads():
    columns = list(outcome(0).to_row(2))
    assert set(COLUMNS) <= set(columns)
    assert columns[columns.index(LAST_COLUMN) + 1 :] == ["lr", "op", "in2", "n"]
    assert columns[columns.index("lost_seconds") :][:5] == ["lost_seconds", *WAY_COLUMNS, "fallback", LAST_COLUMN]


def test_numbers_too_large_for_the_table_are_left_out_of_it() -> None:
    huge = outcome(1)
    assert huge.evaluation is not None
    trial = replace(huge.trial, parent=10**30)
    huge = replace(huge, trial=trial, evaluation=replace(huge.evaluation, flops=2**63))
    table = outcomes.trials_table([outcome(0), huge], 2)
    assert table["parent"].isna().all()
    assert [pd.isna(flops) for flops in table["flops"]] == [False, True]


@pytest.mark.parametrize("seeds", [0, 2])
def test_file_and_memory_give_the_same_table(tmp_path, seeds):
    table = outcomes.trials_table([outcome(0, seeds=seeds), outcome(1, "failed", seeds)], seeds)
    read, typed = read_trials(write(table, tmp_path)), typed_trials(table, "memory")
    pd.testing.assert_frame_equal(read, typed, check_dtype=False)
    assert read["objective"].iloc[0] == 0.1 + 0.2  # to the last bit
    assert configuration_of(read.iloc[0], variable_columns(read)) == {
        "lr": 0.1 * 3,
        "op": "None",
        "in2": "-1,0",
        "n": 2,
    }
    assert read["finished_at"].iloc[0] - read["started_at"].iloc[0] == pd.Timedelta(seconds=2)
    assert read["reason"].iloc[0] == 'a "b",\nc'
    assert pd.isna(read["objective"].iloc[1])
    assert list(read["device"]) == ["NVIDIA H200", ""]
    assert list(read["arrangement"]) == ["stacked (captured)", ""]


def test_a_file_from_before_it_was_told_how_trials_were_trained_is_read(tmp_path):
    read = read_trials(write(outcomes.trials_table([outcome(0)], 2).drop(columns=list(WAY_COLUMNS)), tmp_path))
    assert [read[name].iloc[0] for name in WAY_COLUMNS] == ["", ""]
    assert variable_columns(read) == ["lr", "op", "in2", "n"]


def test_a_file_from_before_lost_seconds_is_read(tmp_path):
    table = outcomes.trials_table([outcome(0), outcome(1)], 2).assign(attempt=[1, 2])
    read = read_trials(write(table.drop(columns="lost_seconds"), tmp_path))
    assert read["lost_seconds"].iloc[0] == 0.0
    assert pd.isna(read["lost_seconds"].iloc[1])
    assert variable_columns(read) == ["lr", "op", "in2", "n"]


def test_an_empty_table_is_fine(tmp_path):
    for table in (outcomes.trials_table([], 4), pd.DataFrame(columns=list(COLUMNS))):
        read = read_trials(write(table, tmp_path))
        assert len(read) == 0
        assert set(COLUMNS) <= set(read.columns)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="epochs"), r"trials\.csv: column 'epochs' is missing"),
        (lambda t: t.assign(note="").rename(columns={"worker": "wurker"}), "column 'wurker' is unknown"),
        (lambda t: t.assign(epochs="many"), "column 'epochs' holds 'many'"),
        (lambda t: t.assign(epochs=0), "column 'epochs' holds 0"),
        (lambda t: t.assign(objective="0,5"), "column 'objective' holds '0,5'"),
        (lambda t: t.assign(diverged="maybe"), "column 'diverged' holds 'maybe'.*True and False"),
        (lambda t: t.assign(epochs=2**63), "column 'epochs' holds '9223372036854775808', which does not parse"),
        (lambda t: t.assign(finished_at="yesterday"), "column 'finished_at' holds 'yesterday'"),
        (lambda t: t.assign(finished_at=None), "column 'finished_at' is empty in row 0"),
        (lambda t: t.assign(status="done"), "column 'status' holds 'done'; allowed are finished, failed"),
        (lambda t: t.assign(origin="guess"), "column 'origin' holds 'guess'; allowed are initial"),
        (lambda t: pd.concat([t, t]), "trial 0 of run 'bo-fm/repeat-0' is there twice"),
    ],
)
def test_errors_name_file_and_column(tmp_path, change, message):
    table = outcomes.trials_table([outcome(0)], 2)
    with pytest.raises(ReportError, match=message):
        read_trials(write(change(table), tmp_path))


def test_a_file_that_is_none(tmp_path):
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
