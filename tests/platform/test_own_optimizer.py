"""An optimizer of a user's own, named in a configuration: it competes like any other; what is wrong with it is said."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fmnas.api import load_run
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.configuration import current_config, save_config
from fmnas.platform.experiment.events import FORMAT, Begun
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_events
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.references import absolute_reference, import_reference
from fmnas.platform.registry import OptimizerContext, OptimizerEntry
from fmnas.search_spaces import Trial
from fmnas.trainers.functions.synthetic import FUNC2C

pytestmark = pytest.mark.slow

MINE = '''
import asyncio
import random
import time
from typing import Literal

import numpy as np
import optuna

from fmnas.optimizers import Optimizer, Suggestion


class Halving(Optimizer):
    """The best so far with one variable drawn sample; with `shift`, from a part of the space."""

    def __init__(self, space, *, rate: float = 0.5, **others):
        super().__init__(space, **others)
        if not 0 <= rate <= 1:
            raise ValueError(f"rate = {rate}")
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


class Tongueless(Halving):
    @classmethod
    def caveat(cls, options):
        raise ValueError("no words")


class Worried(Halving):
    @classmethod
    def config_warning(cls, options, plan):
        raise ValueError("no words")


class Outside(Halving):
    def _suggest(self, rng):
        return Suggestion({**self.space.sample(rng), "x1": 7.0}, "random")


class Forgets(Halving):
    def restore(self, trial):
        raise ValueError("what was that")


class Raises(Halving):
    def _suggest(self, rng):
        raise RuntimeError("no idea")


class Leaves(Halving):
    def _suggest(self, rng):
        raise SystemExit


class CancelsWhenTold(Halving):
    def _observe(self, trial, evaluation):
        if len(self.history) > 1:
            raise asyncio.CancelledError("in tell")


class CancelsWhenBuilt(Halving):
    def __init__(self, space, **others):
        raise asyncio.CancelledError


class NeverBegins(Halving):
    def __init__(self, space, **others):
        raise SystemExit


class Orphan(Optimizer):
    def __init__(self, space, *, seed=0):
        self.space = space

    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")


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


class Guess(optuna.samplers.RandomSampler):
    """A sampler of a user's own."""

    def __init__(self, seed: int | None = None, lucky: "float | None" = 0.5, rule=len):
        super().__init__(seed)


class Climb:
    """The best so far with one variable drawn sample, written for no platform."""

    def __init__(self, space, seed, rate: float = 0.9):
        self.space, self.rng, self.rate, self.best = space, np.random.default_rng(seed), rate, None

    def ask(self):
        sample = self.space.sample(self.rng)
        if self.best is None or self.rng.random() > self.rate:
            return sample
        return {**self.best[1], "x1": np.float64(sample["x1"])}

    def tell(self, configuration, objective):
        if self.best is None or objective < self.best[0]:
            self.best = objective, configuration


def pair(space, seed, *, start: int):
    """Draws from the global generators, which are the adapter's to settle."""
    return lambda: space.sample(np.random.default_rng([start, random.getrandbits(30)])), lambda *results: None


class Unsteady(Climb):
    """Depends on more than its seed and results."""

    def ask(self):
        return self.space.sample(np.random.default_rng())


class Hangs(Climb):
    def ask(self):
        if self.best is not None:
            while True:
                time.sleep(0.01)
        return super().ask()


class Typed(Halving):
    """Options of several types, not all of them plain, and one option that is not keyword-only."""

    def __init__(
        self, space, steps: int | None = None, *, rule: Literal["a", "b"] = "a", values: list[int] = (), copy: int = 0,
        limit: float = None, **others,
    ):
        super().__init__(space, **others)


def anything(space, seed, **options):
    assert options in ({"whatever": 5}, {"max-depth": 3, "lambda": 2})
    return Climb(space, seed)


def starred(*arguments, **options):
    assert options == {"whatever": 5}
    return Climb(*arguments)


class Unseeded(Climb):
    def __init__(self, space):
        super().__init__(space, 0)


class Speechless(Climb):
    ask = None


