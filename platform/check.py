"""`fmnas check`: the rules of fmnas.testing.OptimizerContract on an optimizer, with a result for each.

pytest runs the rules in a process of their own, because a user's code may hang, crash, exit or print. A rule that hangs
or ends that process is broken, and the last one. Output of the rules is dropped.
"""

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from pydantic import ValidationError

from fmnas.optimizers import Optimizer, OptimizerError, random_design
from fmnas.platform.config.errors import format_errors, format_unknown
from fmnas.platform.config.source import apply_overrides
from fmnas.platform.errors import CheckResult, ConfigError, code_location, legible, one_line
from fmnas.platform.references import absolute_reference, find_names, find_plugins
from fmnas.platform.registry import OPTIMIZERS, OptimizerContext, OptimizerEntry
from fmnas.search_spaces import FmnasError, Space
from fmnas.search_spaces.records import INITIAL, SUGGESTED
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.subject import DESIGN, DESIGN_SEED, EPOCHS

EVALUATIONS = 50
"""The budget that an optimizer is given, if it asks for one."""
STARTUP_SECONDS = 60.0
"""How much longer the first rule may take: its process imports what it needs."""
RULES = [name for name in vars(OptimizerContract) if name.startswith("test_")]
MODULE = "from fmnas.testing import OptimizerContract\n"
"""What pytest collects: a module of the package itself would be imported by a second name."""
PYTEST_OPTIONS = (
    *("-q", "--noconftest", "--import-mode=importlib", "-p", "no:cacheprovider", "-c", os.devnull),
    *("-o", "python_classes=OptimizerContract"),
)


@dataclass(frozen=True)
class Candidate:
    """An optimizer of the registry or a user's, with its options; called, it builds one for a space and a seed."""

    use: str
    options: Mapping[str, Any]

    @property
    def entry(self) -> OptimizerEntry:
        """Raises ConfigError for an unknown name."""
        if self.use in OPTIMIZERS:
            return OPTIMIZERS[self.use]
        use = find_plugins("fmnas.optimizers").get(self.use, self.use)
        if use.endswith(".py"):
            names = ", ".join(find_names(use, type | FunctionType, defined_there=True)) or "none"
            raise ConfigError(f"{use}: name a class or function of it, as {use}:NAME; it has {names}")
        if ":" not in use:
            refusal = format_unknown("optimizer", self.use, list(OPTIMIZERS), "fmnas list optimizers")
            raise ConfigError(f"{refusal} A user-defined optimizer is module:Class or FILE.py:Class")
        return OptimizerEntry(use.rpartition(":")[2], absolute_reference(use), "")

    def __call__(self, space: Space, seed: int) -> Optimizer:
        design = tuple(random_design(space, DESIGN, DESIGN_SEED))
        return self.entry.build(space, OptimizerContext(seed, EPOCHS, EVALUATIONS, False, design), self.options)

    @property
    def subject(self) -> Subject:
        """What the rules are about."""
        takes_design = self.entry.takes_initial_design
        return Subject(self, takes_design, frozenset(SUGGESTED) - (set() if takes_design else {INITIAL}))


def load_candidate(use: str, overrides: Sequence[str]) -> Candidate:
    """The optimizer of a name, with options KEY=VALUE.

    Raises ConfigError for an unknown one, or for options that the registry's optimizer does not take.
    """
    options: dict[str, Any] = {}
    apply_overrides(options, overrides)
    entry = Candidate(use, options).entry
    try:
        entry.validate_options(options)
    except ValidationError as error:
        raise ConfigError("\n".join(format_errors(error, entry.options, options))) from None
    except OptimizerError as error:
        raise ConfigError(f"{use}: {error}") from None
    return Candidate(use, options)


def check(candidate: Candidate, seconds: float) -> Iterator[CheckResult]:
    """A result for each rule, as it comes, up to one that does not end; only the first if it cannot be built.

    seconds: limit of a rule.
    """
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process: SpawnProcess = spawn.Process(target=_run, args=(candidate, sender), daemon=False)
    process.start()
    sender.close()
    limit = seconds + STARTUP_SECONDS
    try:
        for name in RULES:
            rule = name.removeprefix("test_").replace("_", " ")
            result = CheckResult(rule, False, f"took over {seconds:g} s (raise --seconds); later rules were not run")
            if is_timely := receiver.poll(limit):
                result = CheckResult(rule, *receiver.recv())
            yield result
            if not is_timely or (name == RULES[0] and result.passed is False):
                return
            limit = seconds
    except EOFError:
        process.join()
        yield CheckResult(rule, False, f"its process exited with code {process.exitcode}; later rules were not run")
    finally:
        if process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # what the optimizer started, too
        process.kill()
        process.join()


def _run(candidate: Candidate, sender: Connection) -> None:
    """Send whether it passed, and a detail, for each rule, as the leader of a process group that prints nothing."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    run_rules(candidate.subject, lambda result: sender.send((result.passed, result.detail)))


def run_rules(subject: Subject, report: Callable[[CheckResult], None]) -> None:
    """Run every rule in this process. report: called after each, with its name in the contract."""
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "test_rules.py")
        path.write_text(MODULE)
        pytest.main([*PYTEST_OPTIONS, "--rootdir", folder, str(path)], [_Plugin(subject, report)])


class _Plugin:
    """Gives the tests their subject, and reports a rule after the last of its tests."""

    def __init__(self, subject: Subject, report: Callable[[CheckResult], None]) -> None:
        self._subject, self._report, self._results = subject, report, list[CheckResult]()

    @pytest.fixture
    def subject(self) -> Subject:
        return self._subject

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        report = yield
        error = call.excinfo.value if call.excinfo else None
        passed: bool | None
        passed, detail = True, "; ".join(str(value) for _, value in item.user_properties)
        if isinstance(error, pytest.skip.Exception):
            passed, detail = None, str(error)
        elif error is not None:
            passed, detail = False, _describe(error)
            if hasattr(item, "callspec"):
                detail = f"{item.callspec.id} space: {detail}"
        self._results.append(CheckResult(item.originalname, passed, legible(detail)))
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Generator[None, Any, Any]:
        outcome = yield
        if nextitem is None or nextitem.originalname != item.originalname:
            results, self._results = self._results, []
            broken = [result for result in results if result.passed is False]
            noted = [result for result in results if result.detail]
            self._report((broken or noted or results)[0])
        return outcome


def _describe(error: BaseException) -> str:
    is_own = isinstance(error, AssertionError | FmnasError)
    cause = error.__cause__ if is_own else error
    return f"{error if is_own else one_line(error)}{code_location(cause) if cause else ''}"
