"""Every example of CONTRIBUTING.md: written where it says, named by its row, and run."""

import csv
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from fmnas.comparison import figures
from fmnas.comparison.figures.files import FORMATS
from fmnas.optimizers import Optimizer, random_design
from fmnas.platform import problems, registry
from fmnas.platform.cli import main
from fmnas.search_spaces import Nominal, Ordinal, Real, Space, Trial
from fmnas.search_spaces.records import INITIAL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text()
BLOCK = r"`:\n\n```python\n(.*?)```"
FILES: dict[str, str] = dict(re.findall(rf"^`([\w/]+\.py){BLOCK}", PAGE, flags=re.DOTALL | re.MULTILINE))
ROWS: list[tuple[str, str]] = re.findall(
    r"^Its row, [^\n]*?`([\w/]+\.py)`[^\n`]*:\n\n```python\n(.*?)```", PAGE, flags=re.DOTALL | re.MULTILINE
)
COMMANDS: list[str] = re.findall(r"^ {4}fmnas (.*)$", PAGE, flags=re.MULTILINE)
ENTRIES: list[tuple[str, str, str]] = re.findall(r"^\| `([\w/]+\.py)`, `(\w+)` \| `(.*)` \|$", PAGE, flags=re.MULTILINE)
SPACE = Space([Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Ordinal("width", [1, 2, 4, 8])])


def added_to(file: str) -> str:
    """The row that the page adds to a file."""
    (row,) = (row for other, row in ROWS if other == file)
    return row


ADDED = [eval(row) for file, row in ROWS if file == "platform/registry.py"]
OPTIMIZERS = [registry.OptimizerEntry(name, f"fmnas.{use}", summary) for name, use, summary in ADDED]
PROBLEMS = [
    problems.ProblemEntry(name, f"fmnas.trainers.{module}:{name.upper()}", summary)
    for module, summaries in eval(f"{{{added_to('platform/problems.py')}}}").items()
    for name, summary in summaries.items()
]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """written(module): an example's module; the files are in a folder that its package looks into, too."""
    modules: list[str] = []
    for file, code in FILES.items():
        path = tmp_path / "examples" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code)
        modules.append("fmnas." + file.removesuffix(".py").replace("/", "."))
        package = importlib.import_module(modules[-1].rpartition(".")[0])
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(path.parent)])
    importlib.invalidate_caches()
    yield importlib.import_module
    for name in modules:
        package_name, _, own = name.rpartition(".")
        if sys.modules.pop(name, None) is not None:
            delattr(importlib.import_module(package_name), own)


