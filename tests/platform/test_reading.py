"""Reading a run directory takes the directory alone: no code that it names is run, and its files may be gone."""

import json
import shutil
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import write_journal

from fmnas.api import load_run
from fmnas.platform.cli import main
from fmnas.platform.experiment.events import Begun, Extended
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.search_spaces import FmnasError

PROBLEM = """
from fmnas.search_spaces import LinearConstraint, Nominal, Real, Space
from fmnas.trainers import objective
from fmnas.trainers.problem import ConfigurableProblem

SPACE = Space(
    [Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Nominal("op", ["a", "b"])],
    [LinearConstraint({"x": 1.0, "y": 1.0}, bound=1.2)],
)

@objective(SPACE, penalty=9.0, minimum=-1.0, epochs=2, dataset="wine")
def bowl(configuration, epochs):
    return configuration["x"] ** 2 - configuration["y"] + (configuration["op"] == "a") + 1 / epochs

MADE = ConfigurableProblem(lambda settings: bowl, data={"train": 50}, schedule=True)
"""
OPTIMIZER = """
from fmnas.optimizers import Optimizer, Suggestion
from support import write_journal

class Mine(Optimizer):
    def __init__(self, space, *, seed=0, epochs=1, initial_design=(), rate: float = 0.5, depth: "int | None" = None):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)

    @classmethod
    def caveat(cls, options):
        return f"has the rate {options['rate']!r}"

    def _suggest(self, rng):
        return Suggestion(self.space.sample(rng), "random")

def make(space, seed, *, step: int):
    import numpy as np
    rng = np.random.default_rng(seed)
    return lambda: space.sample(rng), lambda *results: None
"""
OWN = [
    {"name": "mine", "use": "optimizer.py:Mine", "rate": 1},
    {"name": "mine", "label": "deep", "use": "optimizer.py:Mine", "depth": 3},
    {"name": "made", "use": "optimizer.py:make", "step": 2},
    {"name": "sampler", "use": "optuna:RandomSampler"},
    "random",
]
EVIL = "from pathlib import Path\nPath({marker!r}).touch()\nf = Mine = make = None\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(sys.path))
    Path("problem.py").write_text(PROBLEM)
    Path("optimizer.py").write_text(OPTIMIZER)
    return tmp_path


def run(out: str, *overrides: str, **changes: Any) -> int:
    config = {
        "name": "t",
        "problem": "problem.py:bowl",
        "optimizers": OWN,
        "initial_design": 2,
        "budget": {"evaluations": 4},
        "workers": {"kind": "in-process"},
        "tracking": {"enabled": False},
        **changes,
    }
    Path(f"{out}.yaml").write_text(json.dumps(config))
    flags = [flag for override in overrides for flag in ("-o", override)]
    return main(["run", f"{out}.yaml", *flags, "--out", out, "--progress", "quiet"])


