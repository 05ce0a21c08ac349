"""`fmnas verify`: whether an archive of `fmnas pack` is whole, and its tables are those of its journal.

An archive may be a stranger's. Its names must be those that `fmnas pack` writes, at most LARGEST bytes are unpacked,
into a temporary folder, and nothing that it names is imported, unless it is replayed.
"""

import math
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

import pandas as pd
import yaml

from fmnas.platform.environment import package_version
from fmnas.platform.errors import CheckResult, RunDirectoryError, legible, one_line, truncate
from fmnas.platform.experiment.provenance import read_environment
from fmnas.platform.experiment.replay import replay_directory
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.packing import SPACE, SUMS, derived_files, format_sums
from fmnas.search_spaces import FmnasError

NAMES = re.compile(
    r"config\.yaml|journal\.jsonl|(environment|problem|space)\.json|(trials|retrained|report/[a-z_]{1,40})\.csv|" + SUMS
)
NEEDED = ("config.yaml", "journal.jsonl", SPACE, "trials.csv", SUMS)
LARGEST = 2**30
"""Bytes of all files of an archive, unpacked."""
ROUNDING = 1e-9
"""Relative difference of two numbers that other versions of numpy may sum in another order."""


@dataclass(frozen=True)
class Unpacked:
    """An archive: name -> content of its files, and the run directory that they were written to."""

    files: Mapping[str, bytes]
    directory: RunDirectory

    @cached_property
    def state(self) -> ExperimentState:
        """What the journal adds up to. Raises FmnasError for one that is damaged."""
        return read_state(self.directory)


def verify_pack(path: Path, replay: bool, notify: Callable[[str], None]) -> Iterator[CheckResult]:
    """Check an archive, yielding each result at once. The checks after the journal need one that can be read.

    replay: whether to ask the optimizers again, which imports the code that the archive names. notify: receives a line
    about that. Raises RunDirectoryError if the file is refused: it is not an archive of `fmnas pack`.
    """
    checks: dict[str, Callable[[Unpacked], str]] = {
        "hashes": _check_hashes,
        "journal": _check_journal,
        "tables": _check_tables,
        **({"replay": lambda unpacked: _check_replay(unpacked, notify)} if replay else {}),
    }
    files = read_pack(path)
    with tempfile.TemporaryDirectory(prefix="fmnas-") as folder:
        for name, content in files.items():
            (place := Path(folder, name)).parent.mkdir(exist_ok=True)
            place.write_bytes(content)
        unpacked = Unpacked(files, RunDirectory(Path(folder)))
        for name, check in checks.items():
            yield (result := _run_check(name, check, unpacked))
            if name == "journal" and not result.passed:
                return


