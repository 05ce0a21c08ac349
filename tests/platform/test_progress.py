"""What is shown while an experiment runs: by mode, on a screen of each kind, and through the command line."""

import io
import json
import math
import os
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table
from fmnas.comparison.analysis.paired_tests import compare
from fmnas.comparison.analysis.retrained import Retrained, RetrainedMean
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.summary import summarise
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.display.console import print_summary
from fmnas.platform.display.modes import (
    PROGRESS_MODES,
    Happening,
    JsonScreen,
    LineScreen,
    LiveScreen,
    QuietScreen,
    as_time,
    mode_for,
    open_screen,
    time_left,
)
from fmnas.platform.display.progress import ExperimentProgress
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FINISHED, TIMED_OUT, WARM_START

CALM = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random, bohb]"]
BUDGET = {"spent_epochs", "budget_epochs", "spent_share", "seconds_left", "workers_busy", "workers"}
FACTS = {
    "begun": {"name", "problem", "runs", *BUDGET},
    "started": {"run", "trial", "attempt", "origin", "epochs", "worker", *BUDGET},
    "ended": {"run", "trial", "status", "objective", "error", "diverged", "reason", "incumbent", "run_epochs", *BUDGET},
    "lost": {"run", "trial", "attempt", "worker", "reason", *BUDGET},
    "said": {"text"},
}
ENDING = {
    "status",
    "reason",
    "exit_code",
    "run_directory",
    "page",
    "again",
    "headline",
    "caution",
    "optimizers",
    "mlflow",
}


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=150)


def written(screen_console: Console) -> str:
    assert isinstance(screen_console.file, io.StringIO)
    return screen_console.file.getvalue()


def test_the_mode_is_live_at_a_terminal_and_lines_elsewhere() -> None:
    assert (mode_for(None, console(True)), mode_for(None, console(False))) == ("live", "lines")
    for mode in PROGRESS_MODES:
        assert mode_for(mode, console(True)) == mode
    with pytest.raises(ConfigError, match="--progress live: the output is not a terminal; take lines, json or quiet"):
        mode_for("live", console(False))


def test_every_mode_has_its_screen() -> None:
    kinds = [type(open_screen(mode, console(True))) for mode in PROGRESS_MODES]
    assert kinds == [LiveScreen, LineScreen, JsonScreen, QuietScreen]


def test_a_live_screen_keeps_what_is_bad_above_and_what_is_last_below() -> None:
    shown = console(True)
    screen = LiveScreen(shown)
    screen.show(lambda: Text("the table"))
    for number in range(9):
        screen.tell(Happening("ended", {}, f"event {number}"))
    screen.tell(Happening("ended", {}, "a failure", bad=True))
    screen.tell(Happening("started", {"run": "nobody sees this"}))
    drawn = console(False)
    assert screen._live is not None
    drawn.print(screen._live.get_renderable())
    lines = [line.strip() for line in written(drawn).splitlines()]
    assert lines == ["the table", *(f"event {number}" for number in range(4, 9))]
    screen.close()
    assert "a failure" in written(shown)
    screen.close()
    screen.say("after the end")
    assert "after the end" in written(shown)


def test_json_is_an_object_per_line() -> None:
    file = io.StringIO()
    screen = JsonScreen(file, now=lambda: 12.3456)
    screen.tell(Happening("ended", {"run": "a", "objective": None}, "for people"))
    screen.say("two\nlines")
    records = [json.loads(line) for line in file.getvalue().splitlines()]
    assert records == [
        {"event": "ended", "at": 12.346, "run": "a", "objective": None},
        {"event": "said", "at": 12.346, "text": "two\nlines"},
    ]


def test_a_reader_that_goes_away_does_not_end_the_experiment() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as file:
        screen = JsonScreen(file)
        for _ in range(2):
            screen.say("to nobody")


class Scene:
    """The progress of two runs of five full trainings each; `now` is its clock."""

    def __init__(self) -> None:
        optimizers = ["random", "bohb"]
        config = {"name": "t", "problem": "func2c", "optimizers": optimizers, "initial_design": 1}
        config |= {"budget": {"evaluations": 5}, "fidelity": {"epochs": 3}, "workers": {"kind": "ray"}}
        self.state = ExperimentState(build_experiment(check_config(config, "here")))
        self.told: list[Happening] = []
        self.table: Any = None
        self.now = 100.0
        self.reached: dict[tuple[str, int], int] = {}
        self.progress = ExperimentProgress(
            self, self.state, workers=lambda: 2, elapsed=lambda: self.now, reached=lambda: self.reached
        )
        self.run = self.state.ledger.runs["random/repeat-0"]

    def show(self, table: Any) -> None:
        self.table = table

    def tell(self, happening: Happening) -> None:
        self.told.append(happening)

    def say(self, text: str) -> None:
        self.told.append(Happening("said", {"text": text}, text))

    def close(self) -> None:
        pass

    def drawn(self) -> str:
        shown = console(False)
        shown.print(self.table())
        return written(shown)

    def finish(self, number: int, origin: str = "model") -> None:
        trial = Trial(number, {}, 3, origin)
        self.progress.started(Job(self.run.name, trial), "w")
        self.now += 10.0
        self.run.budget.spent += 3
        self.run.best = TrialResult("random", 0, trial, FINISHED, Evaluation(0.25, 3, (0.1, 0.3)), 0, 0, 1, "w")
        self.progress.ended(self.run.best)