@pytest.fixture
def lose(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """lose(*files): they are gone, from memory, too."""

    def delete_files(*files: str) -> None:
        for file in files:
            Path(file).unlink()
        for name in [name for name in sys.modules if name.startswith("fmnas_own.")]:
            monkeypatch.delitem(sys.modules, name)

    return delete_files


def tables(out: str) -> list[bytes]:
    return [Path(out, name).read_bytes() for name in ("trials.csv", "summary.json", "report/index.html")]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"problem": "problem.py:MADE", "seeds": 3, "fidelity": {"epochs": 2, "schedule_epochs": 5}},
        {"problem": "func2c", "fidelity": {"epochs": 2}},
    ],
    ids=["own", "configurable", "registry"],
)
def test_a_report_is_the_same_without_the_files_that_were_named(
    changes: dict[str, Any], lose: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("out", **changes) == 0
    whole = tables("out")
    lose("problem.py", "optimizer.py")
    assert main(["report", "out"]) == 0
    assert tables("out") == whole
    assert b"has the rate 1" in whole[1]
    results = load_run("out")
    assert set(results.summary.optimizers) == {"mine", "deep", "made", "sampler", "random"}
    assert len(results.trials) == len(whole[0].splitlines()) - 1
    assert main(["status", "out"]) == 0
    capsys.readouterr()
    for command in ("resume", "replay", "retrain"):
        assert main([command, "out"]) == 2
        assert ".py" in capsys.readouterr().err
    assert main(["extend", "out", "-o", "repeats=2"]) == 2
    assert ".py" in capsys.readouterr().err


@pytest.mark.usefixtures("quick_stores")
def test_a_sync_and_a_moved_directory_need_no_files(lose: Callable[..., None], tmp_path: Path) -> None:
    assert run("out", tracking={"enabled": True}, optimizers=OWN[:1]) == 0
    lose("problem.py", "optimizer.py")
    assert main(["sync", "out"]) == 0
    Path("out").rename("moved")
    assert main(["report", "moved"]) == 0


def test_a_warm_start_needs_no_optimizer_of_the_earlier_directory(lose: Callable[..., None]) -> None:
    assert run("earlier", optimizers=OWN[:1]) == 0
    lose("optimizer.py")
    entry = {"name": "random", "warm_start": "earlier:mine"}
    assert run("out", optimizers=[entry], budget={"evaluations": 6}) == 0
    assert load_run("out").trials["origin"].tolist().count("warm_start") == 4


def test_an_extension_keeps_what_it_adds(lose: Callable[..., None]) -> None:
    assert run("out", optimizers=["random"]) == 0
    added = json.dumps(["random", {**OWN[0], "use": str(Path("optimizer.py").resolve()) + ":Mine"}])
    assert main(["extend", "out", "-o", f"optimizers={added}", "--progress", "quiet"]) == 0
    whole = tables("out")
    lose("problem.py", "optimizer.py")
    assert main(["report", "out"]) == 0
    assert tables("out") == whole


@pytest.mark.parametrize("optimizers", [OWN[:1], ["random"]])
def test_a_lost_problem_json_is_written_by_a_resume(optimizers: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("out", optimizers=optimizers) == 0
    whole = tables("out")
    Path("out/problem.json").unlink()
    capsys.readouterr()
    assert main(["report", "out"]) == 2
    assert "`fmnas resume out`" in capsys.readouterr().err
    assert main(["resume", "out", "--progress", "quiet"]) == 0
    assert main(["report", "out"]) == 0
    assert tables("out") == whole


@pytest.mark.parametrize("command", ["resume", "replay", "extend", "retrain"])
def test_what_runs_the_code_names_it_first(command: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("out", optimizers=OWN[:1]) == 0
    capsys.readouterr()
    more = ["-o", "budget.evaluations=5", "--progress", "lines"] if command == "extend" else []
    assert main([command, "out", *more]) == (2 if command == "retrain" else 0)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "importing" in line]
    assert f"importing {here}/problem.py, {here}/optimizer.py" in line
    with pytest.raises(SystemExit):
        main([command, "--help"])
    assert "imported: treat a run directory like a program" in " ".join(capsys.readouterr().out.split())


CONFIG, JOURNAL, KEPT = "config.yaml", "journal.jsonl", "problem.json"


def forge(source: str, target: str, use: str, files: Collection[str]) -> None:
    """A copy in which these files name other code, with checksums that fit."""
    shutil.copytree(source, target)
    directory = RunDirectory(Path(target))
    config = yaml.safe_load(directory.config.read_text())
    config["problem"] = f"{use}:f"
    config["optimizers"][0]["use"] = f"{use}:Mine"
    if CONFIG in files:
        directory.config.write_text(yaml.safe_dump(config, sort_keys=False))
    if JOURNAL in files:
        events = read_journal(directory.journal)
        changed = [replace(event, config=config) if isinstance(event, Begun | Extended) else event for event in events]
        write_journal(directory.journal, changed)
    if KEPT in files:
        kept = json.loads(directory.problem.read_text())
        optimizers = {f"{use}:Mine": facts for facts in kept["optimizers"].values()}
        directory.problem.write_text(json.dumps({**kept, "problem": f"{use}:f", "optimizers": optimizers}))


@pytest.mark.parametrize(
    ("use", "files"),
    [
        *(("{here}/evil.py", files) for files in ([CONFIG], [CONFIG, JOURNAL], [CONFIG, KEPT])),
        *((use, [CONFIG, JOURNAL, KEPT]) for use in ("evil.py", "evil", "fmnas.evil.py", "/proc/self/cwd/evil.py")),
    ],
)
def test_reading_a_directory_of_somebody_else_runs_none_of_its_code(
    use: str, files: list[str], here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("earlier", optimizers=OWN[:1]) == 0
    forge("earlier", "forged", use.format(here=here), files)
    monkeypatch.delitem(sys.modules, "evil", raising=False)
    marker = here / "marker"
    for name in ("evil.py", "fmnas.evil.py"):
        Path(name).write_text(EVIL.format(marker=str(marker)))
    for command in (["report", "forged"], ["report", "forged", "--out", "there"], ["sync", "forged"]):
        assert main(command) in (0, 2)
    assert main(["status", "forged"]) == 0
    with suppress(FmnasError):  # a message is as good as an answer
        load_run("forged")
    assert run("new", optimizers=[{"name": "random", "warm_start": "forged"}], budget={"evaluations": 9}) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not marker.exists()
    main(["resume", "forged"])
    assert marker.exists(), "the file does what the test is about"
