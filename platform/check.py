"""`fmnas check`: the rules of fmnas.testing.OptimizerContract on an optimizer, with a verdict for each.

The rules run in a process of their own, because a user's code may hang, crash, exit or print. After a rule without a
verdict the process is killed, and a new one begins with the next rule. Output of the rules is dropped.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from pydantic import ValidationError

from fmnas.optimizers import Optimizer, OptimizerError, random_design
from fmnas.platform.config.errors import format_errors, format_unknown
from fmnas.platform.config.source import apply_override
from fmnas.platform.errors import ConfigError, legible, one_line, own_line
from fmnas.platform.registry import (
    OPTIMIZERS,
    OptimizerContext,
    OptimizerEntry,
    absolute_reference,
    find_plugins,
)
from fmnas.search_spaces import FmnasError, Space
from fmnas.search_spaces.records import INITIAL, SUGGESTED

EVALUATIONS = 50
"""The budget that an optimizer is given, if it asks for one."""
STARTUP_SECONDS = 60.0


class Verdict(StrEnum):
    """Whether a rule holds, is broken or was skipped."""

    HOLDS = "ok"
    BROKEN = "FAILS"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Finding:
    """The verdict of a rule. detail: why it is broken or skipped, or a note; may be empty."""

    rule: str
    verdict: Verdict
    detail: str = ""


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
        if ":" not in use:
            refusal = format_unknown("optimizer", self.use, list(OPTIMIZERS), "fmnas list optimizers")
            raise ConfigError(f"{refusal} A user-defined optimizer is module:Class or FILE.py:Class")
        return OptimizerEntry(use.rpartition(":")[2], absolute_reference(use), "")

    def __call__(self, space: Space, seed: int) -> Optimizer:
        from fmnas.testing.subject import DESIGN, DESIGN_SEED, EPOCHS

        design = tuple(random_design(space, DESIGN, DESIGN_SEED))
        return self.entry.build(space, OptimizerContext(seed, EPOCHS, EVALUATIONS, False, design), self.options)


def load_candidate(use: str, overrides: Sequence[str]) -> Candidate:
    """The optimizer of a name, with options KEY=VALUE. Raises ConfigError for an unknown one, or wrong options."""
    options: dict[str, Any] = {}
    for override in overrides:
        apply_override(options, override)
    entry = Candidate(use, options).entry
    if options and not entry.options.model_fields:
        raise ConfigError(f"{', '.join(options)}: {use} takes no options; leave -o out")
    try:
        entry.validate_options(options)
    except ValidationError as error:
        raise ConfigError("\n".join(format_errors(error, entry.options, options))) from None
    except OptimizerError as error:
        raise ConfigError(f"{use}: {error}") from None
    return Candidate(use, options)


def check(candidate: Candidate, seconds: float) -> Iterator[Finding]:
    """A finding for each rule, as it comes; only the first if it cannot be built. seconds: limit of a rule."""
    from fmnas.testing.session import get_rules

    rules = get_rules()
    first, done = rules[0], 0
    while done < len(rules):
        for finding in _check_in_process(candidate, rules[done:], seconds):
            yield Finding(finding.rule.removeprefix("test_").replace("_", " "), finding.verdict, finding.detail)
            done += 1
            if finding.rule == first and finding.verdict is Verdict.BROKEN:
                return


def _check_in_process(candidate: Candidate, rules: Sequence[str], seconds: float) -> Iterator[Finding]:
    """The findings of a new process, up to the first rule without a verdict."""
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe(duplex=False)
    process: SpawnProcess = spawn.Process(target=_run, args=(candidate, rules, sender), daemon=False)
    process.start()
    sender.close()
    done = 0
    reason = f"its process did not start within {STARTUP_SECONDS:g} s: try again"
    try:
        if receiver.poll(STARTUP_SECONDS):
            receiver.recv()
            reason = f"timed out after {seconds:g} s (raise --seconds)"
            while done < len(rules) and receiver.poll(seconds):
                yield receiver.recv()
                done += 1
    except EOFError:
        process.join()
        reason = f"its process exited with code {process.exitcode}"
    finally:
        if process.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
    if done < len(rules):
        yield Finding(rules[done], Verdict.BROKEN, reason)


def _run(candidate: Candidate, rules: Sequence[str], sender: Connection) -> None:
    """Send a finding for each rule, as the leader of a process group that prints nothing."""
    from fmnas.testing import Subject
    from fmnas.testing.session import RuleResult, run_rules

    os.setsid()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    takes_design = candidate.entry.takes_initial_design
    subject = Subject(candidate, takes_design, frozenset(SUGGESTED) - (set() if takes_design else {INITIAL}))

    def report(result: RuleResult) -> None:
        verdict = Verdict.BROKEN if result.error else Verdict.SKIPPED if result.is_skipped else Verdict.HOLDS
        sender.send(Finding(result.rule, verdict, _describe(result.error, result.case) or legible(result.note)))

    sender.send(None)  # the limit of a rule does not count the imports
    run_rules(subject, rules, report)


def _describe(error: BaseException | None, case: str) -> str:
    if error is None:
        return ""
    is_own = isinstance(error, AssertionError | FmnasError)
    cause = error.__cause__ if is_own else error
    text = f"{legible(str(error)) if is_own else one_line(error)}{own_line(cause) if cause else ''}"
    return f"{case} space: {text}" if case else text
