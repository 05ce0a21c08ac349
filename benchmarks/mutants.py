"""Mutation tests: harmful one-line changes, each with the tests that must fail because of it.

    python benchmarks/mutants.py --all | --quick | ID ...  [--json FILE]

The changes are in mutants.toml, which says how to add one. The tests named there must pass as the tree is. Then each
change is applied to a copy of the tree, its tests run on the copy, and it is

| verdict | when |
|---|---|
| caught | a test failed, as it should |
| hangs | the tests ran longer than --limit seconds (600); somebody would notice |
| SURVIVED | all tests passed: nobody would notice |
| BROKEN | it does not apply, or the tests did not run with it: fix the entry |

Exit code: 0 when all were caught; 1 when one was not; 2 for an unknown id, or tests that fail without any change.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".toml")
LIBRARY = ("search_spaces", "trainers", "optimizers", "baselines", "integrations")
COPIED = (*LIBRARY, "comparison", "platform", "api", "configs", "testing", "tests", "examples")
LIMIT = 600.0
CAUGHT, HANGS, SURVIVED, BROKEN = "caught", "hangs", "SURVIVED", "BROKEN"
PASSED, FAILED = 0, 1  # what pytest returns; anything else: the tests did not run


@dataclass(frozen=True)
class Mutant:
    """A change: in `file`, `old`, which occurs once, becomes `new`. `tests` catch it; `unseen`: what it would do.

    quick: whether it is one of the few that every run of the tests tries.
    """

    id: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    unseen: str
    quick: bool = False


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant; detail: the first test that failed, or why none could."""

    id: str
    file: str
    verdict: str
    seconds: float
    detail: str


