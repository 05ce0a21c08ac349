"""The script of the first run on a GPU: its parts exist and its arguments are checked."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "gpu_first_run.py"


def test_every_part_has_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    import gpu_checks
    import gpu_first_run
    import gpu_times

    assert {*gpu_checks.PARTS, *gpu_times.PARTS} == set(gpu_first_run.PARTS)
    assert gpu_first_run.share(10.0, ["failure", "captures"]) == pytest.approx(10.0 / 3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "nothing"], "--only"),
        (["--seconds", "1"], "--seconds"),
        (["--data", "/nowhere"], "--data"),
        (["--json", "/nowhere/found.json"], "--json"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], named: str) -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert named in done.stderr
