"""What a report is given beside the trials, and what happens where the disk will not take it."""

import io
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.numbers.paired_tests import Comparisons, PairedTest
from fmnas.comparison.numbers.retrained import Retrained, RetrainedMean
from fmnas.comparison.numbers.trials import typed_trials
from fmnas.comparison.summary import summarise
from fmnas.platform.config.config import Config, check_config
from fmnas.platform.drive.description import remarks_of, searched_of
from fmnas.platform.drive.results import write_report_files
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.platform.screen.terminal import print_summary


def config(*optimizers: object) -> Config:
    data = {"name": "t", "problem": "func2c", "optimizers": list(optimizers), "initial_design": 3}
    return check_config({**data, "budget": {"evaluations": 20}, "fidelity": {"epochs": 1}}, "here")


def test_it_is_told_that_bofm_knows_its_budget_and_the_others_do_not() -> None:
    (remark,) = remarks_of(config("random", "bo-fm", "bohb", "regularized-evolution"))
    assert remark.optimizer == "bo-fm"
    assert remark.text.startswith("bo-fm knows the size of its budget and makes use of it")
    assert remarks_of(config("random", {"name": "bo-fm", "mode": "paper"})) == []


def test_what_a_retraining_may_have_less_of_is_what_the_search_trained_with() -> None:
    assert searched_of(config("random")) == {"epochs": 1, "seeds": config("random").seeds}
    data = {"name": "t", "problem": "joint", "optimizers": ["random"], "initial_design": 3, "seeds": 2}
    data |= {"budget": {"evaluations": 20}, "fidelity": {"epochs": 4}, "data": {"train": 500, "validation": 90}}
    assert searched_of(check_config(data, "here")) == {"epochs": 4, "images": 500, "seeds": 2}


def test_a_report_that_the_disk_does_not_take_is_a_failure_and_no_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "report").touch()  # a file where a folder is to be
    context = ReportContext("t", "func2c", Budget(3, 1), {}, "")
    with pytest.raises(ExperimentFailed, match=r"cannot write .*report.*; the journal has it all"):
        write_report_files(RunDirectory(tmp_path), pd.DataFrame(), context)


def test_the_terminal_shows_the_tests_of_the_test_errors() -> None:
    pair = PairedTest("a", "b", 7, 7, -0.016, -0.02, -0.01, 0.0156, 0.047, -1.0, "first better")
    means = (RetrainedMean("a", 0.2, 0.21, 0.01, 0.1899, 0.23, 7), RetrainedMean("b", 0.2, 0.22, nan, nan, nan, 1))
    retrained = Retrained(3, 9, 4, 100, (), means, Comparisons((pair,), 7, 6))
    context, trials = ReportContext("t", "func2c", Budget(3, 1), {}, ""), typed_trials(pd.DataFrame(), "no trials")
    nothing = anytime_curves(trials, context.budget), ledger_table(trials, context.budget)
    summary = replace(summarise(trials, *nothing, context), retrained=retrained)
    console = Console(width=120, file=io.StringIO())
    print_summary(summary, console)
    printed = console.file.getvalue()
    assert "0.1899 to 0.2300" in printed
    (row,) = [line.split() for line in printed.splitlines() if line.startswith("a - b")]
    assert row == ["a", "-", "b", "-0.016", "0.047", "first", "better"]
    print_summary(replace(summary, retrained=replace(retrained, epochs=None)), console)
    printed = console.file.getvalue().removeprefix(printed)
    assert "trained again: not all in the same way, they differ in epochs" in printed
    assert "None" not in printed
