"""Who worked at an experiment: every driver is in the journal, and another fmnas is never let in silently."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform import environment
from fmnas.platform.cli import main
from fmnas.platform.environment import provenance, same_fmnas
from fmnas.platform.experiment import events, ledger
from fmnas.platform.experiment.journal import Journal, read_journal

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


def drivers(out: Path) -> list[dict[str, Any]]:
    return [record for record in read_journal(out / "journal.jsonl") if record["event"] == "driver"]


def another(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """From now on this process is another fmnas."""
    found = {**provenance(), **changes}
    for module in (environment, ledger, events):
        monkeypatch.setattr(module, "provenance", lambda: found)
    monkeypatch.setattr("fmnas.platform.experiment.configuration.provenance", lambda: found)


def test_every_driver_says_what_it_is_and_a_finished_experiment_has_no_more(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    shutil.copytree(finished, out)
    (driver,) = drivers(out)
    assert {name: driver[name] for name in provenance()} == dict(provenance())
    assert driver["work"] == "experiment"
    assert main(["resume", str(out)]) == 0
    assert len(drivers(out)) == 1


@pytest.mark.parametrize("change", [{"fmnas": "0.0.9"}, {"commit": "f" * 40}, {"torch": "1.0"}])
def test_a_resume_by_another_fmnas_is_said_recorded_and_shown(
    cut: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    another(monkeypatch, **change)
    assert main(["resume", str(cut), "--progress", "lines"]) == 0
    assert f"goes on with {environment.driver_in_words({**provenance(), **change})}" in capsys.readouterr().out
    first, second = drivers(cut)
    assert {**second, "at": 0.0} == {**first, **change, "at": 0.0}
    page = (cut / "report" / "index.html").read_text()
    assert "Run with several versions" in page
    for driver, number in ((first, 1), (second, 2)):
        for name in ("fmnas", "torch"):
            assert f"drivers.{number}.{name}" in page
            assert driver[name] in page


def test_a_resume_by_the_same_one_says_nothing(cut: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", str(cut), "--progress", "lines"]) == 0
    assert "goes on with" not in capsys.readouterr().out
    assert len(drivers(cut)) == 2


@pytest.mark.parametrize("command", ["resume", "report", "status"])
def test_a_newer_format_is_called_what_it_is(cut: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    records = read_journal(cut / "journal.jsonl")
    (cut / "journal.jsonl").unlink()
    with Journal(cut / "journal.jsonl") as journal:
        for record in [{**records[0], "format": 3}, *records[1:]]:
            journal.append(record)
    assert main([command, str(cut)]) == 2
    assert "is of a newer fmnas: its format is 3" in capsys.readouterr().err


@pytest.mark.parametrize(
    "strange",
    [
        {"event": "paused", "run": "random/repeat-0", "trial": 0},
        {"event": "asked", "run": "random/repeat-0", "trial": {"id": 99, "energy": 1.0}, "suggest_seconds": 0.0},
    ],
)
def test_what_another_version_wrote_is_not_called_damage(
    cut: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, strange: dict[str, Any]
) -> None:
    with Journal(cut / "journal.jsonl") as journal:
        journal.append({**strange, "at": 1.0})
    before = (cut / "journal.jsonl").read_bytes()
    another(monkeypatch, fmnas="0.0.9")
    assert main(["resume", str(cut)]) == 2
    said = capsys.readouterr().err
    assert "it was written by fmnas" in said
    assert "use the other one" in said
    assert "cut" not in said
    assert (cut / "journal.jsonl").read_bytes() == before


def test_a_configuration_of_another_version_is_not_called_wrong(
    cut: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = read_journal(cut / "journal.jsonl")
    records[0]["config"]["future"] = 1
    (cut / "journal.jsonl").unlink()
    with Journal(cut / "journal.jsonl") as journal:
        for record in records:
            journal.append(record)
    another(monkeypatch, fmnas="0.0.9")
    assert main(["report", str(cut)]) == 2
    said = capsys.readouterr().err
    assert f"go on with {environment.driver_in_words(drivers(cut)[0])}" in said
    assert "future" in said


@pytest.mark.parametrize("name", ["environment.json", "config.yaml"])
@pytest.mark.parametrize("content", [None, b"", b'{"commit": "ab', b"[]", b"\xff\xfe\x00"])
def test_a_file_that_is_not_the_truth_may_be_lost_or_torn(
    cut: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes | None
) -> None:
    """After a power failure, say. Either the experiment goes on, or one line says which file to mend or remove."""
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


def test_what_counts_as_the_same_fmnas() -> None:
    own = provenance()
    assert same_fmnas(own, {**own, "host": "elsewhere", "torch": "1.0"})
    assert not same_fmnas(own, {**own, "commit": "f" * 40})


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

    for each in (environment.commit, environment.provenance):
        each.cache_clear()
    monkeypatch.setattr("subprocess.run", run)
    monkeypatch.setattr("pathlib.Path.exists", lambda _: True)
    monkeypatch.setattr(environment, "_gpus", list)
    try:
        assert environment.describe_environment()["commit"] == provenance()["commit"] == "1a2b3c4d"
        assert len(asked) == 1
    finally:
        for each in (environment.commit, environment.provenance):
            each.cache_clear()


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
    found = environment.describe_environment()
    assert found["variables"] == {"MKL_CBWR": "COMPATIBLE"}
    assert found["libraries"]["torch_capability"] == torch.backends.cpu.get_cpu_capability()
    for name, available in (("mkl", torch.backends.mkl), ("onednn", torch.backends.mkldnn)):
        assert (name in found["libraries"]) == available.is_available()
        assert "" not in found["libraries"].get(name, "1").split(".")
    monkeypatch.delitem(sys.modules, "torch")
    assert environment.describe_environment()["libraries"] == {"numpy_blas": found["libraries"]["numpy_blas"]}