def test_what_happened_is_told_with_how_it_stands() -> None:
    scene = Scene()
    scene.finish(0)
    begun, started, ended = scene.told
    assert begun.facts["runs"] == ["random/repeat-0", "bohb/repeat-0"]
    assert (begun.facts["seconds_left"], begun.facts["workers"]) == (None, 2)
    assert started.facts["workers_busy"] == 1
    assert (started.line, started.shown_live) == ("random/repeat-0  trial 0 (model, 3 ep)  starts on w", False)
    facts = ended.facts
    assert (facts["objective"], facts["error"], facts["incumbent"], facts["run_epochs"]) == (0.25, 0.2, 0.25, 3)
    assert (facts["spent_epochs"], facts["budget_epochs"], facts["spent_share"]) == (3, 30, 0.1)
    assert facts["seconds_left"] == 90.0, "3 epochs took 10 seconds, 27 are ahead"
    assert facts["workers_busy"] == 0
    assert "trial 0 (model, 3 ep)  0.2500  best 0.2500  epochs 3/15" in ended.line
    assert not ended.bad
    for happening in scene.told:
        assert set(happening.facts) == FACTS[happening.event]


def test_what_was_known_says_nothing_of_the_pace() -> None:
    scene = Scene()
    scene.finish(0, WARM_START)
    assert (scene.told[-1].facts["spent_epochs"], scene.told[-1].facts["seconds_left"]) == (3, None)
    scene.finish(1)
    assert scene.told[-1].facts["seconds_left"] == 160.0, "3 epochs took 20 seconds, 24 are ahead"


def test_what_went_wrong_stays_visible() -> None:
    scene = Scene()
    trial = Trial(4, {}, 3, "model")
    scene.progress.lost(Job(scene.run.name, trial), "worker-1", "killed")
    scene.progress.ended(TrialResult("random", 0, trial, TIMED_OUT, None, 0, 0, 1, "w", 1, "too late"))
    *_, lost, ended = scene.told
    assert lost.line == "worker-1 was lost with trial 4 of random/repeat-0: killed"
    assert "timed_out: too late" in ended.line
    assert (ended.facts["objective"], ended.facts["error"], ended.facts["status"]) == (None, None, "timed_out")
    assert lost.bad
    assert ended.bad
    assert set(lost.facts) == FACTS["lost"]


def test_the_table_has_incumbents_budgets_workers_and_what_is_left() -> None:
    scene = Scene()
    scene.finish(0)
    scene.progress.started(Job(scene.run.name, Trial(1, {}, 3, "model")), "w")
    scene.progress.suggesting("bohb/repeat-0")
    scene.now += 2.0
    drawn = scene.drawn()
    first, second = drawn.splitlines()[2:4]
    for words in ("random/repeat-0", "20%", "1.0/5", "3/15", "0.2500", "training 1 (2 s)", "0:48"):
        assert words in first
    assert "suggesting" in second
    assert "1 of 2 workers busy, 10% of all budgets spent, 1:48 left" in drawn
    scene.run.over = True
    assert "1:00 left" in scene.drawn(), "what a run that is over leaves unspent is not ahead"


def test_the_last_training_of_a_run_takes_time_too() -> None:
    scene = Scene()
    for number in range(4):
        scene.finish(number)
    scene.state.ledger.runs["bohb/repeat-0"].over = True
    scene.run.budget.commit(3, 0.0)
    scene.progress.started(Job(scene.run.name, Trial(4, {}, 3, "model")), "w")
    assert scene.told[-1].facts["seconds_left"] == 10.0


def test_the_table_has_the_epoch_of_a_trial_that_told_of_one() -> None:
    scene = Scene()
    for number in (1, 2):
        scene.progress.started(Job(scene.run.name, Trial(number, {}, 25, "model")), "w")
    scene.reached = {(scene.run.name, 2): 7, ("bohb/repeat-0", 1): 3}
    scene.now += 41.0
    assert "training 1 (41 s), 2 (epoch 7 of 25, 41 s)" in scene.drawn()


