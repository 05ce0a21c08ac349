"""`fmnas pack`: what a paper's supplement needs of a run directory, in one zip archive.

| file | what it holds |
|---|---|
| config.yaml | the configuration, with every default |
| journal.jsonl | the journal: every suggestion and result |
| environment.json, problem.json | as in the run directory, where it has them |
| space.json | the search space, its constraints included |
| trials.csv, retrained.csv, report/NAME.csv | the tables of a report, computed from the journal |
| SHA256SUMS | the SHA-256 of every other file, as `sha256sum --check` reads it |

MLflow's store, checkpoints, logs, and files that a user put into the run directory are left out. The same run directory
gives the same bytes, with the same versions of fmnas, numpy and zlib. Unpacked, it is a run directory.
"""

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from fmnas.comparison.report import compute_results, report_tables
from fmnas.platform.config.uri import redact
from fmnas.platform.errors import Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory, readable
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.report.write import report_input
from fmnas.search_spaces.files import write_aside

SUMS = "SHA256SUMS"
SPACE = "space.json"
_MODE = 0o644 << 16
"""Permissions of a file, where a zip archive has them."""
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The first time that a zip archive can give a file."""


@dataclass(frozen=True)
class Packed:
    """What an archive has: the number of its files, its bytes, and its SHA-256."""

    files: int
    size: int
    digest: str


def write_pack(directory: RunDirectory, out: Path, notify: Callable[[str], None]) -> Packed:
    """Write the archive of a run directory. notify: receives a line for each remark.

    Raises RunDirectoryError for a directory that cannot be read, or if `out` is something other than a pack;
    ExperimentFailed if the disk does not take the archive.
    """
    if out.exists() and not is_pack(out):
        raise RunDirectoryError(f"{out} would be overwritten, and is not a pack: choose another with --out FILE")
    with readable(directory.root):
        journal = directory.journal.read_bytes()
        state = read_state(directory)
        if directory.journal.stat().st_size != len(journal):
            raise RunDirectoryError(f"{directory.root}: a driver works here: pack it when `fmnas status` shows none")
        saved = [file for file in (directory.environment, directory.problem) if file.exists()]
        files = {file.name: file.read_bytes() for file in saved}
    files |= {"config.yaml": state.config.to_yaml().encode(), "journal.jsonl": journal[: journal.rfind(b"\n") + 1]}
    files |= {name: text.encode("utf-8", "backslashreplace") for name, text in derived_files(directory, state).items()}
    for remark in _remarks(state):
        notify(remark)
    files[SUMS] = format_sums(files).encode()
    archive = _archive(files)
    try:
        write_aside(out, archive)
    except OSError as error:
        raise ExperimentFailed(f"{out} cannot be written ({error.strerror}): choose another with --out FILE") from error
    return Packed(len(files), len(archive), sha256(archive).hexdigest())


def derived_files(directory: RunDirectory, state: ExperimentState) -> dict[str, str]:
    """Name -> text of the files that follow from the journal: the space, and the tables as CSV."""
    inputs = report_input(directory, state)
    results = compute_results(inputs.trials, inputs.context)
    space = json.dumps(state.experiment.problem.space.to_dict(), indent=2) + "\n"
    tables = {f"report/{name}": table for name, table in report_tables(results.summary, results.curves).items()}
    tables["trials"] = inputs.trials
    if inputs.context.retrained is not None:
        tables["retrained"] = inputs.context.retrained
    texts = {f"{name}.csv": table.to_csv(index=False, lineterminator="\n") for name, table in tables.items()}
    return {SPACE: space, **texts}


def format_sums(files: Mapping[str, bytes]) -> str:
    """The lines of SHA256SUMS for these files."""
    return "".join(f"{sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files) if name != SUMS)


def is_pack(path: Path) -> bool:
    """Whether a file is a zip archive with SHA256SUMS and a journal."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {SUMS, "journal.jsonl"} <= {*archive.namelist()}
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def _remarks(state: ExperimentState) -> Iterator[str]:
    """Yield what the user should know before the archive is published."""
    if state.ledger.status != Ending.FINISHED:
        yield "the experiment has not finished: its tables are interim results"
    suspicious = [result for result in state.ledger.results if redact(result.reason) != result.reason]
    for result in suspicious[:1]:
        yield (
            f"{result.run}, trial {result.trial.id}: the reason of its failure looks as if it held a password; see "
            f"trials.csv before you publish it (trials of this kind = {len(suspicious)})"
        )


def _archive(files: Mapping[str, bytes]) -> bytes:
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.create_system, entry.external_attr, entry.compress_type = 3, _MODE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], compresslevel=9)
    return content.getvalue()
