"""Whether an optimizer keeps the contract: the rules of fmnas.optimizers.contract, each with a verdict.

The rules run in a process of their own, since a stranger's code may hang, crash, leave or print. Its verdicts are
awaited one by one; after one that does not come the process is ended, and another one begins with the next rule. What
is printed meanwhile is dropped.
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fmnas.optimizers import OptimizerError, random_design
from fmnas.optimizers.contract import BrokenRuleError, Rule, Subject
from fmnas.optimizers.contract.checks import Suggested, suggested_everywhere
from fmnas.optimizers.contract.play import DESIGN, DESIGN_SEED, EPOCHS, SPACES, ask, played
from fmnas.optimizers.contract.rules import rules
from fmnas.platform.config.errors import format_errors, format_unknown
from fmnas.platform.config.source import apply_override
from fmnas.platform.errors import ConfigError, legible, one_line, own_line
from fmnas.platform.registry import OPTIMIZERS, OptimizerContext, OptimizerEntry, absolute_reference
from fmnas.search_spaces import FmnasError, Space
from fmnas.search_spaces.records import INITIAL, SUGGESTED

STARTS = "it can be built, asked and told"
EVALUATIONS = 50
"""The budget that it is told of, if it asks for that."""
STARTUP_SECONDS = 60.0


class Verdict(StrEnum):
    """Of a rule: it holds, it is broken, it was not gone into."""

    HOLDS = "ok"
    BROKEN = "FAILS"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """What came of one rule. detail: why it is broken, or what is worth knowing; may be empty."""

    rule: str
    verdict: Verdict
    detail: str = ""


@dataclass(frozen=True)
class Candidate:
    """An optimizer as one names it, of the registry or one's own, with options for it."""

    use: str
    options: Mapping[str, Any]

    @property
    def row(self) -> OptimizerEntry:
        """Raises ConfigError for a name that is neither."""
        if self.use in OPTIMIZERS:
            return OPTIMIZERS[self.use]
        if ":" not in self.use:
            refused = format_unknown("optimizer", self.use, list(OPTIMIZERS), "fmnas list optimizers")
            raise ConfigError(f"{refused} One of your own is named module:Class or FILE.py:Class")
        return OptimizerEntry(self.use.rpartition(":")[2], absolute_reference(self.use), "")

    def subject(self) -> Subject:
        """What the rules take."""
        row = self.row

        def build(space: Space, seed: int) -> Any:
            design = tuple(random_design(space, DESIGN, DESIGN_SEED))
            return row.build(space, OptimizerContext(seed, EPOCHS, EVALUATIONS, False, design), self.options)

        origins = frozenset(SUGGESTED) - (set() if row.takes_initial_design else {INITIAL})
        return Subject(build, row.takes_initial_design, origins)


def candidate(use: str, overrides: Sequence[str]) -> Candidate:
    """The optimizer of that name, with options KEY=VALUE. Raises ConfigError for one that cannot be, or has others."""
    options: dict[str, Any] = {}
    for each in overrides:
        apply_override(options, each)
    found = Candidate(use, options)
    row = found.row
    if options and not row.options.model_fields:
        raise ConfigError(f"{', '.join(options)}: {use} takes no options; leave -o out")
    try:
        row.validate_options(options)
    except ValidationError as error:
        raise ConfigError("\n".join(format_errors(error, row.options, options))) from None
    except (OptimizerError, TypeError) as error:
        raise ConfigError(f"{use}: {error}") from None
    return found


def check(it: Candidate, seconds: float) -> Iterator[Finding]:
    """A finding for each rule, as it comes. seconds: what a rule may take."""
    waiting = [STARTS, *rules(dict)]
    while waiting:
        for finding in _in_a_process(it, tuple(waiting), seconds):
            yield finding
            waiting.remove(finding.rule)
            if finding.rule == STARTS and finding.verdict is Verdict.BROKEN:
                return


def _in_a_process(it: Candidate, names: Sequence[str], seconds: float) -> Iterator[Finding]:
    """What a process finds that goes through these rules, up to one of which nothing comes."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process: SpawnProcess = spawn.Process(target=_go_through, args=(it, names, theirs), daemon=False)
    process.start()
    theirs.close()
    waiting = list(names)
    with _ended_after(process):
        why = f"its process did not begin within {STARTUP_SECONDS:g} s: is this machine or its disk busy? Try again"
        try:
            if ours.poll(STARTUP_SECONDS):
                ours.recv()
                why = f"it took more than {seconds:g} s: it hangs, or needs longer (--seconds)"
                while waiting and ours.poll(seconds):
                    yield ours.recv()
                    del waiting[0]
        except EOFError:
            process.join()
            why = f"its process ended in the middle, with exit code {process.exitcode}"
        if waiting:
            yield Finding(waiting[0], Verdict.BROKEN, why)


@contextmanager
def _ended_after(process: SpawnProcess) -> Iterator[None]:
    """It ends with the block, and whatever it started."""
    try:
        yield
    finally:
        if process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()


def _go_through(it: Candidate, names: Sequence[str], connection: Connection) -> None:
    """Send a finding for each of the rules. Runs in a process of its own, and leads a group of what that starts."""
    os.setsid()
    _hush()
    connection.send(None)  # what a rule may take does not count what comes before
    subject, all_rules = it.subject(), rules(lambda: _told_by_another(it))
    if names[0] == STARTS:
        connection.send(_examined(Rule(STARTS, _started), subject))
    with suppress(Exception):  # it was said of STARTS
        subject = replace(subject, parallel=_suggests_while_pending(subject))
    for name in names:
        if name != STARTS:
            connection.send(_examined(all_rules[name], subject))


def _examined(rule: Rule, subject: Subject) -> Finding:
    if rule.parallel and not subject.parallel:
        return Finding(rule.name, Verdict.SKIPPED, "it waits for each result before it suggests something new")
    try:
        return Finding(rule.name, Verdict.HOLDS, legible(rule.examine(subject)))
    except (BrokenRuleError, FmnasError) as error:
        line = own_line(error.__cause__) if error.__cause__ else ""
        return Finding(rule.name, Verdict.BROKEN, f"{legible(str(error))}{line}")
    except BaseException as error:  # it may even leave
        return Finding(rule.name, Verdict.BROKEN, f"{one_line(error)}{own_line(error)}")


def _started(subject: Subject) -> str:
    played(subject.build(SPACES["continuous"], 0), DESIGN + 2)
    return ""


def _suggests_while_pending(subject: Subject) -> bool:
    """Whether, after the initial design, there is a second suggestion before the first has its result."""
    optimizer = subject.build(SPACES["continuous"], 0)
    played(optimizer, DESIGN + 1)
    ask(optimizer)
    return optimizer.ask() is not None


def _told_by_another(it: Candidate) -> Suggested:
    """What a fresh interpreter with other hashes suggests. Raises BrokenRuleError if it comes to a bad end."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "suggested.json"
        code = "import sys; from fmnas.platform.check import write_suggested; write_suggested(*sys.argv[1:])"
        command = [sys.executable, "-c", code, json.dumps(asdict(it)), str(path)]
        done = subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": "4711"}, check=False)
        if done.returncode or not path.exists():
            raise BrokenRuleError(f"another process ended with exit code {done.returncode}")
        return json.loads(path.read_text())


def write_suggested(it: str, path: str) -> None:
    """Write what an optimizer, given in JSON, suggests everywhere."""
    suggested = suggested_everywhere(Candidate(**json.loads(it)).subject())
    Path(path).write_text(json.dumps(suggested))


def _hush() -> None:
    """This process prints no more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)
