"""What was written for others competes: samplers of Optuna, and what asks and tells; what is wrong with it is said."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.experiment import build_experiment

pytestmark = pytest.mark.slow

STRANGERS = '''
import random
import time

import numpy as np
import optuna


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


class Speechless(Climb):
    ask = None


def fails(space, seed):
    raise RuntimeError("no idea")


'''


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    path = tmp_path / "strangers.py"
    path.write_text(STRANGERS)
    return path


def test_samplers_and_what_asks_and_tells_compete_resume_and_replay(
    run_own: Callable[..., int], strangers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = (
        {"name": "nsga", "use": "optuna:NSGAIISampler", "population_size": 3},
        {"name": "guess", "use": f"{strangers}:Guess", "lucky": 0.3},
        {"name": "climb", "use": f"{strangers}:Climb", "rate": 0.8},
        {"name": "pair", "use": f"{strangers}:pair", "start": 4},
    )
    assert run_own(tmp_path, *entries) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert set(summary["optimizers"]) == {"nsga", "guess", "climb", "pair"}
    for command in ("resume", "replay"):
        assert main([command, str(tmp_path / "run")]) == 0, command
    assert "differ" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("optuna:TPESampler", {"gama": 3}, "unexpected keyword argument 'gama'"),
        ("optuna:TPESampler", {"seed": 3}, "multiple values for keyword argument 'seed'"),
        ("optuna:GridSampler", {}, "'search_space'"),
        ("optuna:QMCSampler", {"qmc_type": "none"}, "ValueError"),
        ("optuna:TPESampeler", {}, "optuna.samplers has no TPESampeler"),
        ("optuna:BaseSampler", {}, "sample_relative"),
        ("{strangers}:Climb", {"rat": 0.5}, "unexpected keyword argument 'rat'"),
        ("{strangers}:pair", {}, "'start'"),
        ("{strangers}:optuna", {}, "is not an optimizer"),
        ("{strangers}:fails", {}, "RuntimeError: no idea"),
        ("{strangers}:Speechless", {}, "return an object with ask()"),
    ],
)
def test_what_cannot_be_built_is_refused_by_its_key(
    own_config: Callable[..., dict[str, Any]], strangers: Path, use: str, options: dict[str, Any], words: str
) -> None:
    entry = {"name": "mine", "use": use.format(strangers=strangers), **options}
    with pytest.raises(ConfigError) as caught:
        build_experiment(check_config(own_config("random", entry), "own.yaml"))
    assert f"optimizers.1.use = '{entry['use']}': " in str(caught.value)
    assert words in str(caught.value)


def test_what_depends_on_something_else_cannot_be_resumed_and_keeps_its_trials(
    run_own: Callable[..., int], strangers: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_own(tmp_path, {"name": "mine", "use": f"{strangers}:Unsteady"}) == 0
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
    own_config: Callable[..., dict[str, Any]], strangers: Path, tmp_path: Path
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(json.dumps(own_config("random", {"name": "mine", "use": f"{strangers}:Hangs"})))
    command = [sys.executable, "-m", "fmnas.platform.cli", "run", str(path), "--out", str(tmp_path / "run")]
    journal = tmp_path / "run" / "journal.jsonl"
    with subprocess.Popen([*command, "--progress", "lines"], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:  # it has asked for what comes after the initial design
            if line.startswith("random/repeat-1  trial 2 "):
                break
        time.sleep(1)
        driver.send_signal(signal.SIGINT)
        for line in driver.stdout:
            if "waiting for mine/repeat-" in line:
                break
        driver.send_signal(signal.SIGINT)
        driver.stdout.read()
    assert driver.returncode == 130
    assert journal.read_text().count('"event":"finished"') >= 9
