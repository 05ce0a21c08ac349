"""An optimizer of a user's own, named in a configuration: it competes like any other; what is wrong with it is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.config import check_config
from fmnas.platform.config.named import named, whole
from fmnas.platform.errors import ConfigError

MINE = '''
from typing import Annotated

from fmnas.optimizers import Optimizer, Suggestion
from fmnas.optimizers.options import Between


class Halving(Optimizer):
    """The best so far with one variable drawn anew; with `shift`, from a part of the space."""

    def __init__(self, space, *, seed=0, epochs=1, initial_design=(), rate: Annotated[float, Between(0, 1)] = 0.5):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self.rate = rate

    def _suggest(self, rng):
        anew = self.space.sample(rng)
        if not self.history or rng.random() > self.rate:
            return Suggestion(anew, "random")
        best = dict(min(self.history, key=lambda told: told[1].objective)[0].configuration)
        name = str(rng.choice(self.space.names))
        return Suggestion({**best, name: anew[name]}, "model")


class Unfinished(Optimizer):
    pass


class Outside(Halving):
    def _suggest(self, rng):
        return Suggestion({**self.space.sample(rng), "x1": 7.0}, "random")


class Stranger(Halving):
    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "mine")


class Raises(Halving):
    def _suggest(self, rng):
        raise RuntimeError("no idea")


class Opaque(Optimizer):
    def __init__(self, space, *, rule: dict = {}):
        super().__init__(space)

    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")


def not_a_class(): ...
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def config(*optimizers: Any) -> dict[str, Any]:
    return {
        "name": "own",
        "problem": "func2c",
        "optimizers": list(optimizers),
        "repeats": 2,
        "initial_design": 3,
        "budget": {"evaluations": 8},
        "fidelity": {"epochs": 1},
        "workers": {"kind": "in-process"},
        "tracking": {"enabled": False},
    }


def run(tmp_path: Path, *optimizers: Any) -> int:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(config(*optimizers)))
    return main(["run", str(path), "--out", str(tmp_path / "run"), "--progress", "quiet"])


def test_it_competes_resumes_replays_and_is_reported(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"name": "halving", "use": "mine.py:Halving", "rate": 0.9}
    assert run(tmp_path, given, {**given, "label": "less", "rate": 0.1}, "random") == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["optimizers"]) == {"halving", "less", "random"}
    assert summary["optimizers"]["halving"]["values"] != summary["optimizers"]["less"]["values"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")  # the configuration kept the file's whole path
    for command in ("resume", "report", "replay", "status"):
        assert main([command, str(tmp_path / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err


def test_a_module_of_the_current_folder_may_be_named(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry])
    mine.rename(tmp_path / "a_module_of_mine.py")
    assert named("a_module_of_mine:Halving").__name__ == "Halving"
    assert whole("a_module_of_mine:Halving") == "a_module_of_mine:Halving"


def test_a_file_is_loaded_once(mine: Path) -> None:
    assert named(f"{mine}:Halving") is named(f"{mine}:Halving")


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ("nowhere.at_all:Mine", ["no module nowhere", "FILE.py:NAME"]),
        ("json", ["MODULE:NAME"]),
        ("json:JSONDecoder", ["json:JSONDecoder", "no class of optimizers", "fmnas.optimizers.Optimizer"]),
        ("{mine}:Halfing", ["has no Halfing", "Did you mean 'Halving'"]),
        ("{mine}:not_a_class", ["no class of optimizers"]),
        ("{mine}:Unfinished", ["cannot be built", "_suggest"]),
        ("{mine}:Opaque", ["plain types"]),
        ("{mine}.py:Mine", ["cannot be imported", "FileNotFoundError"]),
        ("{broken}:Mine", ["cannot be imported", "ZeroDivisionError"]),
        ("{leaves}:Mine", ["cannot be imported", "SystemExit"]),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(mine: Path, tmp_path: Path, use: str, words: list[str]) -> None:
    files = {"mine": mine, "broken": tmp_path / "broken.py", "leaves": tmp_path / "leaves.py"}
    files["broken"].write_text("1 / 0\n")
    files["leaves"].write_text("raise SystemExit(3)\n")
    with pytest.raises(ConfigError) as caught:
        check_config(config({"name": "mine", "use": use.format(**files)}, "random"), "own.yaml")
    message = str(caught.value)
    assert "optimizers.0.use" in message
    for word in words:
        assert word in message


def test_its_options_are_checked_by_its_constructor(mine: Path) -> None:
    given = {"name": "mine", "use": f"{mine}:Halving"}
    for option, words in (
        ({"rate": 2.0}, ["optimizers.0.rate = 2.0", "at most 1"]),
        ({"rat": 0.5}, ["optimizers.0.rat", "unknown key", "Did you mean 'rate'"]),
    ):
        with pytest.raises(ConfigError) as caught:
            check_config(config({**given, **option}), "own.yaml")
        for word in words:
            assert word in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [("Outside", "x1 = 7.0"), ("Stranger", "origin = 'mine'"), ("Raises", "no idea")],
)
def test_what_it_does_wrong_ends_the_experiment_in_one_line_and_loses_nothing(
    mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run(tmp_path, {"name": "mine", "use": f"{mine}:{name}"}, "random") == 1
    said = capsys.readouterr().err
    assert "the optimizer failed" in said
    assert words in said
    assert "Traceback" not in said
    finished = (tmp_path / "run" / "journal.jsonl").read_text().count('"event":"finished"')
    assert finished >= 3
