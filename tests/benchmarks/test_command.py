"""Benchmarks that read what does not exist end with a message."""

import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(
    "command",
    [
        "convergence.py --data MISSING",
        "expected_objective.py MISSING",
        "fidelity.py MISSING",
        "mivabo_features.py take MISSING",
        "model_quality.py table MISSING",
        "paper_claim.py MISSING MISSING",
        "paper_tables.py take MISSING",
        "power.py MISSING",
        "racing.py MISSING",
        "simulated_workers.py MISSING",
        "suggestion.py --data MISSING",
        "suite.py table MISSING",
        "surrogate.py validate MISSING",
        "surrogate_distance.py MISSING",
        "verdicts.py MISSING MISSING --epochs 3",
    ],
)
def test_a_missing_file_ends_a_benchmark_with_a_message(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = tmp_path / "missing"
    script, *arguments = command.replace("MISSING", str(missing)).split()
    monkeypatch.setattr(sys, "argv", [script, *arguments])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(BENCHMARKS / script), run_name="__main__")
    assert str(missing) in str(ended.value.code)
