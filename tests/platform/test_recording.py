"""`fmnas record`, and the problem that it writes, by the command line."""

import shutil
from pathlib import Path

import pytest
from support import events_of, write_journal

from fmnas.platform.cli import main
from fmnas.platform.experiment.events import Asked, Finished, Lost
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.search_spaces.records import FAILED, WARM_START
from fmnas.trainers.recorded_table import read_header, read_table

PROBLEM = """
from fmnas.search_spaces import Nominal, Ordinal
from fmnas.trainers import objective

@objective([Nominal("a", ["x", "y"]), Ordinal("b", [1, 2, 4])])
def grid(configuration):
    if configuration == {"a": "y", "b": 4}:
        raise ValueError("too large")
    return configuration["b"] + (configuration["a"] == "x")
"""
CONFIG = """
problem: grid.py
optimizers: [random]
budget: {evaluations: 40}
workers: {failures: 40}
tracking: {enabled: false}
"""


def fmnas(command: str, *arguments: object) -> int:
    return main([command, *map(str, arguments), *(["--progress", "quiet"] if command in ("run", "resume") else [])])


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a real experiment, `real`; its results, `table.npz`; and grid.yaml, table.yaml."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "grid.py").write_text(PROBLEM)
    (folder / "grid.yaml").write_text(CONFIG)
    (folder / "table.yaml").write_text(CONFIG.replace("grid.py", "recorded:table.npz"))
    options = "-o", "workers.kind=in-process", "--out", folder / "real"
    assert fmnas("run", folder / "grid.yaml", *options) == 0
    assert fmnas("record", folder / "real", "--out", folder / "table.npz") == 0
    return folder


@pytest.fixture(scope="module")
def simulated(recorded: Path) -> Path:
    """The directory of an experiment with the recorded problem."""
    options = "-o", "optimizers=[{name: random, concurrency: 3}, regularized-evolution]", "-o", "workers.count=4"
    assert fmnas("run", recorded / "table.yaml", *options, "--out", recorded / "sim") == 0
    return recorded / "sim"


def test_every_charged_trial_is_recorded(recorded: Path) -> None:
    ledger, table = fold(read_journal(recorded / "real" / "journal.jsonl")), read_table(recorded / "table.npz")
    assert len(table) == len(ledger.results) == 40
    for row, result in enumerate(ledger.results):
        known = table.result(row)
        assert (known.trial.configuration, known.trial.seed) == (result.trial.configuration, result.trial.seed)
        assert (known.status, known.seconds) == (result.status, result.charged_seconds)
        assert known.evaluation == result.evaluation
    assert FAILED in table.arrays["status"]
    (source,) = read_header(recorded / "table.npz").sources
    assert "torch" in source["software"]
    assert "host" not in source["software"], "a table may be published"


def test_what_cost_nothing_here_is_not_recorded_and_fixed_values_may_differ(recorded: Path, tmp_path: Path) -> None:
    """A trial that was lost, and those that a warm start took from the other directory."""
    options = "-o", "workers.kind=in-process", "-o", "seed=2"
    warm = "-o", f"optimizers=[{{name: random, warm_start: {recorded / 'real'}}}]", "-o", "budget.evaluations=45"
    assert fmnas("run", recorded / "grid.yaml", *options, *warm, "--out", tmp_path / "warm") == 0
    fixed = "-o", "fixed={a: x}", "-o", "budget.evaluations=7"
    assert fmnas("run", recorded / "grid.yaml", *options, *fixed, "--out", tmp_path / "fixed") == 0
    journal = tmp_path / "fixed" / "journal.jsonl"
    events = read_journal(journal)
    place, last = max((i, event) for i, event in enumerate(events) if isinstance(event, Finished))
    events[place] = Lost(last.run, last.trial_id, last.attempt, last.worker, "gone", True, last.at)
    write_journal(journal, events)
    counts = []
    for name in ("warm", "fixed"):
        assert fmnas("record", tmp_path / name, "--out", tmp_path / f"{name}.npz") == 0
        counts.append(len(read_table(tmp_path / f"{name}.npz")))
    known = sum(event.trial.origin == WARM_START for event in events_of(tmp_path / "warm" / "journal.jsonl", Asked))
    assert known > 0
    asked = len(events_of(tmp_path / "warm" / "journal.jsonl", Asked))
    assert counts == [asked - known, 6]
    assert fmnas("record", recorded / "real", tmp_path / "fixed", "--out", tmp_path / "both.npz") == 0
    assert len(read_table(tmp_path / "both.npz")) == 46


