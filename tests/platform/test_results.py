"""What a report says besides the trials, and the final table of a command."""

import io
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from rich.console import Console

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.analysis.paired_tests import Comparisons, PairedTest
from fmnas.comparison.analysis.retrained import Retrained, RetrainedMean
from fmnas.comparison.analysis.trials import ReportError, typed_trials
from fmnas.comparison.summary import FinalRow, Summary, summarise
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.display.console import make_console
from fmnas.platform.display.summary import print_summary
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.mlflow.sync import MlflowSync, TrackingReport
from fmnas.platform.observers import ResultsWriter
from fmnas.platform.problems import problem
from fmnas.platform.report.setup_section import optimizer_notes, search_fidelity, setup_statements
from fmnas.platform.report.write import ReportInput, write_report_files
from fmnas.platform.runner.run import NoWorkers, RunResult

LONG = "bo-fm-moddif-with-a-long-label-of-forty1"
CONTEXT = ReportContext("t", "func2c", Budget(24, 25), {}, "")
FUNC2C = problem("func2c")


def config(*optimizers: str, **changes: object) -> Config:
    data = {"name": "t", "problem": "func2c", "optimizers": list(optimizers), "initial_design": 3}
    return check_config({**data, "budget": {"evaluations": 20}, "fidelity": {"epochs": 1}, **changes}, "here")


def test_cocabo_alone_knows_its_budget() -> None:
    (note,) = optimizer_notes(config("random", "bo-fm", "bohb", "regularized-evolution", "cocabo"))
    assert note.optimizer == "cocabo"
    assert "budget" in note.text


@pytest.mark.parametrize("serial", [[], ["random"]])
def test_concurrency_is_stated_of_those_that_have_it(serial: list[str]) -> None:
    statements = " ".join(setup_statements(config({"name": "bo-fm", "concurrency": 4}, *serial), FUNC2C))
    assert "bo-fm 4" in statements
    assert ("others" in statements) == bool(serial)


@pytest.mark.parametrize(
    ("design", "seed", "words"),
    [
        (3, 0, "3 random points"),
        (1, 0, "1 random point,"),
        ("authors", 0, "10 points of the BO-FM authors' runs"),
        ("authors", 7, "method"),
    ],
)
def test_the_setup_names_budget_and_initial_design(design: object, seed: int, words: str) -> None:
    budget = {"evaluations": 20, "seconds": 2e6}
    statements = setup_statements(config("bo-fm", "random", initial_design=design, seed=seed, budget=budget), FUNC2C)
    assert any(words in text and "bo-fm, random" in text for text in statements)
    assert any("20 evaluations" in text and "2,000,000 seconds" in text for text in statements)


def test_the_setup_of_one_of_a_thing_has_no_plural() -> None:
    (design,) = (text for text in setup_statements(config("random", initial_design=3), FUNC2C) if "3 random" in text)
    assert "random:" in design
    assert "same" not in design
    one = setup_statements(config("random", initial_design=0, budget={"evaluations": 1}), FUNC2C)
    assert not any("1 evaluations" in text for text in one)
    for seeds, words in ((1, ["once", "that error"]), (4, ["4 times", "average"])):
        described = problem("joint", config("random", problem="joint", seeds=seeds).problem_settings).objective
        assert all(word in described for word in words)


def test_the_fidelity_of_a_search() -> None:
    assert search_fidelity(config("random")) == {"epochs": 1, "seeds": config("random").seeds}
    data = {"train": 500, "validation": 90}
    joint = config("random", problem="joint", seeds=2, fidelity={"epochs": 4}, data=data)
    assert search_fidelity(joint) == {"epochs": 4, "images": 500, "seeds": 2}


