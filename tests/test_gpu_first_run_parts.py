"""The parts of the first run on a GPU: each has a share of the time, and what hangs, dies or breaks stops no other."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def first() -> Iterator[ModuleType]:
    """The script as a module; benchmarks/ is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        import gpu_first_run

        yield gpu_first_run


def command(code: str) -> list[str]:
    return [sys.executable, "-c", f"import json, os, subprocess, sys, time\n{code}"]


def test_shares_of_the_time_use_all_of_it(first: ModuleType) -> None:
    left, coming = 400.0, list(first.PARTS)
    while coming:
        left -= first.share(left, coming)
        coming.pop(0)
    assert left == pytest.approx(0.0)
    assert first.share(540.0, tuple(first.PARTS)) == first.PARTS["machine"]


def test_a_part_that_hangs_is_ended_with_all_that_it_started_and_its_rows_stay(first: ModuleType) -> None:
    rows: list[dict[str, Any]] = []
    hanging = """
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(json.dumps({"part": "p", "row": "r", "found": {"pid": child.pid}}), flush=True)
print("here it hangs", file=sys.stderr, flush=True)
time.sleep(600)
"""
    code, trouble = first.watched(command(hanging), 4.0, rows.append, dict(os.environ))
    assert code != 0
    assert trouble == "it had to be ended after 4 s; it said: here it hangs"
    assert [row["row"] for row in rows] == ["r"]
    assert ended(rows[0]["found"]["pid"])


def ended(pid: int) -> bool:
    """Whether the process is gone, or waits to be collected, within some seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_part_that_dies_says_with_what_code(first: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = []
    dying = 'print("only words"); print(json.dumps([1])); sys.stdout.flush(); os._exit(7)'
    assert first.watched(command(dying), 30.0, rows.append, dict(os.environ)) == (7, "it ended with code 7")
    assert rows == []
    assert capsys.readouterr().out == "only words\n[1]\n"
    assert first.watched(command("pass"), 30.0, rows.append, dict(os.environ)) == (0, "")


def test_one_part_that_breaks_lets_the_others_go_on(
    first: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And each has a process and a share of its own."""
    calls: list[tuple[list[str], float]] = []

    def watched(command: list[str], seconds: float, take: Callable[[Any], None], environment: Any) -> tuple[int, str]:
        name = command[-1]
        calls.append((command, seconds))
        take({"part": name, "row": "a", "found": {"ok": name != "equality"}})
        return (9, "it ended with code 9") if name == "machine" else (0, "")

    monkeypatch.setattr(first, "watched", watched)
    file = tmp_path / "found.json"
    options = argparse.Namespace(only=None, dry=False, data=None, json=file, seconds=540.0)
    assert first.supervise(options) == 1
    assert [command[-2:] for command, _ in calls] == [["--part", name] for name in first.PARTS]
    assert calls[0][1] == pytest.approx(first.PARTS["machine"], abs=1.0)
    found = json.loads(file.read_text())
    assert found["parts"]["machine"]["trouble"] == "it ended with code 9"
    assert found["parts"]["shared"]["rows"] == {"a": {"ok": True}}
    assert not [path for path in tmp_path.iterdir() if path != file]


def test_what_is_wrong_is_listed_and_on_disk_at_once(first: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    findings = first.Findings(file, {})
    rows = {"good": {"ok": True}, "bad": {"ok": False}, "broken": {"error": "x"}, "time": {"us": 1.0}}
    for number, (name, found) in enumerate(rows.items(), start=1):
        findings.take({"part": "p", "row": name, "found": found})
        assert len(json.loads(file.read_text())["parts"]["p"]["rows"]) == number
    findings.take({"part": "p", "left_out": ["later"]})
    findings.close(["q"], 1.0, "it hung")
    assert findings.wrong() == ["p, bad", "p, broken", "q"]
    assert json.loads(file.read_text())["parts"]["p"]["left_out"] == ["later"]
