"""The examples run and find what they look for."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "integrations.md").read_text(), flags=re.DOTALL)


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)


def value_of(example: str) -> float:
    """The value that an example prints at the beginning of its last line."""
    done = python(str(ROOT / "examples" / example))
    assert done.returncode == 0, done.stderr
    return float(re.match(r"-?[\d.]+", done.stdout.splitlines()[-1])[0])


def test_an_optuna_study_comes_near_the_least_value() -> None:
    assert 0.0 <= value_of("optuna_study.py") < 0.05


def test_a_loop_of_botorch_comes_near_the_largest_value() -> None:
    assert -0.02 < value_of("botorch_loop.py") <= 0.0


def test_a_run_of_ray_tune_comes_near_the_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    assert 0.0 <= value_of("ray_tune.py") < 0.3


def test_what_the_page_shows_runs() -> None:
    assert len(BLOCKS) == 3
    assert python("-c", "\n".join(BLOCKS)).returncode == 0
