"""The examples run and find what they look for."""

import re
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "integrations.md").read_text(), flags=re.DOTALL)


EXPORTED = "studies.db"


def first_number(text: str) -> float:
    """The number at the beginning of the last line."""
    return float(re.match(r"-?[\d.]+", text.splitlines()[-1])[0])


def export_study(label: str, function: Callable[[float, float], float], seed: int, trials: int, storage: str) -> None:
    """Write a study of random trials to a database."""
    memory = optuna.storages.InMemoryStorage()
    study = optuna.create_study(study_name=label, storage=memory, sampler=optuna.samplers.RandomSampler(seed=seed))
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, function(trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)))
    optuna.copy_study(from_study_name=label, from_storage=memory, to_storage=storage)


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """Runs an example in this process, and returns what it prints."""

    def run(example: str, *arguments: str) -> str:
        monkeypatch.setattr("sys.argv", [example, *arguments])
        runpy.run_path(str(ROOT / "examples" / example), run_name="__main__")
        return capsys.readouterr().out

    verbosity = optuna.logging.get_verbosity()
    yield run
    optuna.logging.set_verbosity(verbosity)


def test_an_optuna_study_comes_near_the_least_value(run_here: Callable[..., str]) -> None:
    assert 0.0 <= first_number(run_here("optuna_study.py")) < 0.05


def test_an_optuna_study_on_the_surrogate_is_better_than_a_typical_configuration(run_here: Callable[..., str]) -> None:
    assert 0.2 < first_number(run_here("optuna_joint.py")) < 0.35


def test_a_loop_of_botorch_comes_near_the_largest_value(run_here: Callable[..., str]) -> None:
    assert -0.02 < first_number(run_here("botorch_loop.py")) <= 0.0


def test_a_run_of_ray_tune_comes_near_the_least_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    command = [sys.executable, str(ROOT / "examples" / "ray_tune.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0.0 <= first_number(done.stdout) < 0.3


def test_what_the_page_shows_runs() -> None:
    shown = [block for block in BLOCKS if EXPORTED not in block]
    assert len(shown) == 3
    exec("\n".join(shown), {"__name__": "page"})


def test_importances_of_an_exported_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = (block for block in BLOCKS if EXPORTED in block)
    export_study("func3c/random/repeat-0", lambda x, y: x + 0.1 * y, 0, 20, f"sqlite:///{tmp_path / EXPORTED}")
    monkeypatch.chdir(tmp_path)
    exec(block, {"__name__": "page"})


def test_shares_of_the_variance_tell_main_effects_from_interactions(
    tmp_path: Path, run_here: Callable[..., str]
) -> None:
    storage = f"sqlite:///{tmp_path / EXPORTED}"
    functions = {"sum": lambda x, y: x + 0.2 * y, "product": lambda x, y: (x - 0.5) * (y - 0.5)}
    for name, function in functions.items():
        for repeat in range(2):
            export_study(f"{name}/random/repeat-{repeat}", function, repeat, 60, storage)
    shares = {}
    for name in functions:
        shown = run_here("importance.py", storage, f"{name}/random")
        rows = re.findall(r"^(\S+).*? (\d\.\d\d)   (\S+) to (\S+)$", shown, flags=re.MULTILINE)
        shares[name] = {row[0]: float(row[1]) for row in rows}
        assert all(float(low) <= float(mean) <= float(high) for _, mean, low, high in rows)
        assert sum(shares[name].values()) == pytest.approx(1, abs=0.02)
    assert shares["sum"]["x"] > 0.85
    assert shares["product"]["interactions"] > 0.5
    with pytest.raises(SystemExit, match="sum/random/repeat-0"):
        run_here("importance.py", storage, "absent/random")
