"""The table of trials that the platform writes is the one that the comparison reads."""

from dataclasses import replace

import pandas as pd

from fmnas.comparison.analysis.trials import (
    COLUMNS,
    EXECUTION_COLUMNS,
    LAST_COLUMN,
    typed_trials,
    variable_columns,
)
from fmnas.platform.experiment.trial_result import TrialResult, trials_table
from fmnas.search_spaces import Conditions, Evaluation, Trial

CONDITIONS = Conditions("stacked", True, "NVIDIA H200", "2.13.0", 91002)
EVALUATION = Evaluation(0.1 + 0.2, 25, (0.1, 0.3), 70_274_048, 1 / 3, (), 1.5, False, CONDITIONS)


def result(number: int) -> TrialResult:
    trial = Trial(number, {"lr": 0.1 * 3, "op": "None"}, 25, "random")
    return TrialResult("bo-fm", 0, trial, "finished", EVALUATION, 0.25, 1.7e9, 1.7e9 + 2, "gpu-0")


def test_columns() -> None:
    table = trials_table([result(0)], 2)
    columns = list(table.columns)
    assert set(COLUMNS) <= set(columns)
    assert columns[columns.index(LAST_COLUMN) + 1 :] == ["lr", "op"]
    assert columns[columns.index("lost_seconds") :][:5] == ["lost_seconds", *EXECUTION_COLUMNS, "fallback", LAST_COLUMN]
    typed = typed_trials(table, "memory")
    assert [typed[name].iloc[0] for name in EXECUTION_COLUMNS] == ["NVIDIA H200", "stacked (captured)"]
    assert typed["objective"].iloc[0] == 0.1 + 0.2


def test_two_objectives_have_columns_before_the_variables() -> None:
    two = replace(result(1), evaluation=replace(EVALUATION, values=(1.0, 2.0)))
    failed = replace(result(2), status="failed", evaluation=None)
    table = trials_table([failed, two], 2)
    columns = list(table.columns)
    assert columns[columns.index("objective") + 1 :][:2] == ["objective_1", "objective_2"]
    typed = typed_trials(table, "memory")
    assert variable_columns(typed) == ["lr", "op"]
    assert typed.loc[1, ["objective_1", "objective_2"]].tolist() == [1.0, 2.0]
    assert typed.loc[0, ["objective_1", "objective_2"]].isna().all()
    assert "objective_1" not in trials_table([failed], 2)


def test_what_a_surrogate_extrapolated_has_a_column_if_it_did() -> None:
    far = replace(result(1), evaluation=replace(EVALUATION, extrapolated=True))
    failed = replace(result(2), status="failed", evaluation=None)
    assert typed_trials(trials_table([result(0), far, failed], 2), "memory")["extrapolated"].tolist() == [
        False,
        True,
        False,
    ]
    table = trials_table([result(0), failed], 2)
    assert "extrapolated" not in table
    assert not typed_trials(table, "memory")["extrapolated"].any()


def test_numbers_that_are_too_large_are_missing() -> None:
    huge = result(1)
    huge = replace(huge, trial=replace(huge.trial, parent=10**30), evaluation=replace(EVALUATION, flops=2**63))
    table = trials_table([result(0), huge], 2)
    assert table["parent"].isna().all()
    assert [pd.isna(flops) for flops in table["flops"]] == [False, True]
