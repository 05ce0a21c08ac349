"""`fmnas extend`: from the command to the files, what it refuses, and a crash at its worst moment."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import events_of

from fmnas.comparison.analysis.trials import read_trials
from fmnas.platform.cli import main
from fmnas.platform.config.load import load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.configuration import (
    MUTABLE_KEYS,
    extended_config,
    is_under,
)
from fmnas.platform.experiment.events import Event, Extended
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import read_state
from fmnas.platform.report.write import context_of

pytestmark = pytest.mark.slow

EVOLUTION = "{name: regularized-evolution, population: 4, tournament: 2}"
FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "budget.evaluations=5"]
SMALL = [*FAST, "-o", f"optimizers=[random, {EVOLUTION}]"]
TIMES = ["suggest_seconds", "train_seconds", "started_at", "finished_at", "lost_seconds"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of one repeat of two optimizers; to be copied."""
    out = tmp_path_factory.mktemp("finished") / "run"
    assert main(["run", "smoke", *SMALL, "--out", str(out), "--progress", "quiet"]) == 0
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def extend(run: Path, *given: str) -> int:
    return main(["extend", str(run), *(part for override in given for part in ("-o", override)), "--progress", "quiet"])


@pytest.mark.parametrize("override", ["budget.evaluations=1", "repeats=0"])
def test_what_is_lowered_is_said_first(override: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One evaluation is fewer than the initial design has, too."""
    assert extend(run, override) == 2
    message = capsys.readouterr().err
    assert f"{override.replace('=', ' = ')}: cannot be lowered from" in message
    assert "must be greater" not in message


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def rows(run: Path) -> pd.DataFrame:
    """What the trials are, in any order."""
    table = read_trials(run / "trials.csv").sort_values(["run", "trial"], ignore_index=True)
    return table.drop(columns=[name for name in table if name in TIMES])


def test_only_the_options_of_a_new_optimizer_are_advised_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "run")
    assert main(["run", "smoke", *FAST, "-o", "optimizers=[regularized-evolution, bohb]", "--out", out]) == 0
    assert "-o optimizers.0.population=" in capsys.readouterr().out
    grown = ["-o", "optimizers+={name: regularized-evolution, label: late}"]
    assert main(["extend", out, *grown, "--progress", "lines"]) == 0
    said = capsys.readouterr().out
    assert "-o optimizers.0." not in said
    assert "late: " in said
    assert "-o optimizers.2.population=" in said
    assert "-o budget.evaluations=" in said, "which may grow"


def test_it_ends_as_if_it_had_been_so_from_the_start(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extend(run, "repeats=2", "optimizers=[random, regularized-evolution, bo-fm]") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "after 10 ended trials: repeats 1 -> 2, optimizers + bo-fm." in printed
    assert "p-values are valid for a number" in printed
    other, whole = tmp_path / "other", [*FAST, "-o", f"optimizers=[random, {EVOLUTION}, bo-fm]", "-o", "repeats=2"]
    assert main(["run", "smoke", *whole, "--out", str(other), "--progress", "quiet"]) == 0
    pd.testing.assert_frame_equal(rows(run), rows(other))
    assert (run / "config.yaml").read_text() == (other / "config.yaml").read_text()
    assert main(["replay", str(run)]) == 0
    capsys.readouterr()
    assert main(["status", str(run), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["state"] == "finished"
    assert len(facts["runs"]) == 6
    assert facts["spent_share"] == 1.0


def test_an_optimizer_can_be_added_without_the_labels_of_the_others_and_only_once(
    run: Path,
) -> None:
    for added in ("optimizers+=bo-fm", "optimizers+=bo-fm", "optimizers+=[{name: bo-fm}, random]"):
        assert extend(run, added) == 0
        labels = [entry["label"] for entry in yaml.safe_load((run / "config.yaml").read_text())["optimizers"]]
        assert labels == ["random", "regularized-evolution", "bo-fm"]
    assert len(events_of(run / "journal.jsonl", Extended)) == 1


@pytest.mark.parametrize("entry", ["{file}:Mine", "{{use: '{file}:Mine'}}"])
def test_a_user_optimizer_is_added_once(entry: str, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from fmnas.baselines.random_search import RandomSearch as Mine")
    for _ in range(2):  # what an interrupted command says to repeat
        assert extend(run, f"optimizers+={entry.format(file=file)}") == 0
    assert len(events_of(run / "journal.jsonl", Extended)) == 1


def test_a_larger_budget_is_reported_for_optimizers_that_knew_the_smaller_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    optimizers = "optimizers=[random, cocabo]"
    assert main(["run", "smoke", *FAST, "-o", optimizers, "--out", str(run), "--progress", "quiet"]) == 0
    capsys.readouterr()
    arguments = ["-o", "budget.evaluations=6", "-o", "optimizers=[random, cocabo, bo-fm]"]
    assert main(["extend", str(run), *arguments, "--progress", "lines"]) == 0
    note = "cocabo knows the size of its budget: 5 evaluations before the extension, 6 after it"
    assert note in capsys.readouterr().out
    summary = json.loads((run / "summary.json").read_text())
    assert {name: row["evaluations"] for name, row in summary["optimizers"].items()} == {
        "random": 6.0, "cocabo": 6.0, "bo-fm": 6.0
    }  # fmt: skip
    remarks = [remark.text for remark in context_of(RunDirectory(run), read_state(RunDirectory(run))).remarks]
    assert any(text.startswith(note) for text in remarks)
    assert not any("p-values are valid" in text for text in remarks), "one repeat has no p"
    assert not any(text.startswith(f"{name} knows the size") for name in ("random", "bo-fm") for text in remarks)
    assert note in (run / "report" / "index.html").read_text()


REFUSED = {
    "repeats=0": "repeats = 0",
    "budget.evaluations=4": "budget.evaluations = 4",
    "optimizers=[random]": "regularized-evolution cannot be removed",
    "optimizers=bo-fm": "optimizers",
    "optimizers=[random, {name: regularized-evolution}]": "options of regularized-evolution",
    "optimizers.0={name: random, concurrency: 2}": "options of random",
    "optimizers+={name: tpe, label: random}": "options of random",
    "optimizers+=5": "optimizers.2 = 5",
    "optimizers=[random, regularized-evolution, bo]": "optimizers.2 = 'bo'",
    "problem=func3c": "problem = 'func3c'",
    "seed=1": "seed = 1",
    "fidelity.epochs=4": "fidelity.epochs = 4",
    "budget.seconds=60": "budget.seconds = 60.0",
    "data.train=100": "data.train = 100",
    "repeat=3": "repeats",
    "repeats": "repeats",
}


@pytest.fixture(scope="module")
def config() -> Config:
    return load_config("smoke", [*SMALL[1::2], "repeats=2"])


@pytest.mark.parametrize("override", REFUSED)
def test_what_would_change_what_was_done_is_refused_by_name(config: Config, override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        extended_config(config, ["hypotheses=all", override], Path("run"))
    assert REFUSED[override] in str(caught.value)


def test_a_refusal_and_an_empty_request_write_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = files(run)
    for overrides in ([], ["seed=1", "repeats=2"]):
        assert extend(run, *overrides) == 2
        assert "Traceback" not in capsys.readouterr().err
    assert files(run) == before


@pytest.mark.parametrize(
    ("key", "may"),
    [("workers", True), ("workers.cpus", True), ("workers_x", False), ("data.root", True), ("data.rooted", False)],
)
def test_a_key_is_matched_by_its_whole_name(key: str, may: bool) -> None:
    assert is_under(key, MUTABLE_KEYS) == may


def cut_after(run: Path, kind: type[Event]) -> None:
    """Cut the journal after its last event of a type."""
    path = RunDirectory(run).journal
    count = max(i for i, event in enumerate(read_journal(path), start=1) if isinstance(event, kind))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))


@pytest.mark.parametrize(
    ("override", "is_said"),
    [("budget.evaluations=5", True), ("optimizers+=random", True), ("repeats=2", False), ("hypotheses=random", False)],
)
def test_an_extension_that_adds_nothing_says_so(
    override: str, is_said: bool, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extend", str(run), "-o", override, "--progress", "lines"]) == 0
    printed = capsys.readouterr()
    said = [line for line in (printed.out + printed.err).splitlines() if "nothing" in line]
    assert ["5 evaluations" in line for line in said] == [True] * is_said


def test_a_driver_that_crashed_between_journal_and_config_did_no_harm(run: Path) -> None:
    """The file is taken for the one before the extension, and what a user may change in it holds."""
    config, old = run / "config.yaml", (run / "config.yaml").read_text()
    assert extend(run, "repeats=2", "optimizers=[random, regularized-evolution, bohb]") == 0
    whole, grown = rows(run), config.read_text()
    cut_after(run, Extended)
    config.write_text(old.replace("attempts: 3", "attempts: 7"))
    state = read_state(RunDirectory(run))
    assert len(state.ledger.runs) == 6
    assert state.config.workers.attempts == 7
    assert main(["status", str(run)]) == 0
    assert main(["resume", str(run), "--progress", "quiet"]) == 0
    assert config.read_text() == grown.replace("attempts: 3", "attempts: 7")
    pd.testing.assert_frame_equal(rows(run), whole)
    config.unlink()
    assert main(["resume", str(run), "--progress", "quiet"]) == 0
    assert config.read_text() == grown


def test_an_interrupted_extension_names_the_command_that_continues_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without what is about logging, which the configuration may not keep."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fmnas.platform.runner.driver.Driver._fill", interrupt)
    overrides = ["-o", "repeats=2", "-o", "tracking.enabled=false", "-o", "tracking.experiment=mine"]
    assert main(["extend", str(run), *overrides, "--progress", "json"]) == 130
    end = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert end["resume_command"].endswith(f"extend {run} -o repeats=2")


def test_an_interrupted_experiment_grows_too(run: Path) -> None:
    path = run / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
    assert extend(run, "repeats=2") == 0
    assert len(rows(run)) == 20
    assert main(["replay", str(run)]) == 0


def test_a_config_that_was_changed_by_hand_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = run / "config.yaml"
    data: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**data, "repeats": 3}))
    assert main(["resume", str(run)]) == 2
    message = capsys.readouterr().err
    assert "repeats = 3: it was 1" in message
    assert "fmnas extend DIR -o KEY=VALUE" in message
