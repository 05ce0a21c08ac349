"""`fmnas pack` and `fmnas verify`: the archive is the same each time, and no change of it is overlooked."""

import os
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from fmnas.api import load_run
from fmnas.platform import packing, verification
from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import read_state
from fmnas.platform.packing import SUMS, format_sums, write_pack
from fmnas.platform.verification import find_difference, read_pack

PROBLEM = """
from pathlib import Path
from fmnas.search_spaces import Nominal, Real
from fmnas.trainers import objective

with Path(__file__).with_name("imported").open("a") as log:
    log.write("once ")

@objective([Nominal("a", ["x", "y"]), Real("b", 0.0, 1.0)])
def bowl(configuration):
    if configuration["a"] == "y" and configuration["b"] > 0.9:
        raise ValueError("postgresql://user:secret@host/db")
    return configuration["b"] ** 2 + (configuration["a"] == "x")
"""
CONFIG = """
problem: bowl.py
optimizers: [random, regularized-evolution]
budget: {evaluations: 12}
repeats: 2
workers: {kind: in-process}
tracking: {enabled: false}
"""
Change = Callable[[dict[str, bytes]], None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory of a user-defined problem, which leaves a mark when it is imported."""
    folder = tmp_path_factory.mktemp("packed")
    (folder / "bowl.py").write_text(PROBLEM)
    (folder / "bowl.yaml").write_text(CONFIG)
    assert main(["run", str(folder / "bowl.yaml"), "--out", str(folder / "run"), "--progress", "quiet"]) == 0
    (folder / "run" / "notes.txt").write_text("mine")
    (folder / "imported").unlink()
    return folder / "run"


@pytest.fixture(scope="module")
def packed(run: Path) -> Path:
    assert main(["pack", str(run)]) == 0
    return run.with_name("run.zip")


def write_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


@pytest.fixture
def changed(packed: Path, tmp_path: Path) -> Callable[[Change], Path]:
    """changed(change): the archive after a change of its files, with hashes that fit."""

    def write(change: Change) -> Path:
        files = read_pack(packed)
        change(files)
        files[SUMS] = format_sums(files).encode()
        return write_zip(tmp_path / "changed.zip", files)

    return write


def findings(path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, str]]:
    """The exit code of `fmnas verify`, and check -> its word."""
    capsys.readouterr()
    code = main(["verify", str(path), *options])
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    return code, {line[1].rstrip(":"): line[0] for line in words if line[0] in ("ok", "FAILS")}


def replace(name: str, old: bytes, new: bytes) -> Change:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[name]
        files[name] = files[name].replace(old, new, 1)

    return change


def test_an_archive_has_the_files_of_the_table_and_the_same_bytes_each_time(
    run: Path, packed: Path, tmp_path: Path
) -> None:
    os.utime(run / "journal.jsonl", (1e9, 1e9))
    again = write_pack(RunDirectory(run), tmp_path / "again.zip", lambda _: None)
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()
    assert again.digest == sha256(packed.read_bytes()).hexdigest()
    tables = {
        f"report/{name}.csv"
        for name in ("results", "curves", "mean_curves", "mean_ranks", "checkpoints", "tests", "targets", "ledger")
    }
    facts = {"config.yaml", "journal.jsonl", "environment.json", "problem.json", "space.json", "trials.csv"}
    assert {*read_pack(packed)} == {*facts, *tables, SUMS}


def test_unpacked_it_is_a_run_directory_whose_hashes_sha256sum_checks(run: Path, packed: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path)
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", SUMS], cwd=tmp_path, check=True)
    assert load_run(tmp_path).trials.equals(load_run(run).trials)
    assert main(["pack", str(tmp_path), "--out", str(tmp_path / "again.zip")]) == 0
    assert (tmp_path / "again.zip").read_bytes() == packed.read_bytes()


def test_a_whole_archive_passes_and_only_a_replay_imports_code(
    run: Path, packed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    every = {"hashes": "ok", "journal": "ok", "tables": "ok"}
    assert findings(packed, capsys) == (0, every)
    code = [sys.executable, "-m", "fmnas.platform.cli", "verify", str(packed)]
    subprocess.run(code, check=True, capture_output=True)
    assert not run.with_name("imported").exists()
    assert "bowl.py" in subprocess.run([*code, "--replay"], check=True, capture_output=True, text=True).stdout
    assert run.with_name("imported").exists()
    run.with_name("imported").unlink()
    assert findings(packed, capsys, "--replay") == (0, {**every, "replay": "ok"})


@pytest.mark.parametrize("name", ["config.yaml", "journal.jsonl", "environment.json", "trials.csv", "report/tests.csv"])
def test_a_change_of_any_file_is_seen_by_its_hash(
    packed: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = read_pack(packed)
    files[name] += b" "
    code, words = findings(write_zip(tmp_path / "changed.zip", files), capsys)
    assert (code, words["hashes"]) == (1, "FAILS")


def test_a_file_that_has_no_hash_or_is_missing_is_seen(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = read_pack(packed)
    without = {name: content for name, content in files.items() if name != "environment.json"}
    assert findings(write_zip(tmp_path / "a.zip", without), capsys)[1]["hashes"] == "FAILS"
    more = {**files, "report/more.csv": b"a\n1\n"}
    assert findings(write_zip(tmp_path / "b.zip", more), capsys)[1] == {
        "hashes": "FAILS",
        "journal": "ok",
        "tables": "FAILS",
    }


def test_an_archive_of_an_earlier_version_may_lack_a_table(
    changed: Callable[[Change], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def drop(files: dict[str, bytes]) -> None:
        del files["report/mean_ranks.csv"]

    assert findings(changed(drop), capsys) == (0, {"hashes": "ok", "journal": "ok", "tables": "ok"})


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        (replace("trials.csv", b"random/repeat-0,random,0,0,", b"random/repeat-0,random,0,7,"), "tables"),
        (replace("report/tests.csv", b"random", b"bo-fm!"), "tables"),
        (replace("space.json", b'"high": 1.0', b'"high": 2.0'), "tables"),
        (replace("journal.jsonl", b'"objective":0', b'"objective":1'), "journal"),
        (replace("config.yaml", b"repeats: 2", b"repeats: 3"), "journal"),
        (replace("config.yaml", b"seed: 0", b"seed: &a 0\nx: *a"), "journal"),
        (replace("config.yaml", b"seed: 0", b"seed: [" * 5000), "journal"),
        (replace("problem.json", b'"space"', b'"no space"'), "journal"),
    ],
)
def test_a_change_with_a_hash_that_fits_is_seen(
    changed: Callable[[Change], Path], change: Change, failed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, words = findings(changed(change), capsys)
    assert code == 1
    assert [name for name, word in words.items() if word == "FAILS"] == [failed]
    assert words["hashes"] == "ok"


def test_a_suggestion_that_no_optimizer_made_is_seen_by_a_replay(
    run: Path,
    tmp_path: Path,
    forge: Callable[[Path, Callable[[str], str]], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with zipfile.ZipFile(run.with_name("run.zip")) as archive:
        archive.extractall(tmp_path / "forged")
    last = read_state(RunDirectory(run)).ledger.results[-1].trial.configuration["b"]
    forge(tmp_path / "forged" / "journal.jsonl", lambda text: text.replace(repr(last), "0.25"))
    assert main(["pack", str(tmp_path / "forged")]) == 0
    code, words = findings(tmp_path / "forged.zip", capsys, "--replay")
    assert (code, words) == (1, {"hashes": "ok", "journal": "ok", "tables": "ok", "replay": "FAILS"})


@pytest.mark.parametrize(
    "name", ["../evil.csv", "/tmp/evil.csv", "report/../../evil.csv", "evil.py", "report/", "a\x1b"]
)
def test_other_names_are_refused_and_nothing_is_written(
    packed: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_zip(tmp_path / "folder.zip", {**read_pack(packed), name: b"evil"})
    assert main(["verify", str(path)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["folder.zip"]


def test_links_encrypted_files_repeated_and_missing_names_and_bombs_are_refused(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = read_pack(packed), tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (stat.S_IFLNK if name == "trials.csv" else stat.S_IFREG) << 16
            archive.writestr(entry, content)
    with pytest.raises(RunDirectoryError, match=r"trials\.csv"):
        read_pack(path)
    for name in ("journal.jsonl", SUMS):
        with pytest.raises(RunDirectoryError, match=name):
            read_pack(write_zip(path, {other: content for other, content in files.items() if other != name}))
    with zipfile.ZipFile(write_zip(path, files), "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("trials.csv", b"")
    with pytest.raises(RunDirectoryError, match="same name"):
        read_pack(path)
    encrypted = packed.read_bytes().replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01\x00"
    )
    path.write_bytes(encrypted)
    with pytest.raises(RunDirectoryError, match="encrypted"):
        read_pack(path)
    for method in (zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2):
        with zipfile.ZipFile(path, "w", method) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        with pytest.raises(RunDirectoryError, match="another method"):
            read_pack(path)
    monkeypatch.setattr(verification, "LARGEST", sum(map(len, files.values())) - 1)
    with pytest.raises(RunDirectoryError, match="more than"):
        read_pack(packed)


@pytest.mark.parametrize("cut", [0, 10, -10])
def test_a_file_that_is_cut_is_refused(packed: Path, tmp_path: Path, cut: int) -> None:
    (path := tmp_path / "cut.zip").write_bytes(packed.read_bytes()[:cut])
    with pytest.raises(RunDirectoryError):
        read_pack(path)


def test_damaged_bytes_are_refused(packed: Path, tmp_path: Path) -> None:
    content = bytearray(packed.read_bytes())
    content[len(content) // 2] ^= 0xFF
    (path := tmp_path / "damaged.zip").write_bytes(content)
    with pytest.raises(RunDirectoryError):
        read_pack(path)


def test_another_file_is_not_overwritten_and_an_earlier_pack_is(run: Path, packed: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.zip"
    write_zip(mine, {"a": b""})
    for path in (mine, run / "notes.txt", tmp_path):
        assert main(["pack", str(run), "--out", str(path)]) == 2
    mine.write_bytes(packed.read_bytes())
    assert main(["pack", str(run), "--out", str(mine)]) == 0


def test_a_directory_in_which_a_driver_works_is_not_packed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (directory := RunDirectory(tmp_path / "run")).create()
    for name in ("config.yaml", "journal.jsonl", "problem.json"):
        (directory.place / name).write_bytes((run / name).read_bytes())

    def read_while_it_grows(directory: RunDirectory) -> object:
        state = read_state(directory)
        with directory.journal.open("a") as file:
            file.write("{")
        return state

    monkeypatch.setattr(packing, "read_state", read_while_it_grows)
    with pytest.raises(RunDirectoryError):
        write_pack(directory, tmp_path / "run.zip", lambda _: None)
    assert not (tmp_path / "run.zip").exists()
    monkeypatch.undo()
    write_pack(directory, tmp_path / "run.zip", lambda _: None)  # without the line that is torn
    assert read_pack(tmp_path / "run.zip")["journal.jsonl"] == (run / "journal.jsonl").read_bytes()


def test_interim_results_are_reported(run: Path, tmp_path: Path) -> None:
    (directory := RunDirectory(tmp_path / "run")).create()
    for name in ("config.yaml", "problem.json"):
        (directory.place / name).write_bytes((run / name).read_bytes())
    lines = (run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    counts = []
    for kept in (lines, lines[:-1]):  # the last one is the end
        directory.journal.write_bytes(b"".join(kept))
        remarks: list[str] = []
        write_pack(directory, tmp_path / "run.zip", remarks.append)
        counts.append(len(remarks))
    assert counts[1] == counts[0] + 1


def test_a_reason_with_a_password_is_reported(run: Path, tmp_path: Path) -> None:
    remarks: list[str] = []
    write_pack(RunDirectory(run), tmp_path / "run.zip", remarks.append)
    has_one = any("secret" in result.reason for result in read_state(RunDirectory(run)).ledger.results)
    assert has_one
    assert any("password" in remark and "secret" not in remark for remark in remarks)


def test_numbers_may_differ_by_rounding_alone() -> None:
    assert not find_difference("a,b\n1.0,x\n", "a,b\n1.0000000000001,x\n")
    assert not find_difference("a\n\n", "a\n\n")
    for other in ("a,b\n1.0000001,x\n", "a,b\n1.0,y\n", "a,c\n1.0,x\n", "a,b\n1.0,x\n1.0,x\n", "a,b\n,x\n"):
        assert find_difference("a,b\n1.0,x\n", other)
    assert "a, c" in find_difference("a,b\n1.0,x\n", "a,c\n1.0,x\n")
