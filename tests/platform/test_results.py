"""What a report is given beside the trials, and what happens where the disk will not take it."""

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fmnas.comparison import FINAL_HEADER, Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.analysis.paired_tests import Comparisons, PairedTest
from fmnas.comparison.analysis.retrained import Retrained, RetrainedMean
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.summary import FinalRow, Summary, summarise
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.display.console import print_summary
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.problems import problem
from fmnas.platform.report.setup_section import optimizer_notes, search_fidelity, setup_statements
from fmnas.platform.report.write import ReportInput, write_report_files


def config(*optimizers: object) -> Config:
    data = {"name": "t", "problem": "func2c", "optimizers": list(optimizers), "initial_design": 3}
    return check_config({**data, "budget": {"evaluations": 20}, "fidelity": {"epochs": 1}}, "here")


def test_cocabo_alone_is_said_to_know_its_budget() -> None:
    (remark,) = optimizer_notes(config("random", "bo-fm", "bohb", "regularized-evolution", "cocabo"))
    assert remark.optimizer == "cocabo"
    assert "knows the size of its budget" in remark.text


@pytest.mark.parametrize(
    ("points", "told"),
    [
        (1, "Initial design: 1 random points, the same for bo-fm, random in a repeat."),
        (3, "Initial design: 3 random points, the same for bo-fm, random in a repeat."),
        ("authors", "Initial design: 10 points of the BO-FM authors' runs, the same for bo-fm, random in a repeat."),
    ],
)
def test_the_page_says_what_all_begin_with(points: object, told: str) -> None:
    given = config("bo-fm", "random").model_copy(update={"initial_design": points})
    given = given.model_copy(update={"budget": given.budget.model_copy(update={"seconds": 2e6})})
    setup = setup_statements(given, problem("func2c"))
    assert told in setup
    assert "20 evaluations, at most 2,000,000 seconds. Repeats: 1." in " ".join(setup)


def test_the_page_does_not_call_points_of_another_seed_the_authors() -> None:
    given = config("bo-fm", "random").model_copy(update={"initial_design": "authors", "seed": 7})
    told = "Initial design: 10 points by the BO-FM authors' method, the same for bo-fm, random in a repeat."
    assert told in setup_statements(given, problem("func2c"))


def test_what_a_retraining_may_have_less_of_is_what_the_search_trained_with() -> None:
    assert search_fidelity(config("random")) == {"epochs": 1, "seeds": config("random").seeds}
    data = {"name": "t", "problem": "joint", "optimizers": ["random"], "initial_design": 3, "seeds": 2}
    data |= {"budget": {"evaluations": 20}, "fidelity": {"epochs": 4}, "data": {"train": 500, "validation": 90}}
    assert search_fidelity(check_config(data, "here")) == {"epochs": 4, "images": 500, "seeds": 2}


def test_a_report_that_the_disk_does_not_take_is_a_failure_and_no_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "report").touch()  # a file where a folder is to be
    context = ReportContext("t", "func2c", Budget(3, 1), {}, "")
    with pytest.raises(ExperimentFailed, match=r"cannot write .*report.*; the journal has all results"):
        write_report_files(RunDirectory(tmp_path), ReportInput(pd.DataFrame(), context), print)


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
    caution = "it began with runs/[old]/x"
    print_summary(replace(summary, caution=caution, retrained=replace(retrained, epochs=None)), console)
    printed = console.file.getvalue().removeprefix(printed)
    assert "it began with runs/[old]/x" in printed, "no brackets are taken for a style"
    assert "trained again: not all in the same way, they differ in epochs" in printed
    assert "None" not in printed


LONG = "bo-fm-moddif-with-a-long-label-of-forty1"


