"""An optimizer of a user's own, named in a configuration: it competes like any other; what is wrong with it is said."""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.registry import OptimizerContext, OptimizerEntry, absolute_reference, import_reference
from fmnas.search_spaces import Trial
from fmnas.trainers.functions.synthetic import FUNC2C

pytestmark = pytest.mark.slow

MINE = '''
import asyncio
from typing import Annotated

from fmnas.optimizers import Optimizer, Suggestion
from annotated_types import Interval


class Halving(Optimizer):
    """The best so far with one variable drawn sample; with `shift`, from a part of the space."""

    def __init__(self, space, *, rate: Annotated[float, Interval(ge=0, le=1)] = 0.5, **others):
        super().__init__(space, **others)
        self.rate = rate

    def _suggest(self, rng):
        sample = self.space.sample(rng)
        if not self.history or rng.random() > self.rate:
            return Suggestion(sample, "random")
        best = dict(min(self.history, key=lambda result: result[1].objective)[0].configuration)
        name = str(rng.choice(self.space.names))
        return Suggestion({**best, name: sample[name]}, "model")


class Abstract(Optimizer):
    pass


class Outside(Halving):
    def _suggest(self, rng):
        return Suggestion({**self.space.sample(rng), "x1": 7.0}, "random")


class Stranger(Halving):
    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "mine")


class Forgets(Halving):
    def restore(self, trial):
        raise ValueError("what was that")


class Raises(Halving):
    def _suggest(self, rng):
        raise RuntimeError("no idea")


class Leaves(Halving):
    def _suggest(self, rng):
        raise SystemExit


class LeavesWhenTold(Halving):
    def _observe(self, trial, evaluation):
        if len(self.history) > 1:
            raise SystemExit(0)


class Cancels(Halving):
    def _suggest(self, rng):
        raise asyncio.CancelledError("in ask")


class CancelsWhenTold(Halving):
    def _observe(self, trial, evaluation):
        if len(self.history) > 1:
            raise asyncio.CancelledError("in tell")


class CancelsWhenBuilt(Halving):
    def __init__(self, space, **others):
        raise asyncio.CancelledError


class OddParent(Halving):
    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "model", parent=10**30)


class NeverBegins(Halving):
    def __init__(self, space, **others):
        raise SystemExit


class Edits(Optimizer):
    """Changes every record that it can reach, and keeps a copy of each."""

    def _suggest(self, rng):
        for trial in self.pending.values():
            trial.configuration.clear()
        sample = self.space.sample(rng)
        return Suggestion(sample, "random")

    def _observe(self, trial, evaluation):
        trial.configuration.update(x1=0.123, h1=None, added=1)
        object.__setattr__(trial, "origin", "model")
        object.__setattr__(evaluation, "objective", -100.0)

    def restore(self, trial):
        super().restore(trial)
        trial.configuration.clear()
        object.__setattr__(trial, "note", "changed")

    def forget(self, trial):
        trial.configuration.clear()
        super().forget(trial)


def not_a_class(): ...
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def test_it_competes_resumes_replays_and_is_reported(
    run_own: Callable[..., int],
    mine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    entry = {"name": "halving", "use": "mine.py:Halving", "rate": 0.9}
    assert run_own(tmp_path, entry, {**entry, "label": "less", "rate": 0.1}, "random") == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["optimizers"]) == {"halving", "less", "random"}
    assert summary["optimizers"]["halving"]["values"] != summary["optimizers"]["less"]["values"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the configuration kept the file's whole path
    for command in ("resume", "report", "replay", "status"):
        assert main([command, str(tmp_path / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err


@pytest.mark.parametrize("resumed", [False, True])
def test_one_that_changes_its_records_changes_no_result(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, resumed: bool
) -> None:
    entry = {"name": "edits", "use": f"{mine}:Edits", "concurrency": 2}
    assert run_own(tmp_path, entry, "random") == 0
    out = tmp_path / "run"
    if resumed:
        journal = out / "journal.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-9]))
        assert main(["resume", str(out), "--progress", "quiet"]) == 0
    table, summary = (out / "trials.csv").read_bytes(), (out / "summary.json").read_bytes()
    assert main(["report", str(out)]) == 0
    assert (out / "trials.csv").read_bytes() == table
    assert (out / "summary.json").read_bytes() == summary
    records = [json.loads(line) for line in (out / "journal.jsonl").read_text().splitlines()]
    asked = {(r["run"], r["trial"]["id"]): r["trial"] for r in records if r["event"] == "asked"}
    assert all(set(trial["configuration"]) == set(FUNC2C.space.names) for trial in asked.values())
    with (out / "trials.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["optimizer"] == "edits"]
    finished = {(r["run"], r["trial_id"]): r["evaluation"] for r in records if r["event"] == "finished"}
    for row in rows:
        key = row["run"], int(row["trial"])
        assert float(row["x1"]) == asked[key]["configuration"]["x1"]
        assert float(row["objective"]) == finished[key]["objective"]
    best = min(rows, key=lambda row: float(row["objective"]))
    trial = Trial.from_dict(asked[best["run"], int(best["trial"])])
    assert float(best["objective"]) == FUNC2C.trainer.evaluate(trial).objective


def test_one_that_fails_at_its_history_is_named_and_the_journal_stays_unchanged(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:Forgets"}) == 0
    journal = tmp_path / "run" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-2]))
    capsys.readouterr()
    assert main(["resume", str(tmp_path / "run")]) == 1
    message = capsys.readouterr().err
    assert "mine/repeat-0: the optimizer failed to restore trial 0: ValueError" in message
    assert main(["report", str(tmp_path / "run")]) == 0


def test_a_module_of_the_current_folder_may_be_named(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry])
    mine.rename(tmp_path / "a_module_of_mine.py")
    assert import_reference("a_module_of_mine:Halving").__name__ == "Halving"
    assert absolute_reference("a_module_of_mine:Halving") == "a_module_of_mine:Halving"


def test_a_file_is_looked_for_here_and_then_next_to_the_configuration(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for directory in (folder, elsewhere):
        directory.mkdir()
    shutil.copy(mine, folder / "own.py")
    (folder / "task.py").write_text(
        "from fmnas.search_spaces import Real\nfrom fmnas.trainers import objective\n\n"
        "@objective([Real('x', 0.0, 1.0)])\ndef task(configuration):\n    return configuration['x']\n"
    )
    config = folder / "my.yaml"
    config.write_text(
        "problem: task.py\noptimizers: [random, {name: halving, use: 'own.py:Halving'}]\nbudget: {evaluations: 12}\n"
    )
    monkeypatch.chdir(elsewhere)
    loaded = load_config(Path("..") / "folder" / "my.yaml")
    assert (loaded.problem, loaded.optimizers[1].use) == (f"{folder}/task.py:task", f"{folder}/own.py:Halving")
    with pytest.raises(ConfigError, match=r"own\.py"):
        load_config(config, ["optimizers=[{name: halving, use: 'own.py:Halving'}]"])
    shutil.copy(mine, elsewhere / "own.py")
    assert load_config(config).optimizers[1].use == f"{elsewhere}/own.py:Halving"


def test_a_file_is_loaded_once(mine: Path) -> None:
    assert import_reference(f"{mine}:Halving") is import_reference(f"{mine}:Halving")


def test_files_with_similar_paths_differ(tmp_path: Path) -> None:
    paths = [tmp_path / part for part in ("v1.0/t.py", "v1_0/t.py", "v1/0/t.py", "my.t.py", "my_t.py")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"WHO = {str(path)!r}\n")
    assert [import_reference(f"{path}:WHO") for path in paths] == [str(path) for path in paths]


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("nowhere.at_all:Mine", ["nowhere"]),
        ("json", ["'json'"]),
        ("json:JSONDecoder", ["json:JSONDecoder", "fmnas.optimizers.Optimizer"]),
        ("{mine}:Halfing", ["Halfing", "'Halving'"]),
        ("{mine}:not_a_class", ["{mine}:not_a_class"]),
        ("{mine}:Abstract", ["{mine}:Abstract", "_suggest"]),
        ("{mine}.py:Mine", ["{mine}.py"]),
        ("{broken}:Mine", ["ZeroDivisionError", "broken.py, line "]),
        ("{leaves}:Mine", ["SystemExit"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    own_config: Callable[..., dict[str, Any]], mine: Path, tmp_path: Path, use: str, words: list[str]
) -> None:
    files = {"mine": mine, "broken": tmp_path / "broken.py", "leaves": tmp_path / "leaves.py"}
    files["broken"].write_text("1 / 0\n")
    files["leaves"].write_text("raise SystemExit(3)\n")
    with pytest.raises(ConfigError) as caught:
        check_config(own_config({"name": "mine", "use": use.format(**files)}, "random"), "own.yaml")
    message = str(caught.value)
    assert "optimizers.0.use" in message
    for word in words:
        assert word.replace("{mine}", str(mine)) in message


def test_its_options_are_checked_by_its_constructor(own_config: Callable[..., dict[str, Any]], mine: Path) -> None:
    entry = {"name": "mine", "use": f"{mine}:Halving"}
    for option, words in (
        ({"rate": 2.0}, ["optimizers.0.rate = 2.0"]),
        ({"rat": 0.5}, ["optimizers.0.rat: ", "rate,"]),
    ):
        with pytest.raises(ConfigError) as caught:
            check_config(own_config({**entry, **option}), "own.yaml")
        for word in words:
            assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Outside", "x1 = 7.0"),
        ("Stranger", "origin = 'mine'"),
        ("Raises", "no idea (mine.py, line "),
        ("Leaves", "SystemExit (mine.py, line "),
        ("LeavesWhenTold", "SystemExit: 0 (mine.py, line "),
        ("Cancels", "CancelledError: in ask (mine.py, line "),
        ("CancelsWhenTold", "CancelledError: in tell (mine.py, line "),
        ("OddParent", "parent = "),
    ],
)
def test_what_it_does_wrong_ends_the_experiment_in_one_line_and_loses_nothing(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:{name}"}, "random") == 1
    said = capsys.readouterr().err
    assert "the optimizer failed" in said
    assert words in said
    assert "Traceback" not in said
    finished = (tmp_path / "run" / "journal.jsonl").read_text().count('"event":"finished"')
    assert finished >= 3


@pytest.mark.parametrize(("name", "error"), [("NeverBegins", "SystemExit"), ("CancelsWhenBuilt", "CancelledError")])
def test_one_that_leaves_as_it_is_built_is_refused(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, error: str
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:{name}"}, "random") == 2
    assert f"mine ({mine}:{name}) cannot be built: {error}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["resume", "replay"])
def test_resume_and_replay_after_a_tell_failed_end_in_one_line(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:CancelsWhenTold"}, "random") == 1
    capsys.readouterr()
    assert main([command, str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "CancelledError: in tell (mine.py, line " in said
    assert said.count("\n") == 1


def test_one_that_cannot_be_built_is_refused_before_anything_is_written(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine.write_text(MINE.replace("self.rate = rate", "self.rate = rate / 0"))
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:Halving"}) == 2
    said = capsys.readouterr().err
    for word in ("mine", "cannot be built", "ZeroDivisionError"):
        assert word in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_what_a_constructor_hands_on_is_set_as_well(mine: Path) -> None:
    row = OptimizerEntry("mine", f"{mine}:Heir", "")
    mine.write_text(
        MINE
        + """
class Heir(Halving):
    def __init__(self, space, *, depth: int = 1, **others):
        super().__init__(space, **others)
"""
    )
    assert set(row.options.model_fields) == {"depth", "rate"}
    assert row.takes_initial_design
    built = row.build(FUNC2C.space, OptimizerContext(7, 5, 10, False, ()), {"rate": 0.25})
    assert (built.seed, built.epochs, vars(built)["rate"]) == (7, 5, 0.25)
