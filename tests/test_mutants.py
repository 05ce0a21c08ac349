"""The mutation check: every entry of its table can be tried, and the quick ones are."""

import subprocess
import sys
from dataclasses import replace
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "mutants.py"


def loaded() -> ModuleType:
    """benchmarks/ is no package."""
    spec = spec_from_file_location("mutants", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


MUTANTS = loaded()
ALL: list[Any] = MUTANTS.read_mutants()


@pytest.mark.parametrize("mutant", ALL, ids=lambda mutant: mutant.id)
def test_every_change_applies_once_and_its_tests_exist(mutant: Any) -> None:
    assert MUTANTS.trouble(mutant) == ""
    assert mutant.old != mutant.new
    assert mutant.unseen


def test_what_cannot_be_tried_is_named() -> None:
    (one, *_), named = ALL, "tests/test_mutants.py::test_of_nothing"
    assert "0 times" in MUTANTS.trouble(replace(one, old="no such text"))
    assert "0 times" in MUTANTS.trouble(replace(one, file="platform/nothing.py"))
    assert "times; it must be there once" in MUTANTS.trouble(replace(one, old="e"))
    assert "no Python" in MUTANTS.trouble(replace(one, new="log_objective=("))
    assert f"no such test: {named}" in MUTANTS.trouble(replace(one, tests=(named,)))
    assert "none is named" in MUTANTS.trouble(replace(one, tests=()))


def test_the_quick_ones_are_caught() -> None:
    """With the true tree unharmed; the rest: make mutants."""
    quick = [mutant.id for mutant in ALL if mutant.quick]
    assert 3 <= len(quick) <= 4
    done = subprocess.run([sys.executable, str(SCRIPT), "--quick"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["caught"] * len(quick)
    assert lines[-1] == f"{len(quick)} of {len(quick)} caught"


def test_a_change_that_harms_nothing_survives_and_is_told() -> None:
    """The check can fail: a change that its test does not see."""
    (one, *_) = (mutant for mutant in ALL if mutant.quick)
    harmless = replace(one, new=f"{one.old.rstrip()} ", old=one.old)
    verdict = MUTANTS.tried(harmless)
    assert verdict.verdict == "SURVIVED"
    assert one.unseen in verdict.detail


def test_tests_that_do_not_run_are_not_taken_for_caught() -> None:
    (one, *_) = (mutant for mutant in ALL if mutant.quick)
    broken = replace(one, file="search_spaces/sgd.py", old="from dataclasses import", new="from no_such_module import")
    assert MUTANTS.tried(broken).verdict == "BROKEN"


def test_an_unknown_id_is_an_error_that_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert MUTANTS.main(["no-such-change"]) == 2
    assert "no such mutant: no-such-change" in capsys.readouterr().err
