"""Progress of experiments and retrainings, in every mode, from typed events."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from fmnas.comparison.analysis.formatting import format_number
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.display.formatting import estimate_eta, format_duration, format_value
from fmnas.platform.display.log import JSON, LINES, LIVE, PROGRESS_MODES, QUIET, make_logger, resolve_mode
from fmnas.platform.display.progress import Progress, _RunName
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.events import (
    Asked,
    Begun,
    Event,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    RetrainingFailed,
    RetrainingStarted,
    Started,
)
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.state import ExperimentState
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import TIMED_OUT, WARM_START

pytestmark = pytest.mark.slow

STATUS = {"spent_epochs", "budget_epochs", "spent_share", "seconds_left", "workers_busy", "workers"}
RUN, OTHER = "random/repeat-0", "bohb/repeat-0"
CALM = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random, bohb]"]


def make_console(is_terminal: bool = False, width: int = 150, height: int = 25, term: str = "xterm") -> Console:
    size: dict[str, Any] = {"width": width, "height": height, "_environ": {"TERM": term}}
    return Console(file=io.StringIO(), force_terminal=is_terminal, color_system=None, **size)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class Workers:
    """Two workers. epochs: done by all trainings of a trial together."""

    size = 2

    def __init__(self) -> None:
        self.epochs: dict[tuple[str, int], int] = {}

    def progress(self) -> dict[tuple[str, int], int]:
        return self.epochs


class Scene:
    """The progress of two runs with a budget of five full trainings. now: its clock."""

    def __init__(self, mode: str = JSON, console: Console | None = None, epochs: int = 3, **changes: Any) -> None:
        self.console, self.now = console or make_console(), 100.0
        config = check_config(
            {
                "name": "t",
                "problem": "func2c",
                "optimizers": ["random", "bohb"],
                "initial_design": 1,
                "budget": {"evaluations": 5},
                "fidelity": {"epochs": epochs},
                "workers": {"kind": "ray"},
                **changes,
            },
            "here",
        )
        self.ledger = fold([Begun("1", epochs, config.model_dump(mode="json"), 0.0)])
        self.progress = Progress(mode, self.console, elapsed=lambda: self.now)
        self.pool = Workers()
        self.progress.on_start(ExperimentState(build_experiment(config), self.ledger), self.pool)

    def apply(self, *events: Event) -> None:
        for event in events:
            self.progress.on_event(event, self.ledger.apply(event))

    def start(self, trial_id: int, run: str = RUN, origin: str = "model") -> None:
        self.apply(Asked(run, Trial(trial_id, {}, 3, origin), 0.0, 1.0), Started(run, trial_id, 1, "w@host:1", 1.0))

    def finish(self, trial_id: int, run: str = RUN, origin: str = "model", objective: float = 0.25) -> None:
        self.start(trial_id, run, origin)
        self.now += 10.0
        self.apply(Finished(run, trial_id, 1, "w", Evaluation(objective, 3, (0.1, 0.3)), 2.0))

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in text_of(self.console).splitlines()]

    def table(self, width: int = 150) -> str:
        console = make_console(width=width)
        console.print(self.progress.render())
        return text_of(console)


@pytest.mark.parametrize(("epochs", "shown", "hidden"), [(1, "evaluations", " ep"), (3, "epochs", "evaluations")])
def test_a_problem_without_epochs_counts_evaluations(epochs: int, shown: str, hidden: str) -> None:
    scene = Scene(LINES, epochs=epochs)
    scene.finish(0)
    for text in (text_of(scene.console), scene.table()):
        assert shown in text
        assert hidden not in text


def test_the_mode_is_live_in_a_terminal_and_lines_elsewhere() -> None:
    assert (resolve_mode(None, make_console(True)), resolve_mode(None, make_console())) == (LIVE, LINES)
    assert [resolve_mode(mode, make_console(True)) for mode in PROGRESS_MODES] == list(PROGRESS_MODES)
    dumb = make_console(is_terminal=True, term="dumb")
    assert resolve_mode(None, dumb) == LINES, "it cannot redraw a table, and would show nothing"
    for console in (make_console(), dumb):
        with pytest.raises(ConfigError, match="--progress live"):
            resolve_mode(LIVE, console)


@pytest.mark.parametrize(("mode", "shown"), [(QUIET, set()), (LIVE, {"a", "c"}), (LINES, {"a", "b", "c"})])
def test_a_logger_prints_lines_without_markup(mode: str, shown: set[str]) -> None:
    console = make_console(is_terminal=mode == LIVE)
    logger = make_logger(mode, console)
    logger.info("%s", "a [red]")
    logger.info("b [red]", extra={"event": "finished", "facts": {}})
    logger.warning("c [red]", extra={"event": "lost", "facts": {}})
    logger.log(logging.DEBUG, "d [red]", extra={"event": "started", "facts": {}})
    assert text_of(console).split("\n") == [*(f"{word} [red]" for word in sorted(shown)), ""]


def test_every_event_is_reported_with_the_status() -> None:
    scene = Scene()
    scene.finish(0)
    start, started, finished = scene.records()
    assert [record["event"] for record in (start, started, finished)] == ["start", "started", "finished"]
    assert all(set(record) > STATUS for record in (start, started, finished))
    assert (start["runs"], start["seconds_left"], start["workers"]) == ([RUN, OTHER], None, 2)
    assert (started["run"], started["trial_id"], started["workers_busy"]) == (RUN, 0, 1)
    assert (finished["evaluation"]["objective"], finished["incumbent"], finished["run_epochs"]) == (0.25, 0.25, 3)
    assert (finished["spent_epochs"], finished["budget_epochs"], finished["spent_share"]) == (3, 30, 0.1)
    assert (finished["seconds_left"], finished["workers_busy"]) == (90.0, 0), "3 epochs took 10 s, 27 are left"


def test_warm_start_trials_do_not_count_for_the_pace() -> None:
    scene = Scene()
    trial = Trial(0, {}, 3, WARM_START)
    scene.apply(Asked(RUN, trial, 0.0, 1.0), Finished(RUN, 0, 1, "", Evaluation(0.25, 3), 1.0))
    assert (scene.records()[-1]["spent_epochs"], scene.records()[-1]["seconds_left"]) == (3, None)
    scene.finish(1)
    assert scene.records()[-1]["seconds_left"] == 80.0, "3 epochs took 10 s, 24 are left"


def test_failures_are_shown_above_a_live_table() -> None:
    scene = Scene(LIVE, make_console(is_terminal=True))
    scene.start(4)
    scene.apply(Lost(RUN, 4, 1, "worker-1@host:7", "killed", False, 2.0), Started(RUN, 4, 2, "w", 3.0))
    scene.apply(Failed(RUN, 4, 2, "w", "too slow", 1.0, 4.0, TIMED_OUT))
    scene.progress.on_end("finished", "")
    scene.progress.on_message("after the end")
    lines = [line for line in text_of(scene.console).splitlines() if "trial 4" in line]
    assert any("worker-1" in line and "killed" in line for line in lines)
    assert any("timed_out" in line and "too slow" in line for line in lines)
    assert "after the end" in text_of(scene.console)


def test_the_table_has_budgets_incumbents_running_trials_and_the_time_left() -> None:
    scene = Scene()
    scene.finish(0)
    scene.start(1)
    scene.start(2)
    scene.pool.epochs = {(RUN, 2): 2, (OTHER, 1): 3}
    scene.progress.on_suggesting(OTHER)
    scene.now += 2.0
    header, _, first, second = scene.table().splitlines()
    assert "2 of 2 workers busy, 1:48 left" in header
    assert all(word in first for word in (RUN, "3/15", "0.2500", "1 (2 s), 2 (epoch 2 of 3, 2 s)", "0:48"))
    assert "suggesting" in second
    scene.ledger.runs[RUN].is_exhausted = True
    assert "1:24 left" in scene.table(), "the budget that an exhausted run leaves is not expected to be spent"


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_table_fits_a_narrow_terminal(width: int) -> None:
    scene = Scene()
    scene.finish(0)
    scene.start(1)
    lines = scene.table(width).splitlines()
    assert max(map(len, lines)) <= width
    assert width < 60 or any("0.2500" in line and "3/15" in line for line in lines)


def test_a_narrow_table_tells_the_repeats_of_a_long_name_apart() -> None:
    scene = Scene(optimizers=["regularized-evolution", "bohb"], repeats=2)
    for width in (60, 150):
        rows = [line.split()[0] for line in scene.table(width).splitlines() if line.startswith("reg")]
        assert [row.rpartition("/")[2] for row in rows] == ["repeat-0", "repeat-1"]
        assert all(row.startswith("regularized-evolution/") is (width == 150) for row in rows)


@pytest.mark.parametrize("width", [8, 9, 10, 11, 12, 20])
def test_a_name_that_is_cut_ends_with_the_repeat(width: int) -> None:
    shown = []
    for repeat in ("0", "1", "10"):
        console = make_console(width=width)
        console.print(_RunName(f"regularized-evolution/repeat-{repeat}"))
        shown.append(text_of(console).strip())
        assert shown[-1].startswith("re")
        assert shown[-1].endswith(f"-{repeat}")
    assert len(set(shown)) == 3


def test_a_low_terminal_shows_the_runs_at_work_and_how_many_it_hides() -> None:
    height, repeats = 12, 6
    scene = Scene(LIVE, make_console(is_terminal=True, width=80, height=height), repeats=repeats)
    scene.progress.on_end("finished", "")
    busy = [f"random/repeat-{repeats - 1}", f"bohb/repeat-{repeats - 1}"]
    for run in busy:
        scene.start(0, run)
    lines = scene.table(80).splitlines()
    assert len(lines) < height
    rows = [line.split()[0] for line in lines if "/repeat-" in line]
    assert rows[-2:] == busy
    assert rows[0] == RUN, "the others in their order"
    assert str(2 * repeats - len(rows)) in lines[-1]


def test_a_retraining_has_a_row_and_events_for_each_incumbent() -> None:
    scene = Scene()
    scene.finish(0)
    scene.finish(0, OTHER, objective=0.5)
    scene.apply(RetrainingBegun(9, 40, 2, (RUN, OTHER), 3.0))
    scene.apply(RetrainingStarted(RUN, 0, 1, "w", 3.0), RetrainingStarted(OTHER, 0, 1, "w", 3.0))
    scene.now += 5.0
    scene.apply(Retrained(RUN, 0, 1, "w", (0.25, 0.5), 15, 1.0, 3.0, 4.0))
    scene.apply(RetrainingFailed(OTHER, 0, 1, "w", "no memory", False, 5.0))
    begun, *_, retrained, failed = scene.records()[-5:]
    assert (begun["event"], begun["epochs"], begun["done"], begun["of"]) == ("retraining_begun", 9, 0, 2)
    assert (retrained["event"], retrained["errors"], retrained["done"]) == ("retrained", [0.25, 0.5], 1)
    assert (failed["event"], failed["reason"], failed["workers_busy"]) == ("retraining_failed", "no memory", 0)
    _, header, first, second = scene.table().splitlines()
    assert "test error" in header
    assert all(word in first for word in ("1/1", "0.3750", "done"))
    assert all(word in second for word in ("0/1", "waiting"))


@pytest.mark.parametrize(
    ("work", "seconds", "eta"),
    [([(100, 0), (10, 90)], 100.0, 900.0), ([(10, 10), (10, 10)], 10.0, 10.0), ([(10, 10), (0, 10)], 10.0, 20.0)],
)
def test_concurrent_runs_end_with_the_slowest(work: list[tuple[int, int]], seconds: float, eta: float) -> None:
    assert estimate_eta(work, seconds) == eta


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (65.4, "1:05"), (3599.6, "1:00:00"), (90_061, "25:01:01")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.28375, "0.2838"), (0.0, "0.000"), (1e300, "1.000e+300"), (1234.0, "1234")]
)
def test_values_have_four_digits_as_in_the_final_table(value: float | None, text: str) -> None:
    assert format_value(value) == text
    assert value is None or text == format_number(value)


def test_json_of_a_command_has_every_result_and_ends_with_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["run", "smoke", *CALM, "--progress", "json", "--out", str(out)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "smoke" in records[0]["text"], "at once"
    journal = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    recorded, reported = (
        [(r["run"], r["trial_id"]) for r in events if r["event"] == "finished"] for events in (journal, records)
    )
    assert len(recorded) > 10
    assert reported == recorded
    end = records[-1]
    assert (end["event"], end["status"], end["exit_code"], end["resume_command"]) == ("end", "finished", 0, None)
    summary = json.loads((out / "summary.json").read_text())["optimizers"]
    assert {name: row["mean"] for name, row in end["optimizers"].items()} == {n: r["mean"] for n, r in summary.items()}
    assert main(["resume", str(out), "--progress", "json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == "finished"


def test_json_of_wrong_input_ends_with_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "smoke", "-o", "nonsense=1", "--progress", "json", "--out", str(tmp_path / "run")]
    assert main(arguments) == 2
    output = capsys.readouterr()
    message, end = map(json.loads, output.out.splitlines())
    assert (message["event"], end["event"], end["status"], end["exit_code"]) == ("message", "end", "wrong input", 2)
    assert "nonsense" in end["reason"]
    assert "nonsense" in output.err


@pytest.mark.parametrize("mode", [LINES, QUIET, JSON])
def test_an_interruption_names_the_command_to_resume(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / mode
    monkeypatch.setattr("fmnas.platform.runner.driver.Driver._fill", raise_interrupt)
    assert main(["run", "smoke", *CALM, "--progress", mode, "--out", str(out)]) == 130
    output = capsys.readouterr().out
    assert f"fmnas resume {out}" in output
    assert mode != JSON or json.loads(output.splitlines()[-1])["status"] == "interrupted"