def read_mutants(path: Path = TABLE) -> list[Mutant]:
    """All of the table. Raises ValueError for an entry with missing or unknown keys, or a duplicate id."""
    entries = tomllib.loads(path.read_text())["mutant"]
    try:
        mutants = [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: an entry has missing or unknown keys: {error}") from None
    ids = [mutant.id for mutant in mutants]
    if twice := {name for name in ids if ids.count(name) > 1}:
        raise ValueError(f"{path}: duplicate ids: {', '.join(sorted(twice))}")
    return mutants


def trouble(mutant: Mutant, root: Path = ROOT) -> str:
    """Why the mutant cannot be tried: its text or a test is missing; empty if it can."""
    path = root / mutant.file
    count = path.read_text().count(mutant.old) if path.is_file() else 0
    if count != 1:
        return f"{mutant.file} contains the old text {count} times, expected once; fix the entry in {TABLE.name}"
    try:
        ast.parse(_apply(path.read_text(), mutant))
    except SyntaxError as error:
        return f"with it, {mutant.file} is not valid Python: {error}"
    missing = [test for test in mutant.tests if not _is_there(test, root)]
    if missing or not mutant.tests:
        return f"no such test: {', '.join(missing) or '(none is named)'}; fix the entry in {TABLE.name}"
    return ""


def _apply(text: str, mutant: Mutant) -> str:
    return text.replace(mutant.old, mutant.new)


def _is_there(test: str, root: Path) -> bool:
    """Whether a node id, without the parameters that may stand behind it, is a test function."""
    file, _, name = test.partition("::")
    path = root / file
    if not path.is_file():
        return False
    functions = {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}
    return name.partition("[")[0] in functions


@contextmanager
def copy_tree(root: Path) -> Iterator[Path]:
    """Copy the tree to a temporary directory, next to a directory `link` with a link `fmnas` to it."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        for package in COPIED:
            shutil.copytree(root / package, tree / package, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(root / "pyproject.toml", tree)
        (Path(folder) / "link").mkdir()
        (Path(folder) / "link" / "fmnas").symlink_to(tree, target_is_directory=True)
        yield tree


def run_tests(tree: Path, tests: Iterable[str], limit: float) -> tuple[int | None, str]:
    """(pytest's exit code, or None where it took too long; what it printed) on a copy of the tree."""
    # No bytecode: a changed file of the same size and second would be taken for the previous one.
    environment = os.environ | {"PYTHONPATH": str(tree.parent / "link"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    command = [sys.executable, "-c", _GUARDED, str(tree.parent), "-x", "-p", "no:cacheprovider", "--tb=short", *tests]
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout + done.stderr


_GUARDED = """
import sys, pytest, fmnas.search_spaces
assert fmnas.search_spaces.__file__.startswith(sys.argv[1]), f"{fmnas.search_spaces.__file__} is not of the copy"
sys.exit(pytest.main(sys.argv[2:]))
"""
"""pytest, if the copy is imported; with another fmnas every change would seem to survive."""


def try_mutant(mutant: Mutant, limit: float = LIMIT, root: Path = ROOT) -> Verdict:
    """The mutant applied to a copy, and its tests run there."""
    start = time.monotonic()

    def verdict(what: str, detail: str) -> Verdict:
        return Verdict(mutant.id, mutant.file, what, round(time.monotonic() - start, 1), detail)

    if why := trouble(mutant, root):
        return verdict(BROKEN, why)
    with copy_tree(root) as tree:
        path = tree / mutant.file
        path.write_text(_apply(path.read_text(), mutant))
        code, printed = run_tests(tree, mutant.tests, limit)
    if code is None:
        return verdict(HANGS, f"longer than {limit:.0f} s")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", printed, flags=re.MULTILINE)
    if code == FAILED and failed:  # where Python itself gives up, it returns the same
        return verdict(CAUGHT, failed[1])
    if code == PASSED:
        return verdict(SURVIVED, f"unseen, {mutant.unseen}")
    return verdict(BROKEN, f"the tests did not run ({code}): {_last_line(printed)}")


def pass_unchanged(mutants: Sequence[Mutant], limit: float = LIMIT, root: Path = ROOT) -> str:
    """What pytest printed where the tests of these mutants do not pass as the tree is; empty if they do."""
    tests = dict.fromkeys(test for mutant in mutants if not trouble(mutant, root) for test in mutant.tests)
    if not tests:
        return ""
    with copy_tree(root) as tree:
        code, printed = run_tests(tree, tests, limit * len(mutants))
    return "" if code == PASSED else printed or "they took too long"


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "it printed nothing")


def select_mutants(mutants: Sequence[Mutant], arguments: argparse.Namespace) -> list[Mutant]:
    """Those that the command line asks for, in the order of the table. Raises ValueError for an unknown id."""
    if unknown := set(arguments.ids) - {mutant.id for mutant in mutants}:
        raise ValueError(f"no such mutant: {', '.join(sorted(unknown))}; {TABLE.name} has them")
    return [m for m in mutants if arguments.all or (arguments.quick and m.quick) or m.id in arguments.ids]


def main(argv: Sequence[str] | None = None) -> int:
    """Try them and print a table; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true", help="the few that every run of the tests tries")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for the tests of one mutant")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(argv)
    try:
        mutants = select_mutants(read_mutants(), arguments)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if not mutants:
        parser.error("give ids, --all or --quick")
    if printed := pass_unchanged(mutants, arguments.limit):
        print(f"{printed}\nThese tests must pass as the tree is, before a change can be seen.", file=sys.stderr)
        return 2
    verdicts = []
    for mutant in mutants:
        verdicts.append(try_mutant(mutant, arguments.limit))
        result = verdicts[-1]
        print(
            f"{result.verdict:<9} {result.seconds:>6.1f} s  {result.id:<36} {result.file:<36} {result.detail}",
            flush=True,
        )
    caught = sum(verdict.verdict in (CAUGHT, HANGS) for verdict in verdicts)
    print(f"{caught} of {len(verdicts)} caught")
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=2))
    return 0 if caught == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
