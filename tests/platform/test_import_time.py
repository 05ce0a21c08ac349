"""What only lists, helps or refuses loads nothing heavy: it answers at once."""

import subprocess
import sys
from pathlib import Path

import pytest

from fmnas.platform.cli import main

pytestmark = pytest.mark.slow

HEAVY = (
    "torch",
    "ray",
    "mlflow",
    "pandas",
    "scipy",
    "matplotlib",
    "gpytorch",
    "hpbandster",
    "sklearn",
    "optuna",
    "smac",
    "botorch",
)
LOADED = f"print(*[name for name in {HEAVY} if name in sys.modules], file=sys.stderr)"


def find_heavy_imports(code: str, where: Path) -> list[str]:
    """What of HEAVY the code has loaded when it ends."""
    command = [sys.executable, "-c", f"import sys\n{code}\n{LOADED}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=where)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


LIGHT = {
    "--help": 0,
    "list configs": 0,
    "list problems": 0,
    "list optimizers": 0,
    "run smoke -o nonsense=1": 2,
    "run smoke -o problem=jiont": 2,
    "run smoke -o optimizers=[bofm]": 2,
    "run nowhere": 2,
    "status nowhere": 2,
}
"""Arguments and their exit codes."""


def test_a_light_command_loads_nothing_heavy(tmp_path: Path) -> None:
    """One process runs all of them: the first of them that loads something is named."""
    run = f"""
from fmnas.platform.cli import main
for words, expected in {LIGHT}.items():
    try:
        code = main(words.split())
    except SystemExit as end:
        code = end.code
    assert code == expected, (words, code)
    assert not [name for name in {HEAVY} if name in sys.modules], words
"""
    assert find_heavy_imports(run, tmp_path) == []


MODULES = ["search_spaces", "optimizers", "trainers", "platform.problems", "platform.workers.ray_worker", "api"]


def test_a_face_loads_nothing_heavy(tmp_path: Path) -> None:
    """Nor does a worker before it knows what to train: of many problems, nothing that needs torch."""
    code = [f"import fmnas.{name}\nassert not [x for x in {HEAVY} if x in sys.modules], {name!r}" for name in MODULES]
    assert find_heavy_imports("\n".join(code), tmp_path) == []


def test_a_problem_of_a_table_evaluates_without_torch(tmp_path: Path) -> None:
    run = """
import numpy as np
from fmnas.platform.problems import problem
from fmnas.search_spaces import Trial
found = problem("nusvr_diabetes")
found.trainer.evaluate(Trial(0, found.space.sample(np.random.default_rng(0)), 1, "random"))
"""
    assert {*find_heavy_imports(run, tmp_path)} <= {"sklearn", "scipy", "pandas"}


def test_an_experiment_on_a_function_loads_what_trains_nowhere(tmp_path: Path) -> None:
    """It needs numbers, tables and pictures: no torch, no Ray, no MLflow."""
    options = ["optimizers=[random]", "hypotheses=all", "initial_design=2", "budget.evaluations=4", "repeats=1"]
    arguments = ["run", "paper/func2c", *(flag for option in options for flag in ("-o", option)), "--out", "run"]
    run = f"from fmnas.platform.cli import main\nassert main({arguments!r}) == 0"
    assert {*find_heavy_imports(run, tmp_path)} <= {"pandas", "scipy", "matplotlib"}


OWN = [
    "seeds=1",
    "fidelity.epochs=1",
    "optimizers=[bo-fm]",
    "initial_design=2",
    "budget.evaluations=3",
    "workers.kind=in-process",
    "tracking.enabled=false",
]
PROBLEM = """
{0}
from fmnas.search_spaces import Real
from fmnas.trainers import objective

@objective([Real("lr", 1e-3, 1.0)])
def step(configuration):
    return (configuration["lr"] - 0.1) ** 2
"""


@pytest.mark.parametrize(("imports", "expected"), [("import torch", ["torch"]), ("", [])])
def test_a_worker_takes_the_first_step_of_torch_where_its_problem_loads_torch(
    imports: str, expected: list[str], tmp_path: Path
) -> None:
    """Then a training imports nothing more, which would be on the clock of the worker's first trial."""
    (tmp_path / "mine.py").write_text(PROBLEM.format(imports))
    run = f"""
from fmnas.platform.workers.ray_worker import build_trainer
from fmnas.trainers.problem import Hardware, ProblemSettings
trainer = build_trainer({str(tmp_path / "mine.py")!r} + ":step", ProblemSettings(), Hardware(), None)
before = set(sys.modules)
if "torch" in before:
    torch = sys.modules["torch"]
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight])
    (weight * weight).sum().backward()
    optimizer.step()
new = [name for name in set(sys.modules) - before if not name.startswith("torch.optim")]
assert not new, new
"""
    assert [name for name in find_heavy_imports(run, tmp_path) if name == "torch"] == expected


def test_a_trainer_in_this_process_does_so_where_its_file_names_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An optimizer has loaded torch, too: tuning a plain function does not wait for it."""
    taken: list[str] = []
    monkeypatch.setattr("fmnas.platform.workers.factory.warm_up_torch", taken.append)
    for name, imports, expected in (("plain", "", []), ("torch", "from torch import nn", ["cpu"])):
        (tmp_path / f"{name}.py").write_text(PROBLEM.format(imports))
        options = [f"problem={tmp_path / name}.py:step", *OWN]
        flags = [flag for option in options for flag in ("-o", option)]
        assert main(["run", "smoke", *flags, "--out", str(tmp_path / name)]) == 0
        assert taken == expected
        assert "torch" in sys.modules
