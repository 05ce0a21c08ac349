"""Run the contract's rules on a subject in a pytest session, with a callback for the result of each."""

import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fmnas.testing.optimizers import OptimizerContract
from fmnas.testing.subject import Subject

MODULE = """from fmnas.testing import OptimizerContract


class TestSubject(OptimizerContract): ...
"""
OPTIONS = ("-q", "--noconftest", "--import-mode=importlib", "-p", "no:cacheprovider", "-c", os.devnull)


@dataclass(frozen=True)
class RuleResult:
    """The result of a rule. case: the first space on which it is broken. note: for the author, or why it is skipped."""

    rule: str
    error: BaseException | None = None
    case: str = ""
    is_skipped: bool = False
    note: str = ""


class _Plugin:
    """Gives the tests their subject, and reports a rule after the last of its tests."""

    def __init__(self, subject: Subject, report: Callable[[RuleResult], None]) -> None:
        self._subject, self._report, self._results = subject, report, list[RuleResult]()

    @pytest.fixture
    def subject(self) -> Subject:
        return self._subject

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        report = yield
        error = call.excinfo.value if call.excinfo else None
        is_skipped = isinstance(error, pytest.skip.Exception)
        note = str(error) if is_skipped else "; ".join(str(value) for _, value in item.user_properties)
        case = item.callspec.id if hasattr(item, "callspec") else ""
        self._results.append(RuleResult(item.originalname, None if is_skipped else error, case, is_skipped, note))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Generator[None, Any, Any]:
        outcome = yield
        if nextitem is None or nextitem.originalname != item.originalname:
            results, self._results = self._results, []
            broken = [result for result in results if result.error is not None]
            noted = [result for result in results if result.is_skipped or result.note]
            self._report((broken or noted or results)[0])
        return outcome


def get_rules() -> list[str]:
    """The names of the contract's tests, in their order."""
    return [name for name in vars(OptimizerContract) if name.startswith("test_")]


def run_rules(subject: Subject, rules: Sequence[str], report: Callable[[RuleResult], None]) -> None:
    """Run rules in this process. report: called after each."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test_subject.py")
        path.write_text(MODULE)
        names = [f"{path}::TestSubject::{rule}" for rule in rules]
        pytest.main([*OPTIONS, "--rootdir", folder, "--basetemp", f"{folder}/tmp", *names], [_Plugin(subject, report)])
