"""The script of the first run on a GPU: its arguments are checked, and a check runs on the CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "gpu_first_run.py"


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "nothing"], "--only"),
        (["--seconds", "1"], "--seconds"),
        (["--json", "/nowhere/found.json"], "--json"),
    ],
)
def test_wrong_arguments_are_named(arguments: list[str], named: str) -> None:
    done = call(*arguments)
    assert done.returncode == 2
    assert named in done.stderr


@pytest.mark.slow
def test_a_dry_run_of_the_failed_capture(tmp_path: Path) -> None:
    done = call("--dry", "--only", "failure", "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "found.json").read_text())["parts"]["failure"]["rows"]["the device answers"]["ok"]
