"""The mutation check: every entry of its table can be tried, and the quick ones are caught."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).resolve().parent.parent / "benchmarks" / "mutants.py"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(SCRIPT.parent))
    import mutants

ALL: list[Any] = mutants.read_mutants()
QUICK = [mutant for mutant in ALL if mutant.quick]


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_every_change_applies_once_and_its_tests_exist(mutant: Any) -> None:
    assert mutants.trouble(mutant) == ""
    assert mutant.old != mutant.new
    assert mutant.unseen


@pytest.mark.parametrize(
    "change",
    [{"old": "no such text"}, {"file": "platform/nothing.py"}, {"old": "e"}, {"new": "("}, {"tests": ("a::b",)}],
)
def test_an_entry_that_cannot_be_tried_has_a_reason(change: dict[str, Any]) -> None:
    assert mutants.trouble(replace(ALL[0], **change))


def test_the_quick_ones_are_caught() -> None:
    """And the tree is unchanged. For the rest: make mutants."""
    assert 2 <= len(QUICK) <= 3
    done = subprocess.run([sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("caught ") >= len(QUICK)


def test_a_harmless_change_survives_and_one_that_breaks_the_tests_is_broken() -> None:
    harmless = replace(QUICK[0], new=f"{QUICK[0].old.rstrip()} ")
    assert mutants.try_mutant(harmless).verdict == "SURVIVED"
    old, new = "from dataclasses import", "from no_such_module import"
    breaking = replace(QUICK[0], file="search_spaces/nasnet.py", old=old, new=new)
    assert mutants.trouble(breaking) == ""
    assert mutants.try_mutant(breaking).verdict == "BROKEN"