@pytest.fixture
def named(written: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples' rows in the registries; of the figures the example alone is drawn, the others take seconds."""
    for row in OPTIMIZERS:
        monkeypatch.setitem(registry.OPTIMIZERS, row.name, row)
    for row in PROBLEMS:
        monkeypatch.setitem(problems.PROBLEMS, row.name, row)
    drawn = {"distribution": written("fmnas.comparison.figures.distribution")}
    monkeypatch.setattr(figures, "FIGURES", (eval(added_to("comparison/figures/__init__.py"), drawn),))


def ran(command: str, folder: Path) -> list[dict[str, str]]:
    """The rows of trials.csv that `fmnas COMMAND` leaves in the folder."""
    words = shlex.split(command)
    assert main([*words[: words.index("--out")], "--out", str(folder)]) == 0
    with (folder / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def ask_trial(optimizer: Optimizer) -> Trial:
    trial = optimizer.ask()
    assert trial is not None
    return trial


def test_every_block_is_a_file_or_its_row() -> None:
    assert len(FILES) == 4
    assert len(FILES) + len(ROWS) == PAGE.count("```python")
    assert not [file for file in FILES if (ROOT / file).exists()], "an example that is there already shows nothing"
    for file, _ in ROWS:
        assert (ROOT / file).is_file(), file


@pytest.mark.parametrize("file", FILES)
def test_examples_keep_the_rules(file: str) -> None:
    for check in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--stdin-filename", file, "-"]
        done = subprocess.run(command, input=FILES[file], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_command_has_a_separate_run_directory() -> None:
    folders = [command.partition("--out ")[2] for command in COMMANDS if command.startswith("run ")]
    assert all(folders)
    assert len(set(folders)) == len(folders) == 2


def test_with_the_examples_where_the_page_says_the_tests_pass(tmp_path: Path) -> None:
    """Of a copy of the tree, with what is compiled: those of the structure, and of what the registries hold."""
    project = tmp_path / "project"
    for path in ROOT.iterdir():
        if (path / "__init__.py").exists() or path.name in ("platform", "tests"):
            shutil.copytree(path, project / path.name, ignore=shutil.ignore_patterns("*.pyc.*"))
    for path in (*ROOT.glob("*.md"), ROOT / "pyproject.toml"):
        shutil.copy(path, project)
    (tmp_path / "fmnas").symlink_to(project, target_is_directory=True)
    for file, code in FILES.items():
        (project / file).write_text(code)
    for file, row in ROWS:
        add(project / file, r"^(FIGURES.*|SUMMARIES = \{|    for name, use, summary in \()\n", f"{row.strip()},\n")
    add(project / "comparison/figures/__init__.py", r"^from fmnas.comparison.figures import ", "distribution, ")
    for file, name, entry in ENTRIES:
        add(project / file, rf"^{name}\b.* = [\[{{]\n", f"{entry},\n")
    tests = ["test_structure.py", "comparison/test_page.py", "trainers/test_synthetic.py", "platform/test_options.py"]
    tests += ["platform/test_problems.py::test_a_failure_is_a_bad_result_of_each_problem"]
    chosen = "not wheel and not markup and (not test_options or every_option or hill)"
    command = [sys.executable, "-m", "pytest", "-k", chosen, *(f"tests/{file_name}" for file_name in tests)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def add(path: Path, after: str, text: str) -> None:
    """Write the text after what the pattern matches."""
    changed, count = re.subn(after, lambda found: found[0] + text, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, (path, after)
    path.write_text(changed)


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: row.name)
def test_an_optimizer_continues_the_same_from_its_history(row: Any) -> None:
    setting = registry.OptimizerContext(3, 5, 12, False, tuple(random_design(SPACE, 4, 0)))
    optimizer, again = (row.build(SPACE, setting, {}) for _ in range(2))
    for _ in range(12):
        trial = ask_trial(optimizer)
        SPACE.validate(trial.configuration)
        objective = float((SPACE.encode(trial.configuration) ** 2).sum())
        optimizer.tell(trial, objective)
        again.restore(Trial.from_dict(json.loads(json.dumps(trial.to_dict()))))
        again.tell(trial, objective)
    origins = [trial.origin for trial, _ in optimizer.history]
    assert origins[:4] == [INITIAL] * 4
    assert row.optimizer.chooses in origins[4:]
    assert ask_trial(optimizer) == ask_trial(again)


@pytest.mark.usefixtures("named")
@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: row.name)
def test_an_optimizer_runs(row: Any, tmp_path: Path) -> None:
    (command,) = (line for line in COMMANDS if OPTIMIZERS[0].name in line)
    trials = ran(command.replace(OPTIMIZERS[0].name, row.name), tmp_path / "run")
    assert [trial["status"] for trial in trials] == ["finished"] * 8
    assert {trial["optimizer"] for trial in trials} == {row.name}
    assert row.optimizer.chooses in {trial["origin"] for trial in trials}


@pytest.mark.usefixtures("named")
def test_an_option_of_an_optimizer_is_checked_by_its_annotation(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = "run smoke -o optimizers=[{name: hill-climbing, restart: 1.5}]"
    assert main(wrong.split(maxsplit=3)) == 2
    assert "restart = 1.5: " in capsys.readouterr().err


@pytest.mark.usefixtures("named")
def test_a_problem_evaluates_its_minimum_and_runs(tmp_path: Path) -> None:
    (row,) = PROBLEMS
    problem = problems.problem(row.name)
    best = Trial(0, {"x1": float(np.pi), "x2": 2.275}, 1, INITIAL)
    assert problem.trainer.evaluate(best).objective == pytest.approx(problem.minimum, abs=2e-6)
    (command,) = (line for line in COMMANDS if f"problem={row.name}" in line)
    trials = ran(command, tmp_path / "run")
    objectives = [float(trial["objective"]) for trial in trials]
    assert len(objectives) == 8
    assert problem.minimum <= min(objectives) < max(objectives) < problem.penalty


@pytest.mark.usefixtures("named")
def test_a_figure_is_on_the_page_with_its_caption(
    written: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (command,) = (line for line in COMMANDS if f"problem={PROBLEMS[0].name}" in line)
    ran(command, tmp_path / "run")
    capsys.readouterr()
    assert main(["report", str(tmp_path / "run")]) == 0
    report = tmp_path / "run" / "report"
    assert {f"distribution.{kind}" for kind in FORMATS} <= {path.name for path in report.iterdir()}
    (section,) = re.findall(
        r"<div class='body' id='result'>(.*?)</section>", (report / "index.html").read_text(), re.DOTALL
    )
    assert 'aria-label="distribution"' in section
    caption = written("fmnas.comparison.figures.distribution").CAPTION
    assert caption.replace("'", "&#39;") in section
