"""The examples run and find what they look for."""

import re
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "integrations.md").read_text(), flags=re.DOTALL)


EXPORTED = "studies.db"


def python(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, cwd=cwd)


def value_of(example: str) -> float:
    """The value that an example prints at the beginning of its last line."""
    done = python(str(ROOT / "examples" / example))
    assert done.returncode == 0, done.stderr
    return float(re.match(r"-?[\d.]+", done.stdout.splitlines()[-1])[0])


def test_an_optuna_study_comes_near_the_least_value() -> None:
    assert 0.0 <= value_of("optuna_study.py") < 0.05


def test_an_optuna_study_on_the_surrogate_is_better_than_a_typical_configuration() -> None:
    assert 0.2 < value_of("optuna_joint.py") < 0.35


def test_a_loop_of_botorch_comes_near_the_largest_value() -> None:
    assert -0.02 < value_of("botorch_loop.py") <= 0.0


def test_a_run_of_ray_tune_comes_near_the_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    assert 0.0 <= value_of("ray_tune.py") < 0.3


def test_what_the_page_shows_runs() -> None:
    shown = [block for block in BLOCKS if EXPORTED not in block]
    assert len(shown) == 3
    assert python("-c", "\n".join(shown)).returncode == 0


def test_importances_of_an_exported_study(tmp_path: Path) -> None:
    (block,) = (block for block in BLOCKS if EXPORTED in block)
    study = optuna.create_study(study_name="func3c/random/repeat-0", storage=f"sqlite:///{tmp_path / EXPORTED}")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1) + 0.1 * trial.suggest_float("y", 0, 1), n_trials=20)
    done = python("-c", block, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
