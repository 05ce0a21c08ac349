"""Who worked at an experiment: every driver is in the journal, and another fmnas is never let in silently."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support import events_of, write_journal

from fmnas.platform import environment
from fmnas.platform.cli import main
from fmnas.platform.environment import current_software, format_software, is_same_version
from fmnas.platform.experiment.events import FORMAT, Begun, DriverStarted
from fmnas.platform.experiment.journal import read_journal

pytestmark = pytest.mark.slow

FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    assert main(["run", "smoke", *FAST, "--out", str(out)]) == 0
    return out


@pytest.fixture
def cut(finished: Path, tmp_path: Path) -> Path:
    """An experiment whose driver was killed after some trials."""
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    lines = (out / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (out / "journal.jsonl").write_bytes(b"".join(lines[:14]))
    return out


def drivers(out: Path) -> list[DriverStarted]:
    return events_of(out / "journal.jsonl", DriverStarted)


def test_every_driver_is_recorded_and_a_finished_experiment_has_no_more(finished: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(finished, tmp_path / "run"))
    (driver,) = drivers(out)
    assert (driver.software, driver.work) == (current_software(), "experiment")
    assert main(["resume", str(out)]) == 0
    assert len(drivers(out)) == 1


@pytest.mark.parametrize("change", [{"fmnas": "0.0.9"}, {"commit": "f" * 40}, {"torch": "1.0", "cpu": "A"}])
def test_a_resume_by_another_fmnas_is_said_recorded_and_shown(
    cut: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    other = replace(current_software(), **change)
    monkeypatch.setattr("fmnas.platform.experiment.provenance.current_software", lambda: other)
    assert main(["resume", str(cut), "--progress", "lines"]) == 0
    assert f"{format_software(other)} now" in capsys.readouterr().out
    first, second = (driver.software for driver in drivers(cut))
    assert (first, second) == (current_software(), other)
    caution = json.loads((cut / "summary.json").read_text())["caution"]
    assert f"{format_software(first)}, then {format_software(second)}" in caution
    page = (cut / "report" / "index.html").read_text()
    for number, software in ((1, first), (2, second)):
        for name in ("fmnas", "torch", "cpu"):
            assert f"drivers.{number}.{name}" in page
            assert getattr(software, name) in page


def test_a_resume_by_the_same_one_says_nothing(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(cut), "--progress", "lines"]) == 0
    assert "different version" not in capsys.readouterr().out
    assert len(drivers(cut)) == 2


@pytest.mark.parametrize("command", ["resume", "report", "status"])
def test_a_newer_format_is_refused(cut: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    begun, *rest = read_journal(cut / "journal.jsonl")
    assert isinstance(begun, Begun)
    write_journal(cut / "journal.jsonl", [replace(begun, format=FORMAT + 1), *rest])
    assert main([command, str(cut)]) == 2
    assert f"format {FORMAT + 1}" in capsys.readouterr().err


def test_a_configuration_of_another_version_is_refused(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun, *rest = read_journal(cut / "journal.jsonl")
    assert isinstance(begun, Begun)
    write_journal(cut / "journal.jsonl", [replace(begun, config={**begun.config, "future": 1}), *rest])
    assert main(["report", str(cut)]) == 2
    assert "future" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["environment.json", "config.yaml"])
@pytest.mark.parametrize("content", [None, b"", b'{"commit": "ab', b"[]", b"\xff\xfe\x00"])
def test_a_file_that_is_not_the_truth_may_be_lost_or_torn(
    cut: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None
) -> None:
    """After a power failure, say. Either the experiment resumes, or one line says which file to fix or remove."""
    path = cut / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    code = main(["resume", str(cut)])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    if name == "config.yaml" and content is not None:
        assert code == 2
        assert name in said
        path.unlink()
        code = main(["resume", str(cut)])
    assert code == 0
    assert (cut / "config.yaml").exists()
    assert main(["report", str(cut)]) == 0


def test_a_version_is_that_of_fmnas_and_its_commit() -> None:
    own = current_software()
    assert is_same_version(own, replace(own, host="elsewhere", torch="1.0"))
    assert not is_same_version(own, replace(own, commit="f" * 40))


def test_two_processes_may_write_the_same_file_at_once(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys; from pathlib import Path; from fmnas.platform.experiment.run_directory import write_text\n"
        "for i in range(200): write_text(Path(sys.argv[1]), 'x' * 1000)"
    )
    path = tmp_path / "trials.csv"
    both = [subprocess.Popen([sys.executable, "-c", code, str(path)], stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    assert path.read_text() == "x" * 1000
    assert os.listdir(tmp_path) == ["trials.csv"]


def test_git_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(arguments: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(arguments)
        return subprocess.CompletedProcess(arguments, 0, "1a2b3c4d\n", "")

    functions = (environment.commit, environment.repository, environment.current_software)
    for function in functions:
        function.cache_clear()
    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    monkeypatch.setattr(environment, "_gpus", list)
    try:
        assert environment.describe_environment()["commit"] == current_software().commit == "1a2b3c4d"
        environment.describe_environment()
        assert [arguments[3] for arguments in asked].count("describe") == 1
        assert len(asked) == len(set(map(tuple, asked)))
    finally:
        for function in functions:
            function.cache_clear()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://user:secret@host.org/a/b.git", "https://host.org/a/b.git"),
        ("https://ghp_token@host.org/a/b.git?access_token=secret", "https://host.org/a/b.git"),
        ("git@host.org:a/b.git", "git@host.org:a/b.git"),
        ("/srv/git/b.git", "/srv/git/b.git"),
    ],
)
def test_the_repository_is_named_without_a_password(url: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_git", lambda *arguments: "" if arguments[0] == "branch" else url)
    environment.repository.cache_clear()
    try:
        assert environment.repository() == {"url": expected}
    finally:
        environment.repository.cache_clear()


INTEL = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu sse2 ssse3 ht avx avx512_fp16 amx_tile clwb\n\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve aes\n"


@pytest.mark.parametrize(
    ("cpuinfo", "cpu"),
    [
        (INTEL + INTEL, {"model": "Some CPU @ 2 GHz", "vectors": "sse2 ssse3 avx avx512_fp16 amx_tile"}),
        (ARM, {"model": "", "vectors": "asimd sve"}),
        (None, {"model": "", "vectors": ""}),
    ],
)
def test_the_environment_says_which_processor_it_is(
    cpuinfo: str | None, cpu: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cpuinfo is not None:
        (tmp_path / "cpuinfo").write_text(cpuinfo)
    monkeypatch.setattr(environment, "_CPUINFO", tmp_path / "cpuinfo")
    assert environment.describe_environment()["cpu"] == cpu


def test_the_environment_says_what_decides_the_last_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    for name in environment.ROUNDING_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    description = environment.describe_environment()
    assert description["variables"] == {"MKL_CBWR": "COMPATIBLE"}
    assert description["libraries"]["torch_capability"] == torch.backends.cpu.get_cpu_capability()
    for name, available in (("mkl", torch.backends.mkl), ("onednn", torch.backends.mkldnn)):
        assert (name in description["libraries"]) == available.is_available()
        assert "" not in description["libraries"].get(name, "1").split(".")
    monkeypatch.delitem(sys.modules, "torch")
    assert environment.describe_environment()["libraries"] == {"numpy_blas": description["libraries"]["numpy_blas"]}
