"""Installed packages that register optimizers, problems and observers, and broken ones that harm nobody."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fmnas.api import load_run
from fmnas.platform.cli import main
from fmnas.platform.config.load import load_config
from fmnas.platform.observers import load_plugin_observers
from fmnas.platform.references import find_plugins

pytestmark = pytest.mark.slow

MODULE = '''
from pathlib import Path
from fmnas.optimizers import Optimizer, Suggestion
from fmnas.platform.experiment.observer import Observer
from fmnas.search_spaces import FmnasError, Real
from fmnas.trainers import objective


class Mine(Optimizer):
    """Draws at random."""

    def __init__(self, space, *, seed=0, epochs=1, initial_design=()):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)

    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")


@objective([Real("x", 0.0, 1.0)])
def bowl(configuration):
    return configuration["x"] ** 2


class Count(Observer):
    """Writes what it was called with."""

    def __init__(self):
        self.seen = []

    def check(self, config):
        self.seen.append("check")

    def on_event(self, event, result):
        self.seen.append(type(event).__name__)

    def on_end(self, status, reason):
        Path("seen").write_text(" ".join([*self.seen, status]))


class Failing(Observer):
    def check(self, config):
        raise ZeroDivisionError("in check")

    def on_event(self, event, result):
        raise ZeroDivisionError("in on_event")


def fails():
    raise ZeroDivisionError("when built")


def leaves():
    raise SystemExit("left")


def refuses():
    raise FmnasError("not here")
'''
GOOD = """
[fmnas.optimizers]
mine = plugin_of_a_test:Mine
[fmnas.problems]
bowl = plugin_of_a_test:bowl
[fmnas.observers]
count = plugin_of_a_test:Count
"""
BROKEN = """
[fmnas.optimizers]
broken = not_installed_anywhere:Mine
random = not_installed_anywhere:Random
[fmnas.problems]
broken = not_installed_anywhere:bowl
[fmnas.observers]
gone = not_installed_anywhere:Count
missing = plugin_of_a_test:Missing
fails = plugin_of_a_test:fails
leaves = plugin_of_a_test:leaves
refuses = plugin_of_a_test:refuses
other = plugin_of_a_test:Mine.__name__
failing = plugin_of_a_test:Failing
no-reference = plugin_of_a_test
"""
RUN = ("run", "smoke", "-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "--progress", "quiet")
Install = Callable[[str, str | bytes], None]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages, on Python's path."""
    (folder := tmp_path / "site").mkdir()
    (folder / "plugin_of_a_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fmnas.comparison.figures.FIGURES", ())
    return folder


@pytest.fixture
def install(site: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """install(name, entry points): as pip leaves them."""

    def install(name: str, entry_points: str | bytes) -> None:
        (folder := site / f"{name}-1.0.dist-info").mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        content = entry_points if isinstance(entry_points, bytes) else entry_points.encode()
        (folder / "entry_points.txt").write_bytes(content)
        monkeypatch.syspath_prepend(str(site))  # forgets what importlib knew of the folder

    return install


def list_names(what: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """Name -> the rest of its line in `fmnas list`."""
    capsys.readouterr()
    assert main(["list", what]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert len({name for name, _ in lines}) == len(lines)
    return dict(lines)


def test_a_package_gives_names_that_list_check_and_run_know(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("good", GOOD)
    assert list_names("optimizers", capsys)["mine"] == "plugin_of_a_test:Mine"
    assert list_names("problems", capsys)["bowl"] == "plugin_of_a_test:bowl"
    assert list_names("observers", capsys) == {"count": "plugin_of_a_test:Count"}
    code = [*RUN, "-o", "problem=bowl", "-o", "optimizers=[mine, random]", "--out", "run"]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("one_figure.py")), *code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    config = load_config(tmp_path / "run" / "config.yaml")
    assert (config.problem, config.optimizers[0].use) == ("plugin_of_a_test:bowl", "plugin_of_a_test:Mine")
    assert [entry.label for entry in config.optimizers] == ["mine", "random"]
    trials = len(load_run(tmp_path / "run").trials)
    seen = (tmp_path / "seen").read_text().split()
    assert seen[0] == "check"
    assert seen[-1] == "finished"
    assert seen.count("Finished") == trials


def test_check_knows_the_optimizer_of_a_package(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("good", GOOD)
    assert main(["check", "mine"]) == 0
    assert "FAILS" not in capsys.readouterr().out


def test_a_broken_package_harms_nobody_who_does_not_name_it(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    install("broken", BROKEN)
    install("good", GOOD)
    random = list_names("optimizers", capsys)["random"]
    assert "not_installed" not in random, "the name of an optimizer of fmnas stays its own"
    assert main([*RUN, "-o", "optimizers=[mine, random]", "--out", str(tmp_path / "run")]) == 0
    assert (tmp_path / "seen").read_text().endswith("finished")
    assert [record.getMessage() for record in caplog.records if "Failing" in record.getMessage()] == [
        "Failing failed; the experiment continues"
    ]
    capsys.readouterr()
    for problem, optimizer in (("broken", "random"), ("bowl", "broken")):
        names = ("-o", f"problem={problem}", "-o", f"optimizers=[{optimizer}]")
        assert main([*RUN, *names, "--out", str(tmp_path / "other")]) == 2
        assert "not_installed_anywhere" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


def test_each_observer_that_is_left_out_has_a_line(install: Install) -> None:
    install("broken", BROKEN)
    install("good", GOOD)
    lines: list[str] = []
    assert sorted(type(observer).__name__ for observer in load_plugin_observers(lines.append)) == ["Count", "Failing"]
    left_out = [line for line in lines if "left out" in line]
    assert all("\n" not in line for line in lines)
    assert sorted(line.split()[1] for line in left_out) == [
        *("fails", "gone", "leaves", "missing", "no-reference", "other", "refuses")
    ]
    assert len(lines) == len(left_out) + 1


@pytest.mark.parametrize("text", [b"[fmnas.optimizers\nx = y", b"[fmnas.optimizers]\nx\n", b"\xff\xfe[", b"a = b:c\n"])
def test_entry_points_that_cannot_be_read_are_left_out(
    install: Install, text: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    install("a-malformed", text)
    install("good", GOOD)
    assert find_plugins("fmnas.optimizers") == {"mine": "plugin_of_a_test:Mine"}
    assert find_plugins("fmnas.problems") == {"bowl": "plugin_of_a_test:bowl"}
    assert len(caplog.records) <= 1, "once, not for each group"


def test_of_equal_names_the_first_on_the_path_counts(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("good", GOOD)
    (folder := tmp_path / "first" / "another-1.0.dist-info").mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: another\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[fmnas.optimizers]\nmine = another:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert find_plugins("fmnas.optimizers") == {"mine": "another:Mine"}
    assert find_plugins("fmnas.nothing") == {}