def test_the_setup_describes_a_user_defined_problem(tmp_path: Path) -> None:
    """By the first paragraph of its docstring, on one line, and its data."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from fmnas.search_spaces import Real\n"
        "from fmnas.trainers import objective\n"
        "@objective([Real('x', 0, 1)], dataset='digits')\n"
        "def described(configuration):\n"
        "    '''Error of a network\n    on digits\n\n    Details.\n    '''\n"
        "    return configuration['x']\n"
        "silent = objective([Real('x', 0, 1)])(lambda configuration: configuration['x'])\n"
    )
    for name, expected in (("described", ["Error of a network on digits.", "Data: digits."]), ("silent", [])):
        user_config = config("random", problem=f"{path}:{name}")
        setup = setup_statements(user_config, problem(user_config.problem))
        assert setup[0].endswith("1 continuous variable.")
        assert setup[1 : 1 + len(expected)] == expected
        assert setup[1 + len(expected)].startswith("The objective")


def test_a_report_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "report").touch()  # a file in place of the folder
    with pytest.raises(ExperimentFailed, match="report"):
        write_report_files(RunDirectory(tmp_path), ReportInput(pd.DataFrame(), CONTEXT), print)


def test_trials_are_logged_to_mlflow_although_the_report_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished: list[tuple[str, int]] = []

    class Recording(MlflowSync):
        def start(self) -> None:
            """Log nothing."""

        def finish(self, status: str, trials: int) -> TrackingReport:
            finished.append((status, trials))
            return TrackingReport()

    def write(*_: object) -> Summary:
        raise ExperimentFailed("the disk is full")

    monkeypatch.setattr("fmnas.platform.observers.MlflowSync", Recording)
    monkeypatch.setattr("fmnas.platform.observers.write_results", write)
    results = ResultsWriter(RunDirectory(tmp_path), print)
    state = ExperimentState(build_experiment(config("random")), Ledger())
    results.on_start(state, NoWorkers())
    results.on_end("interrupted", "")
    assert finished == [("interrupted", 0)]
    with pytest.raises(ExperimentFailed, match="the disk is full"):
        results.result(RunResult(state, Ending.INTERRUPTED))


def test_trials_are_logged_if_the_report_fails_in_another_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[str] = []
    sync = SimpleNamespace(start=lambda: None, finish=lambda status, trials: finished.append(status))
    monkeypatch.setattr("fmnas.platform.observers.MlflowSync", lambda *_: sync)

    def write(*_: object) -> Summary:
        raise ReportError("a table is wrong")

    monkeypatch.setattr("fmnas.platform.observers.write_results", write)
    results = ResultsWriter(RunDirectory(tmp_path), print)
    state = ExperimentState(build_experiment(config("random")), Ledger())
    results.on_start(state, NoWorkers())
    results.on_end("interrupted", "")
    assert finished == ["interrupted"]
    with pytest.raises(ExperimentFailed, match="a table is wrong"):
        results.result(RunResult(state, Ending.INTERRUPTED))
    with pytest.raises(ExperimentFailed, match=r"the optimizer failed; .*a table is wrong"):
        results.result(RunResult(state, Ending.FAILED, "the optimizer failed"))


def make_summary(labels: Sequence[str] = ("random",), error: float = 0.18) -> Summary:
    """A summary of optimizers that are all alike."""
    trials = typed_trials(pd.DataFrame(), "no trials")
    empty = summarise(trials, anytime_curves(trials, CONTEXT.budget), ledger_table(trials, CONTEXT.budget), CONTEXT)
    spent = {"epochs": 600.0, "evaluations": 24.0, "model_share": 0.5, "method_share": 0.5}
    known = dict.fromkeys(("duplicates", "isomorphic_duplicates"), 0)
    best = {"best": 0.54, "best_error": error, "best_run": "r", "best_trial": 1, "best_configuration": None}
    row = FinalRow(
        repeats=3, mean=0.5, standard_error=0.01, values={}, regret=nan, best_curve=(), **best, **spent, **known
    )
    return replace(empty, optimizers=dict.fromkeys(labels, row))


def summary_text(summary: Summary, width: int | None = None) -> str:
    """The text in a file, or in a terminal of that width."""
    file = io.StringIO()
    terminal = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_summary(summary, make_console(file) if width is None else terminal)
    return file.getvalue()


def test_a_file_gets_the_whole_final_table() -> None:
    header, *rows = summary_text(make_summary([LONG, "random"])).strip().partition("\n\n")[0].splitlines()
    assert header.split("  ")[-1] == "by method"
    numbers = ["0.5000", "0.010", "3", "0.5400", "0.1800", "24.0", "600", "50%"]
    assert [row.split() for row in rows] == [[name, *numbers] for name in (LONG, "random")]
    assert "its error" not in summary_text(make_summary(error=nan))


@pytest.mark.parametrize("width", [40, 80, 140])
def test_a_terminal_gets_a_table_of_its_width(width: int) -> None:
    assert max(map(len, summary_text(make_summary([LONG, "random"]), width).splitlines())) <= width


@pytest.mark.parametrize("width", [70, 80, 100])
def test_a_narrow_terminal_loses_columns_and_breaks_no_word(width: int) -> None:
    text = summary_text(make_summary([LONG[:20], "random"]), width)
    header, *rows = text.strip().partition("\n\n")[0].splitlines()
    assert [row.split()[0] for row in rows] == [LONG[:20], "random"]
    assert header.split("  ")[0] == "optimizer"
    assert header.endswith("by method")
    assert "standard error" in header


def test_the_errors_of_retrained_incumbents_and_their_tests() -> None:
    pair = PairedTest(LONG, LONG[::-1], 7, 7, -0.016, -0.02, -0.01, 0.0156, 0.047, -1.0, "first better")
    means = (RetrainedMean("a", 0.2, 0.21, 0.01, 0.1899, 0.23, 7), RetrainedMean("b", 0.2, 0.22, nan, nan, nan, 1))
    retrained = Retrained(3, 9, 4, 100, (), means, Comparisons((pair,), 7, 6))
    summary = replace(make_summary(), retrained=retrained, caution="from runs/[old]/x")
    text = summary_text(summary)
    assert all(word in text for word in ("epochs = 3", "images = 9", "fresh seeds = 4", "0.1899 to 0.2300"))
    assert "from runs/[old]/x" in text, "brackets are not markup"
    (row,) = [line for line in text.splitlines() if line.startswith(f"{LONG} − {LONG[::-1]}")]
    assert all(word in row for word in (f"{LONG} is better", "-0.01600", "0.047"))
    assert "test error" not in summary_text(make_summary())