def test_a_recorded_problem_runs_in_simulated_time(recorded: Path, simulated: Path) -> None:
    table = read_table(recorded / "table.npz")
    known = [table.result(row).evaluation for row in range(len(table))]
    ended = events_of(simulated / "journal.jsonl", Finished)
    assert ended
    assert all(event.evaluation in known for event in ended)
    assert "kind: simulated" in (simulated / "config.yaml").read_text()
    assert "Time is simulated" in (simulated / "report" / "index.html").read_text()
    assert fmnas("replay", simulated) == 0


def test_a_configuration_that_was_not_recorded_ends_the_experiment(
    recorded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = "-o", "tracking.enabled=false", "-o", "optimizers=[random]"
    real = "-o", "problem=func2c", "-o", "workers.kind=in-process", "--out", tmp_path / "real"
    assert fmnas("run", "smoke", *options, *real) == 0
    assert fmnas("record", tmp_path / "real", "--out", tmp_path / "func2c.npz") == 0
    problem = "-o", f"problem=recorded:{tmp_path / 'func2c.npz'}", "-o", "workers.kind=auto"
    assert fmnas("run", "smoke", *options, *problem, "--out", tmp_path / "same") == 0, "the same seed asks the same"
    assert fmnas("run", "smoke", *options, *problem, "-o", "seed=1", "--out", tmp_path / "other") != 0
    assert "func2c.npz" in capsys.readouterr().err
    assert fmnas("record", tmp_path / "real", recorded / "real", "--out", tmp_path / "both.npz") == 2
    assert "problem = 'func2c' and " in capsys.readouterr().err, "results of another objective"
    assert not (tmp_path / "both.npz").exists()


def test_the_file_is_not_exchanged_within_an_experiment(recorded: Path, simulated: Path, tmp_path: Path) -> None:
    fmnas("record", recorded / "real", "--out", tmp_path / "first.npz")
    shutil.copy(recorded / "grid.yaml", tmp_path)
    fixed = "-o", "fixed={a: x}", "-o", f"problem=recorded:{tmp_path / 'first.npz'}"
    assert fmnas("run", tmp_path / "grid.yaml", *fixed, "--out", tmp_path / "run") == 0
    options = "-o", "workers.kind=in-process", "-o", "seed=1", "--out", tmp_path / "real"
    assert fmnas("run", recorded / "grid.yaml", *options) == 0
    assert fmnas("record", tmp_path / "real", recorded / "real", "--out", tmp_path / "first.npz") == 0
    assert len(read_table(tmp_path / "first.npz")) == 80
    assert fmnas("extend", tmp_path / "run", "-o", "budget.evaluations=41", "--progress", "quiet") == 2


def test_what_cannot_be_recorded_is_refused(recorded: Path, simulated: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    for directories, file in (
        ([recorded / "real"], tmp_path / "out.csv"),
        ([recorded / "real", recorded / "real"], out),
        ([simulated], out),
        ([tmp_path], out),
    ):
        assert fmnas("record", *directories, "--out", file) == 2
    out.write_text("something else")
    assert fmnas("record", recorded / "real", "--out", out) == 2
    assert out.read_text() == "something else"


@pytest.mark.parametrize("problem", ["recorded:missing.npz", "recorded:grid.yaml", "recorded:"])
def test_a_problem_without_its_file_is_refused(problem: str, recorded: Path, tmp_path: Path) -> None:
    run = fmnas("run", recorded / "grid.yaml", "-o", f"problem='{problem}'", "--out", tmp_path / "run")
    assert run == 2


def test_a_recorded_problem_has_no_other_workers(recorded: Path, tmp_path: Path) -> None:
    for kind in ("in-process", "ray"):
        assert fmnas("run", recorded / "table.yaml", "-o", f"workers.kind={kind}", "--out", tmp_path / "run") == 2