def final(labels: Sequence[str], error: float = 0.18) -> Summary:
    """A summary of optimizers that are all alike."""
    context, trials = ReportContext("t", "func2c", Budget(24, 25), {}, ""), typed_trials(pd.DataFrame(), "no trials")
    nothing = anytime_curves(trials, context.budget), ledger_table(trials, context.budget)
    spent = {"epochs": 600.0, "evaluations": 24.0, "model_share": 0.5, "method_share": 0.5, "has_model": True}
    known = dict.fromkeys(("duplicates", "isomorphic_duplicates", "known_cells", "isomorphic_cells"), 0)
    best = {"best": 0.54, "best_error": error, "best_run": "r", "best_trial": 1, "best_configuration": None}
    row = FinalRow(repeats=3, mean=0.5, standard_error=0.01, values={}, best_curve=(), **best, **spent, **known)
    return replace(summarise(trials, *nothing, context), optimizers=dict.fromkeys(labels, row))


def table_of(summary: Summary, width: int, terminal: bool) -> list[str]:
    """The lines of the final table, and what is said of it."""
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, color_system=None)
    print_summary(summary, console)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", console.file.getvalue())
    return [line.rstrip() for line in plain.removeprefix("\n").partition("\n\n")[0].splitlines()]


def test_a_file_gets_the_whole_final_table_however_long_the_labels() -> None:
    header, *rows = table_of(final([LONG, "random"]), 120, terminal=False)
    assert header.split("  ")[-1] == "by method"
    assert [row.split() for row in rows] == [
        [name, "0.5000", "0.010", "3", "0.5400", "0.1800", "24.0", "600", "50%"] for name in (LONG, "random")
    ]


def test_a_column_of_errors_where_nothing_has_one_is_left_out() -> None:
    assert "its error" not in table_of(final(["random"], error=nan), 120, terminal=False)[0]


@given(width=st.integers(30, 140), labels=st.lists(st.sampled_from([LONG, "bo-fm", "random"]), min_size=1, unique=True))
def test_a_terminal_gets_what_fits_and_is_told_what_does_not(width: int, labels: list[str]) -> None:
    lines = table_of(final(labels), width, terminal=True)
    told = lines.pop().removeprefix("No room for: ").rstrip(".") if lines[-1].startswith("No room for: ") else ""
    assert max(map(len, lines)) <= width
    hidden = told.split(", ") if told else []
    words = set(" ".join(lines).split())
    for name in set(FINAL_HEADER) - set(hidden):
        assert set(name.split()) <= words, name
    first = "".join(line.split("  ")[0] for line in lines)
    assert all(label in first for label in labels)


def test_the_tests_of_two_long_labels_are_whole_in_a_file() -> None:
    pair = PairedTest(LONG, LONG[::-1], 7, 7, -0.016, -0.02, -0.01, 0.0156, 0.047, -1.0, "first better")
    summary = replace(final(["random"]), retrained=Retrained(3, 9, 4, 100, (), (), Comparisons((pair,), 7, 6)))
    console = Console(width=80, file=io.StringIO())
    print_summary(summary, console)
    (row,) = [line for line in console.file.getvalue().splitlines() if line.startswith(f"{LONG} - {LONG[::-1]}")]
    assert row.split()[-4:] == ["-0.016", "0.047", "first", "better"]


def test_the_page_says_what_an_own_problem_says_of_itself(tmp_path: Path) -> None:
    """The first paragraph of the docstring, on one line, and the data."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from fmnas.search_spaces import Real\n"
        "from fmnas.trainers import objective\n"
        "@objective([Real('x', 0, 1)], dataset='digits')\n"
        "def told(configuration):\n"
        "    '''Error of a network\n    on digits\n\n    Details.\n    '''\n"
        "    return configuration['x']\n"
        "silent = objective([Real('x', 0, 1)])(lambda configuration: configuration['x'])\n"
    )
    for name, expected in (("told", ["Error of a network on digits.", "Data: digits."]), ("silent", [])):
        data = {"name": "t", "problem": f"{path}:{name}", "optimizers": ["random"], "budget": {"evaluations": 20}}
        given = check_config(data, "here")
        setup = setup_statements(given, problem(given.problem))
        assert setup[1 : 1 + len(expected)] == expected
        assert setup[1 + len(expected)] == "The objective is the value of the function."