def read_pack(path: Path) -> dict[str, bytes]:
    """Name -> content of the files of an archive.

    Raises RunDirectoryError unless it is a zip archive of plain files with the names that `fmnas pack` writes, of at
    most LARGEST bytes.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if refusal := next(_refusals(entries), ""):
                raise RunDirectoryError(f"{path} is not read, as {refusal}: get the archive that `fmnas pack` wrote")
            return {entry.filename: archive.read(entry) for entry in entries}
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read ({error.strerror}): give an archive of `fmnas pack`") from None
    except (zipfile.BadZipFile, zlib.error, RuntimeError, ValueError, EOFError) as error:
        raise RunDirectoryError(f"{path} is not an archive of `fmnas pack`, or is damaged: {one_line(error)}") from None


def _refusals(entries: Sequence[zipfile.ZipInfo]) -> Iterator[str]:
    """Yield why an archive is not read."""
    names = [entry.filename for entry in entries]
    yield from (f"it has an unexpected file {truncate(legible(name))!r}" for name in names if not NAMES.fullmatch(name))
    if len({*names}) < len(names):
        yield "two of its files have the same name"
    yield from (f"{name} is missing" for name in NEEDED if name not in names)
    yield from (
        f"{entry.filename} is a link, encrypted, or compressed by another method"
        for entry in entries
        if not _is_plain(entry)
    )
    if (size := sum(entry.file_size for entry in entries)) > LARGEST:
        yield f"its files would have {size:,} bytes, more than {LARGEST:,}"


def _is_plain(entry: zipfile.ZipInfo) -> bool:
    is_file = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
    is_encrypted, methods = entry.flag_bits & 1, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    return is_file and not is_encrypted and entry.compress_type in methods


def _run_check(name: str, check: Callable[[Unpacked], str], unpacked: Unpacked) -> CheckResult:
    """The result of a check that returns what it found. Whatever it raises is a finding about the archive."""
    try:
        return CheckResult(name, True, check(unpacked))
    except Exception as error:
        text = legible(str(error)) if isinstance(error, FmnasError) else one_line(error)
        return CheckResult(name, False, text.replace(f"{unpacked.directory.root}/", ""))


def _check_hashes(unpacked: Unpacked) -> str:
    packed = unpacked.files[SUMS].decode(errors="replace").splitlines()
    expected = format_sums(unpacked.files).splitlines()
    if sorted(packed) != sorted(expected):
        wrong = [line.split("  ")[1] for line in expected if line not in packed] or ["a file that is missing"]
        raise RunDirectoryError(f"{SUMS}: checksum mismatch, or none: {', '.join(wrong)}")
    return f"files = {len(expected)}"


def _check_journal(unpacked: Unpacked) -> str:
    """Read the journal. An alias in the configuration could stand for any number of values."""
    text = unpacked.files["config.yaml"].decode()
    if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
        raise RunDirectoryError("config.yaml has an alias (*), which `fmnas pack` never writes")
    ledger = unpacked.state.ledger
    return f"runs = {len(ledger.runs)}, ended trials = {len(ledger.results)}, {ledger.status or 'not ended'}"


def _check_tables(unpacked: Unpacked) -> str:
    """Compute space and tables again. Raises RunDirectoryError, naming the first that differs."""
    computed = derived_files(unpacked.directory, unpacked.state)
    packed = {name: text.decode() for name, text in unpacked.files.items() if name == SPACE or name.endswith(".csv")}
    if unknown := sorted({*packed} - {*computed}):
        raise RunDirectoryError(f"tables that this fmnas does not compute from the journal: {', '.join(unknown)}")
    for name in sorted(packed):  # a later fmnas may compute more
        text = computed[name]
        find = find_difference if name != SPACE else lambda *_: "another space"
        if text != packed[name] and (difference := find(packed[name], text)):
            packages = read_environment(unpacked.directory).get("packages") or {}
            versions = f"run by fmnas {packages.get('fmnas')}, verified by {package_version('fmnas')}"
            raise RunDirectoryError(f"{name}, {difference}, by the journal ({versions})")
    return f"tables = {len(packed) - 1}, equal to those of the journal"


def find_difference(packed: str, computed: str) -> str:
    """Where two CSV texts differ by more than ROUNDING, and how; empty if nowhere."""
    table, other = (pd.read_csv(StringIO(text), dtype=str, keep_default_na=False) for text in (packed, computed))
    if [*table] != [*other]:
        return f"columns {', '.join(map(str, table))}, but {', '.join(map(str, other))}"
    if len(table) != len(other):
        return f"rows: {len(table)}, but {len(other)}"
    for column in table:
        for row, (mine, theirs) in enumerate(zip(table[column], other[column], strict=True), start=1):
            if mine != theirs and not _is_close(mine, theirs):
                return f"row {row}, {column}: {truncate(mine)!r}, but {truncate(theirs)!r}"
    return ""


def _is_close(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one), float(other), rel_tol=ROUNDING, abs_tol=ROUNDING**2)
    except ValueError:
        return False


def _check_replay(unpacked: Unpacked, notify: Callable[[str], None]) -> str:
    counts, mismatches = replay_directory(unpacked.directory, notify)
    if mismatches:
        raise RunDirectoryError(f"suggestions that differ = {len(mismatches)}; the first: {mismatches[0]}")
    return f"suggestions = {sum(counts.values())}, all repeated"