@given(done=st.floats(1e-3, 1e6), ahead=st.floats(0, 1e6), seconds=st.floats(0, 1e6))
def test_the_pace_is_kept(done: float, ahead: float, seconds: float) -> None:
    left = time_left([(done, ahead)], seconds)
    assert left is not None
    assert math.isclose(left * done, ahead * seconds, rel_tol=1e-9, abs_tol=1e-9)
    assert time_left([(0, ahead)], seconds) is None


def test_runs_side_by_side_end_with_the_slowest() -> None:
    assert time_left([(100, 0), (10, 90)], 100.0) == 900.0
    assert time_left([(10, 10), (10, 10)], 10.0) == 10.0
    assert time_left([(10, 10), (0, 10)], 10.0) == 20.0, "of what has not begun, the pace of all together is known"


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (65.4, "1:05"), (3599.6, "1:00:00"), (90_061, "25:01:01")]
)
def test_times_are_read_easily(seconds: float | None, text: str) -> None:
    assert as_time(seconds) == text


def events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def test_json_from_the_command_line_tells_all_and_ends_with_the_ending(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["run", "smoke", *CALM, "--progress", "json", "--out", str(out)]) == 0
    told = events(capsys.readouterr().out)
    assert "smoke" in told[0]["text"], "at once"
    assert "random, bohb on func2c" in told[1]["text"]
    assert "no verdict is possible" in told[2]["text"], "before anything begins"
    begun = [record["event"] for record in told if record["event"] != "said"]
    assert [begun[0], begun[-1]] == ["begun", "ending"]
    for record in told[:-1]:
        assert set(record) == {"event", "at", *FACTS[record["event"]]}
    assert set(told[-1]) == {"event", "at", *ENDING}
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    finished = [(r["run"], r["trial"], r["evaluation"]["objective"]) for r in records if r["event"] == "finished"]
    assert [(r["run"], r["trial"], r["objective"]) for r in told if r["event"] == "ended"] == finished
    ending = told[-1]
    assert (ending["status"], ending["exit_code"], ending["again"]) == ("finished", 0, None)
    summary = json.loads((out / "summary.json").read_text())
    assert {name: row["mean"] for name, row in ending["optimizers"].items()} == {
        name: row["mean"] for name, row in summary["optimizers"].items()
    }
    assert main(["resume", str(out), "--progress", "json"]) == 0
    kinds = [record["event"] for record in events(capsys.readouterr().out)]
    assert [kind for kind in kinds if kind != "said"] == ["begun", "ending"]


def test_wrong_input_ends_with_an_ending_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "smoke", "-o", "nonsense=1", "--progress", "json", "--out", str(tmp_path / "run")]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    reading, ending = events(printed.out)
    assert (reading["event"], reading["text"]) == ("said", "reading smoke")
    assert (ending["event"], ending["status"], ending["exit_code"]) == ("ending", "wrong input", 2)
    assert "nonsense: unknown key" in ending["reason"]
    assert "nonsense: unknown key" in printed.err


def test_quiet_is_the_final_table_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "smoke", *CALM, "--progress", "quiet", "--out", str(tmp_path / "run")]) == 0
    printed = capsys.readouterr().out
    lines = printed.strip().splitlines()
    assert lines[0].startswith("optimizer")
    assert "trial 0" not in printed
    assert "run directory" not in printed


def test_an_interruption_says_how_to_go_on_in_every_mode(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken_off(*_: object) -> None:
        raise KeyboardInterrupt

    for mode in ("lines", "quiet", "json"):
        out = tmp_path / mode
        with monkeypatch.context() as patch:
            patch.setattr("fmnas.platform.runner.driver.Driver._drive", broken_off)
            assert main(["run", "smoke", *CALM, "--progress", mode, "--out", str(out)]) == 130
        printed = capsys.readouterr().out
        assert f"fmnas resume {out}" in printed
        if mode == "json":
            ending = events(printed)[-1]
            assert (ending["status"], ending["exit_code"]) == ("interrupted", 130)


def test_live_needs_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "smoke", *CALM, "--progress", "live", "--out", str(tmp_path / "run")]) == 2
    assert "--progress live" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_final_table_tells_of_test_errors_where_there_are_any() -> None:
    means = (RetrainedMean("bo-fm", 0.1, 0.125, nan, nan, nan, 1),)
    context, trials = ReportContext("n", "func2c", Budget(3, 1), {}, ""), typed_trials(pd.DataFrame(), "no trials")
    plain = summarise(trials, anytime_curves(trials, context.budget), ledger_table(trials, context.budget), context)
    with_it, without = console(False), console(False)
    print_summary(replace(plain, retrained=Retrained(6, 4000, 4, 1000, (), means, compare({}))), with_it)
    print_summary(plain, without)
    assert "epochs = 6, images = 4000, fresh seeds = 4" in written(with_it)
    assert "0.1250" in written(with_it)
    assert "test error" not in written(without)
