"""`fmnas extend`: from the command to the files, what it refuses, and a crash at its worst moment."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from fmnas.comparison.analysis.trials import read_trials
from fmnas.platform.cli import main
from fmnas.platform.config.load import load_config
from fmnas.platform.environment import provenance
from fmnas.platform.experiment.configuration import FREE_TO_CHANGE, GROWING, flat, is_within
from fmnas.platform.experiment.journal import Journal, Record, read_journal
from fmnas.platform.experiment.lock import locked
from fmnas.platform.experiment.retrained import RetrainedRow, write_retrained
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import restore
from fmnas.platform.report.write import context_of
from fmnas.platform.runner.extension import REASONS

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
    return main(["extend", str(run), *(part for each in given for part in ("-o", each)), "--progress", "quiet"])


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def rows(run: Path) -> pd.DataFrame:
    """What the trials are, in any order."""
    table = read_trials(run / "trials.csv").sort_values(["run", "trial"], ignore_index=True)
    return table.drop(columns=[name for name in table if name in TIMES])


def test_it_ends_as_if_it_had_been_so_from_the_start(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert extend(run, "repeats=2", "optimizers=[random, regularized-evolution, bo-fm]") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "extended after 10 of its trials had ended: repeats 1 -> 2, optimizers + bo-fm." in printed
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
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for added in ("optimizers+=bo-fm", "optimizers+=bo-fm", "optimizers+=[{name: bo-fm}, random]"):
        assert extend(run, added) == 0
        labels = [entry["label"] for entry in yaml.safe_load((run / "config.yaml").read_text())["optimizers"]]
        assert labels == ["random", "regularized-evolution", "bo-fm"]
    assert (run / "journal.jsonl").read_text().count('"event":"extended"') == 1
    capsys.readouterr()
    assert extend(run, "optimizers+={name: tpe, label: random}") == 2
    assert "random has other settings here" in capsys.readouterr().err
    assert extend(run, "repeats=2", "optimizers+=nobody", "optimizers+=5") == 2
    assert "optimizers.4 = 5" in capsys.readouterr().err


def test_said_again_it_goes_on_and_adds_nothing(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert extend(run, "repeats=2") == 0
    journal = (run / "journal.jsonl").read_bytes()
    assert main(["extend", str(run), "-o", "repeats=2", "--progress", "lines"]) == 0
    assert "has all of that already" in capsys.readouterr().out
    assert (run / "journal.jsonl").read_bytes() == journal


def test_what_is_free_to_change_is_said_to_be_taken(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    for given, more in ((["workers.count=1"], ""), (["repeats=2", "workers.failures=9"], "repeats 1 -> 2")):
        flags = [part for each in given for part in ("-o", each)]
        assert main(["extend", str(run), *flags, "--progress", "lines"]) == 0
        said = capsys.readouterr().out
        assert f"from now on {given[-1].replace('=', ' = ')}\n" in said
        assert "has all of that already" not in said
        assert more in said


def test_a_larger_budget_is_said_of_who_was_told_the_smaller_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    optimizers = "optimizers=[random, cocabo]"
    assert main(["run", "smoke", *FAST, "-o", optimizers, "--out", str(run), "--progress", "quiet"]) == 0
    capsys.readouterr()
    given = ["-o", "budget.evaluations=6", "-o", "optimizers=[random, cocabo, bo-fm]"]
    assert main(["extend", str(run), *given, "--progress", "lines"]) == 0
    told = "cocabo knows the size of its budget: 5 evaluations before the extension, 6 after it"
    assert told in capsys.readouterr().out
    summary = json.loads((run / "summary.json").read_text())
    assert {name: row["evaluations"] for name, row in summary["optimizers"].items()} == {
        "random": 6.0, "cocabo": 6.0, "bo-fm": 6.0
    }  # fmt: skip
    remarks = [remark.text for remark in context_of(RunDirectory(run), restore(RunDirectory(run))[0]).remarks]
    assert any(text.startswith(told) for text in remarks)
    assert not any("p-values are valid" in text for text in remarks), "one repeat has no p"
    assert not any(text.startswith(f"{name} knows the size") for name in ("random", "bo-fm") for text in remarks)
    assert told in (run / "report" / "index.html").read_text()
    assert extend(run, "repeats=2", "optimizers=[random, cocabo, bo-fm, {name: cocabo, label: late}]") == 0
    assert json.loads((run / "summary.json").read_text())["optimizers"].keys() >= {"late"}
    remarks = [remark.text for remark in context_of(RunDirectory(run), restore(RunDirectory(run))[0]).remarks]
    assert [text.split()[0] for text in remarks if "evaluations before the extension" in text] == ["cocabo"]
    assert len([text for text in remarks if text.startswith("Extended after")]) == 2
    assert len([text for text in remarks if "p-values are valid" in text]) == 1, "said once, however often it grew"


REFUSED = {
    "repeats=0": "repeats = 0",
    "budget.evaluations=4": "budget.evaluations = 4",
    "optimizers=[random]": "regularized-evolution is left out, and what was done is kept: write -o optimizers+=NEW",
    "optimizers=[bo-fm]": "random, regularized-evolution are left out",
    "optimizers=bo-fm": "optimizers = 'bo-fm'",
    "optimizers=[random, {name: regularized-evolution}]": "regularized-evolution has other settings here",
    "optimizers.0={name: random, concurrency: 2}": "random has other settings here",
    "optimizers.0={name: bohb, label: random}": "random has other settings here",
    "optimizers=[random, regularized-evolution, bo]": "optimizers.2 = 'bo': unknown",
    "problem=func3c": "problem = 'func3c': the experiment has 'func2c': results on two problems",
    "seed=1": "seed = 1: the experiment has 0: the seeds of all trials",
    "initial_design=3": "initial_design = 3: the experiment has 4: the optimizers of a repeat begin",
    "seeds=5": "seeds = 5: the experiment has 4",
    "fidelity.epochs=4": "fidelity.epochs = 4: the experiment has 3",
    "budget.seconds=60": "budget.seconds = 60.0: the experiment has null, and what it did is kept",
    "budget.trial_seconds=60": "budget.trial_seconds = 60.0: the experiment has null: a trial that timed out",
    "on_failure=skip": "on_failure = 'skip': the experiment has 'penalty'",
    "name=other": "name = 'other': the experiment has 'smoke'",
    "data.train=100": "data.train = 100: func2c does not take it",
    "repeat=3": "Did you mean 'repeats'?",
    "repeats": "write key=value",
}


@pytest.mark.parametrize("given", REFUSED)
def test_what_would_not_leave_what_was_done_as_it_is_is_refused_by_name(
    run: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    before = files(run)
    assert extend(run, "hypotheses=all", given) == 2
    said = capsys.readouterr().err
    assert REFUSED[given] in said
    assert "Traceback" not in said
    assert files(run) == before


def test_less_than_there_is_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert extend(run, "repeats=2", "budget.evaluations=7") == 0
    before = files(run)
    assert extend(run, "repeats=1", "budget.evaluations=6", "seed=3") == 2
    said = capsys.readouterr().err
    for line in ("repeats = 1: the experiment has 2", "budget.evaluations = 6: the experiment has 7", "seed = 3:"):
        assert line in said
    assert "What can grow: repeats, budget.evaluations" in said
    assert files(run) == before


def test_without_a_word_it_says_what_to_say(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert extend(run) == 2
    assert "say what is to grow: -o repeats=N" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "may"),
    [("workers", True), ("workers.cpus", True), ("workers_x", False), ("data.root", True), ("data.rooted", False)],
)
def test_a_key_is_free_by_its_whole_name(key: str, may: bool) -> None:
    assert is_within(key, FREE_TO_CHANGE) == may


def test_every_key_grows_is_free_or_has_a_reason() -> None:
    for key in flat(load_config("smoke").model_dump(mode="json")):
        may = is_within(key, (*GROWING, *FREE_TO_CHANGE))
        assert may != (key in REASONS or key.partition(".")[0] in REASONS) or key == "data.root"


def test_while_a_driver_works_it_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with locked(RunDirectory(run).lock, print):
        before = files(run)
        assert extend(run, "repeats=2") == 2
        assert files(run) == before
    assert "process" in capsys.readouterr().err


def cut_to(run: Path, events: Iterator[str]) -> list[Record]:
    """Leave of the journal what comes before the last of these events, that one included."""
    path, last = RunDirectory(run).journal, list(events)
    found = [record["event"] for record in read_journal(path)]
    count = max(place for place, event in enumerate(found) if event in last) + 1
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:count]))
    return read_journal(path)


def test_a_driver_that_died_between_journal_and_config_did_no_harm(run: Path) -> None:
    """The file of before is taken for that, and what a user freely changed in it holds."""
    config, old = run / "config.yaml", (run / "config.yaml").read_text()
    assert extend(run, "repeats=2", "optimizers=[random, regularized-evolution, bohb]") == 0
    whole, grown = rows(run), config.read_text()
    records = cut_to(run, iter(["extended"]))
    assert records[-2]["work"] == "extension"
    config.write_text(old.replace("attempts: 3", "attempts: 7"))
    state = restore(RunDirectory(run))[0]
    assert len(state.runs) == 6
    assert state.experiment.config.workers.attempts == 7
    assert main(["status", str(run)]) == 0
    assert main(["resume", str(run), "--progress", "quiet"]) == 0
    assert config.read_text() == grown.replace("attempts: 3", "attempts: 7")
    pd.testing.assert_frame_equal(rows(run), whole)
    config.unlink()
    assert main(["resume", str(run), "--progress", "quiet"]) == 0
    assert config.read_text() == grown


def test_an_interrupted_experiment_grows_too(run: Path) -> None:
    path = run / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:9]))
    assert extend(run, "repeats=2") == 0
    assert len(rows(run)) == 20
    assert main(["replay", str(run)]) == 0


def test_a_config_that_grew_by_hand_is_told_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = run / "config.yaml"
    data: dict[str, Any] = yaml.safe_load(config.read_text())
    config.write_text(yaml.safe_dump({**data, "repeats": 3}))
    assert main(["resume", str(run)]) == 2
    assert f"`fmnas extend {run} -o repeats=N`" in capsys.readouterr().err


def test_what_a_newer_fmnas_extended_is_called_what_it_is(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert extend(run, "repeats=2") == 0
    records = read_journal(run / "journal.jsonl")
    (run / "journal.jsonl").unlink()
    with Journal(run / "journal.jsonl") as journal:
        for record in records:
            journal.append({**record, "format": 3} if record["event"] == "extended" else record)
    for command in ("resume", "status", "report", "replay"):
        assert main([command, str(run)]) == 2
        assert "is of a newer fmnas: its format is 3" in capsys.readouterr().err


def test_a_reader_that_knows_no_extensions_is_told_who_wrote_it(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's record comes first, so that an older fmnas does not take the extension for damage."""
    assert extend(run, "repeats=2") == 0
    path = run / "journal.jsonl"
    records = read_journal(path)
    path.unlink()
    with Journal(path) as journal:
        for record in records:
            journal.append({**record, "event": "unheard-of"} if record["event"] == "extended" else record)
    monkeypatch.setattr("fmnas.platform.experiment.ledger.provenance", lambda: {**provenance(), "fmnas": "0.0.9"})
    assert main(["status", str(run)]) == 2
    said = capsys.readouterr().err
    assert "it was written by fmnas" in said
    assert "use the other one" in said


def row_of(run: str, trial: int) -> RetrainedRow:
    name, repeat = run.split("/repeat-")
    return RetrainedRow(run, name, int(repeat), trial, 0.3, 0.3, (0.3, 0.4), 3, 9, 9, 1.0, "a", "b", "w")


def test_a_retrained_configuration_that_is_not_the_best_any_more_is_not_shown(run: Path) -> None:
    directory = RunDirectory(run)
    state, _ = restore(directory)
    best = {outcome.run: outcome.trial.id for outcome in state.incumbents()}
    write_retrained(directory.retrained, [row_of(name, trial) for name, trial in best.items()])
    shown = context_of(directory, state).retrained
    assert shown is not None
    assert dict(zip(shown["run"], shown["trial"], strict=True)) == best
    outdated = {**best, "random/repeat-0": best["random/repeat-0"] + 1}
    write_retrained(directory.retrained, [row_of(name, trial) for name, trial in outdated.items()])
    context = context_of(directory, state)
    assert context.retrained is not None
    assert list(context.retrained["run"]) == ["regularized-evolution/repeat-0"]
    assert any(remark.text.startswith("1 of 2 retrained configurations are outdated") for remark in context.remarks)