def fails(space, seed):
    raise RuntimeError("no idea")
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
    entries = (
        {"name": "nsga", "use": "optuna:NSGAIISampler", "population_size": 3},
        {"name": "guess", "use": "mine.py:Guess", "lucky": 0.3},
        {"name": "climb", "use": "mine.py:Climb", "rate": 0.8},
        {"name": "pair", "use": "mine.py:pair", "start": 4},
    )
    assert run_own(tmp_path, entry, {**entry, "label": "less", "rate": 0.1}, *entries) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["optimizers"]) == {"halving", "less", "nsga", "guess", "climb", "pair"}
    assert summary["optimizers"]["halving"]["values"] != summary["optimizers"]["less"]["values"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the configuration kept the file's whole path
    for command in ("resume", "report", "replay", "status"):
        assert main([command, str(tmp_path / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err


def test_one_that_changes_its_records_changes_no_result(
    run_own: Callable[..., int], mine: Path, tmp_path: Path
) -> None:
    entry = {"name": "edits", "use": f"{mine}:Edits", "concurrency": 2}
    assert run_own(tmp_path, entry, "random") == 0
    out = tmp_path / "run"
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
    ("name", "words"),
    [
        ("Outside", "x1 = 7.0"),
        ("Raises", "no idea (mine.py, line "),
        ("Leaves", "SystemExit (mine.py, line "),
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


def test_what_its_constructor_refuses_is_said_before_anything_is_written(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, "random", {"name": "mine", "use": f"{mine}:NeverBegins"}) == 2
    said = capsys.readouterr().err
    assert f"optimizers.1.use = '{mine}:NeverBegins': it cannot be built: SystemExit" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("name", "method"), [("Tongueless", "caveat"), ("Worried", "config_warning")])
def test_what_it_cannot_say_of_itself_is_said_before_anything_is_written(
    run_own: Callable[..., int],
    mine: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    method: str,
) -> None:
    assert run_own(tmp_path, "random", {"name": "mine", "use": f"{mine}:{name}"}) == 2
    said = capsys.readouterr().err
    assert f"mine.{method}: ValueError: no words" in said
    assert "Traceback" not in said
    assert not (tmp_path / "run").exists()


def test_resume_and_replay_after_a_tell_failed_end_in_one_line(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:CancelsWhenTold"}, "random") == 1
    for command in ("resume", "replay"):
        assert "the optimizer failed" in capsys.readouterr().err
        assert main([command, str(tmp_path / "run")]) == 1
    said = capsys.readouterr().err
    assert "CancelledError: in tell (mine.py, line " in said
    assert said.count("\n") == 1


def test_what_a_constructor_hands_on_is_set_as_well(mine: Path) -> None:
    row = OptimizerEntry("mine", f"{mine}:Heir", "")
    mine.write_text(
        MINE
        + """
class Heir(Halving):
    def __init__(self, space, *, depth: "Unknown" = 1, **others):
        super().__init__(space, **others)
"""
    )
    assert row.validate_options({"depth": 2}) == {"depth": 2, "rate": 0.5}
    assert row.takes_initial_design
    built = row.build(FUNC2C.space, OptimizerContext(7, 5, 10, False, ()), {"rate": 0.25})
    assert (built.seed, built.epochs, vars(built)["rate"]) == (7, 5, 0.25)


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("nowhere.at_all:Mine", {}, "No module named 'nowhere'"),
        ("json:JSONDecoder", {}, "is not an optimizer: give a subclass of fmnas.optimizers.Optimizer"),
        ("{mine}:Halfing", {}, "has no Halfing"),
        ("{mine}:Abstract", {}, "implement _suggest"),
        ("{mine}:Halving", {"rate": 2.0}, "ValueError: rate = 2.0"),
        ("{mine}:CancelsWhenBuilt", {}, "CancelledError"),
        ("{mine}:Orphan", {}, "super().__init__(space"),
        ("{mine}:not_a_class", {}, "takes 0 positional arguments"),
        ("optuna:GridSampler", {}, "'search_space'"),
        ("optuna:TPESampeler", {}, "optuna.samplers has no TPESampeler"),
        ("optuna:BaseSampler", {}, "sample_relative"),
        ("{mine}:pair", {}, "'start'"),
        ("{mine}:fails", {}, "RuntimeError: no idea"),
        ("{mine}:Unseeded", {}, "Unseeded(space, seed): TypeError"),
        ("{mine}:Speechless", {}, "return an object with ask()"),
    ],
)
def test_what_cannot_be_built_is_refused_by_its_key(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any], words: str
) -> None:
    entry = {"name": "mine", "use": use.format(mine=mine), **options}
    with pytest.raises(ConfigError) as caught:
        build_experiment(check_config(own_config("random", entry), "own.yaml"))
    assert f"optimizers.1.use = '{entry['use']}': " in str(caught.value)
    assert words in str(caught.value)


def test_a_file_without_the_name_of_its_class_is_refused_with_what_to_write(
    own_config: Callable[..., dict[str, Any]], mine: Path
) -> None:
    for entry in (str(mine), {"use": str(mine)}):
        with pytest.raises(ConfigError) as caught:
            check_config(own_config("random", entry), "own.yaml")
        assert f"optimizers.1.use = '{mine}': " in str(caught.value)
        assert "FILE.py:NAME" in str(caught.value)


@pytest.mark.parametrize(
    ("use", "options", "lines"),
    [
        ("{mine}:Halving", {"seed": 5}, ["seed: unknown key; allowed are rate, "]),
        ("{mine}:Halving", {"rat": 0.5}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:Halving", {"rate": "high"}, ["rate = 'high': ", "number"]),
        ("{mine}:Climb", {"rat": 0.5}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:Climb", {"rate": True}, ["rate = true: "]),
        ("{mine}:pair", {"start": 1.5}, ["start = 1.5: ", "integer"]),
        ("{mine}:Typed", {"rule": "c"}, ["rule = 'c': ", "'a' or 'b'"]),
        ("{mine}:Typed", {"steps": "few"}, ["steps = 'few': "]),
        ("{mine}:Typed", {"step": 3}, ["step: unknown key; did you mean steps?"]),
        ("{mine}:Typed", {"rat": 1.0}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:Typed", {"limit": float("nan")}, ["limit = nan: "]),
        ("{mine}:Typed", {"values": [date(2001, 1, 1)]}, ["values.0 = datetime.date(2001, 1, 1): "]),
        ("{mine}:Typed", {"values": {1: 2}}, ["values.1 = 1: "]),
        ("optuna:TPESampler", {"gama": 3}, ["gama: unknown key; did you mean gamma?"]),
    ],
)
def test_a_wrong_option_is_refused_by_its_key_before_a_trial(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any], lines: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(own_config("random", {"name": "mine", "use": use.format(mine=mine), **options}), "own.yaml")
    assert f"\n  optimizers.1.{lines[0]}" in str(caught.value)
    assert all(line in str(caught.value) for line in lines)


def test_a_directory_can_be_read_whatever_options_are_called(
    tmp_path: Path, mine: Path, run_own: Callable[..., int]
) -> None:
    entry = {"name": "mine", "use": f"{mine}:anything", "max-depth": 3, "lambda": 2}
    assert run_own(tmp_path, entry, "random") == 0
    assert set(load_run(tmp_path / "run").summary.optimizers) == {"mine", "random"}


@pytest.mark.parametrize(
    ("use", "options"),
    [
        ("{mine}:Halving", {"rate": 1}),
        ("{mine}:Climb", {"rate": 0}),
        ("{mine}:Typed", {"rule": "b", "steps": None, "values": [1, 2], "copy": 3, "limit": None}),
        ("{mine}:anything", {"whatever": 5}),
        ("{mine}:anything", {"max-depth": 3, "lambda": 2}),
        ("{mine}:starred", {"whatever": 5}),
        ("{mine}:Typed", {"limit": float("inf")}),
        ("{mine}:Guess", {"lucky": None}),
    ],
)
def test_options_that_an_annotation_allows_or_leaves_open_are_passed_on(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any]
) -> None:
    entry = {"name": "mine", "use": use.format(mine=mine), **options}
    config = check_config(own_config("random", entry), "own.yaml")
    assert options.items() <= config.optimizers[1].settings.items()
    build_experiment(config)


def test_a_resume_has_the_options_that_the_experiment_began_with(
    own_config: Callable[..., dict[str, Any]], mine: Path, tmp_path: Path
) -> None:
    entry = {"name": "mine", "use": f"{mine}:Typed", "limit": float("inf"), "values": [float("-inf"), {"a": None}]}
    config, directory = check_config(own_config(entry), "own.yaml"), RunDirectory(tmp_path)
    with Journal(directory.journal) as journal:
        journal.append(Begun("id", FORMAT, config.model_dump(mode="json"), at=0.0))
    assert current_config(directory, read_events(directory)) == config
    save_config(config, directory)
    assert current_config(directory, read_events(directory)) == config


@pytest.mark.parametrize(
    ("text", "words"), [("1 / 0", "ZeroDivisionError: division by zero (file.py, line 1)"), ("exit(3)", "SystemExit")]
)
def test_a_file_that_cannot_be_imported_is_refused_by_its_key(
    own_config: Callable[..., dict[str, Any]], tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        check_config(own_config({"name": "mine", "use": f"{tmp_path}/file.py:Mine"}), "own.yaml")
    assert "optimizers.0.use = " in str(caught.value)
    assert words in str(caught.value)


def test_what_depends_on_something_else_cannot_be_resumed_and_keeps_its_trials(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{mine}:Unsteady"}) == 0
    journal = (tmp_path / "run" / "journal.jsonl").read_text()
    assert main(["resume", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fmnas: mine/repeat-0, trial 3: ")
    assert "fmnas check" in said
    assert said.count("\n") == 1
    assert (tmp_path / "run" / "journal.jsonl").read_text() == journal
    assert main(["report", str(tmp_path / "run")]) == 0
    assert main(["replay", str(tmp_path / "run")]) == 1
    assert "different = 1" in capsys.readouterr().out


def test_one_that_hangs_is_named_and_left_by_ctrl_c(
    own_config: Callable[..., dict[str, Any]], mine: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(own_config("random", {"name": "mine", "use": f"{mine}:Hangs"})))
    fmnas = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
    command = [*fmnas, "run", str(path), "--out", str(tmp_path / "run")]
    journal = tmp_path / "run" / "journal.jsonl"
    with subprocess.Popen([*command, "--progress", "lines"], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        # It has asked for what comes after the initial design.
        assert any(line.startswith("random/repeat-1  trial 2 ") for line in driver.stdout)
        time.sleep(1)
        driver.send_signal(signal.SIGINT)
        assert any("waiting for mine/repeat-" in line for line in driver.stdout)
        driver.send_signal(signal.SIGINT)
        driver.stdout.read()
    assert driver.returncode == 130
    assert journal.read_text().count('"event":"finished"') >= 9
