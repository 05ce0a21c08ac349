"""fmnas check: a line for each rule, whatever the optimizer does, and exit codes 0, 1 and 2."""

import subprocess
import sys
from pathlib import Path

import pytest

from fmnas.platform.check import RULES
from fmnas.platform.cli import main

pytestmark = pytest.mark.slow

LINES = len(RULES)
STARTS = "it can be built asked and told"

MINE = '''
import os
import sys
import time

import numpy as np

from fmnas.optimizers import Optimizer, Suggestion


class Mine(Optimizer):
    def __init__(self, space, *, seed=0, epochs=1, initial_design=(), slow: float = 0.0):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        self.slow = slow

    def _suggest(self, rng):
        print("thinking")
        return Suggestion(self.space.sample(rng), "model")


class HashSeeded(Mine):
    def _suggest(self, rng):
        rng = np.random.default_rng([hash("x") % 2**32, self.seed, self._asked])
        return Suggestion(self.space.sample(rng), "model")


class OutOfBounds(Mine):
    def _suggest(self, rng):
        sample = self.space.sample(rng)
        return Suggestion({**sample, "k": 12} if "k" in sample else sample, "model")


class Hangs(Mine):
    """On results that come in another order, in a space of numbers alone."""

    def _observe(self, trial, evaluation):
        while trial.id != len(self.history) - 1 and not self.space.discrete:
            time.sleep(0.01)


class Leaves(Mine):
    """The process, where a trial is forgotten."""

    def forget(self, trial):
        super().forget(trial)
        os._exit(7)


class Never(Mine):
    def _suggest(self, rng):
        sys.exit("I do not feel like it")


class Sequential(Mine):
    def _suggest(self, rng):
        return None if self.pending else super()._suggest(rng)


class Object:
    def __init__(self, space, seed, start: int = 0):
        self.space, self.rng = space, np.random.default_rng([seed, start])

    def ask(self):
        return self.space.sample(self.rng)

    def tell(self, configuration, objective): ...


class Odd:
    pass
'''


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def check_optimizer(use: str, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, dict[str, str], str]:
    """Exit code; rule -> verdict with what is said of it; the last line. Nothing else is printed."""
    code = main(["check", use, *more])
    printed = capfd.readouterr()
    assert printed.err == ""
    *lines, last = printed.out.splitlines()
    verdicts = {}
    for line in lines:
        verdict, _, rest = line.partition("  ")
        rule, _, detail = rest.strip().partition(": ")
        verdicts[rule] = f"{verdict.strip()} {detail}".strip()
    return code, verdicts, last


def broken(verdicts: dict[str, str]) -> dict[str, str]:
    return {rule: text for rule, text in verdicts.items() if text.startswith("FAILS")}


def test_the_command_runs_in_any_folder(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("fmnas")), "check", "random"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_one_that_keeps_every_rule(mine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, verdicts, last = check_optimizer(f"{mine}:Object", capfd, "-o", "start=3")
    assert (code, len(verdicts), broken(verdicts)) == (0, LINES, {})
    assert {text.split()[0] for text in verdicts.values()} == {"ok"}
    assert f"0 of {LINES} rules broken" in last


def test_a_file_without_a_name_is_answered_with_its_names(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(mine)]) == 2
    message = capsys.readouterr().err
    assert f"{mine}:NAME" in message
    assert "Mine" in message
    assert "Optimizer" not in message, "it is imported there"


@pytest.mark.parametrize(
    ("use", "option", "words"),
    [
        ("random", "foo=1", "foo: unknown"),
        ("{mine}:Mine", "slw=1", "slw: unknown key; did you mean slow?"),
        ("{mine}:Mine", "slow=fast", "slow = 'fast': "),
    ],
)
def test_wrong_options_are_refused(
    use: str, option: str, words: str, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", use.format(mine=mine), "-o", option]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("HashSeeded", {"another process suggests the same": ["continuous", "number 3 is"]}),
        (
            "OutOfBounds",
            {"trials are valid": ["discrete space: k = 12"], "another seed gives other trials": ["discrete space"]},
        ),
        ("Hangs", {"the same seed gives the same trials": ["3 s", "--seconds"]}),
        ("Leaves", {"global random state is untouched": ["code 7"]}),
    ],
)
def test_one_that_breaks_rules(
    mine: Path, name: str, expected: dict[str, list[str]], capfd: pytest.CaptureFixture[str]
) -> None:
    """One that hangs or leaves the process is checked no further."""
    code, verdicts, last = check_optimizer(f"{mine}:{name}", capfd, "--seconds", "3" if name == "Hangs" else "9")
    violations = broken(verdicts)
    assert code == 1
    assert list(verdicts)[-1] in (expected if name in ("Hangs", "Leaves") else [RULES[-1][5:].replace("_", " ")])
    assert last == f"{mine}:{name}: {len(violations)} of {len(verdicts)} rules broken", "nor is :Leaves: an emoji"
    for rule, words in expected.items():
        for word in words:
            assert word in violations[rule]


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("{mine}:Never", [], "SystemExit: I do not feel like it (mine.py, line 51)"),
        ("optuna:GridSampler", [], "'search_space'"),
    ],
)
def test_one_that_cannot_begin_is_not_asked_further(
    mine: Path, use: str, options: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, verdicts, _ = check_optimizer(use.format(mine=mine), capfd, *options)
    assert (code, list(verdicts)) == (1, [STARTS])
    assert verdicts[STARTS].startswith("FAILS")
    assert words in verdicts[STARTS]


def test_one_that_waits_for_each_result_may(mine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, verdicts, _ = check_optimizer(f"{mine}:Sequential", capfd)
    assert (code, broken(verdicts)) == (0, {})
    skipped = {rule for rule, text in verdicts.items() if text.startswith("skipped")}
    assert skipped == {"results may come in any order"}


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("bofm", [], ["optimizer = 'bofm'", "bo-fm"]),
        ("{mine}:Odd", [], ["mine.py:Odd"]),
        ("{mine}:Nothing", [], ["has no Nothing"]),
        ("nowhere:Mine", [], ["nowhere"]),
        ("{mine}:Mine", ["-o", "slow"], ["key=value"]),
    ],
)
def test_what_cannot_be_loaded_is_wrong_input(
    mine: Path, use: str, options: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", use.format(mine=mine), *options]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    for word in words:
        assert word in said.err


@pytest.mark.parametrize("seconds", ["0", "soon", "nan"])
def test_the_limit_is_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", "random", "--seconds", seconds])
    error = capsys.readouterr().err
    assert "--seconds" in error
    assert seconds in error
