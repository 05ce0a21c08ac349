"""What a machine can check of docs/cluster.md and its files: links, commands, keys, settings."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from fmnas.platform.cli import main
from fmnas.platform.config.schema import Config

ROOT = Path(__file__).resolve().parent.parent
PAGE, FILES = ROOT / "docs" / "cluster.md", sorted((ROOT / "docs" / "cluster").iterdir())
TEXTS = {path.name: path.read_text() for path in (PAGE, *FILES)}
COMMAND = re.compile(r"fmnas (run|resume|report|replay|sync|ui|list|doctor)\b((?:[^`\n;]|\\\n)*)")


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Yield every dotted key of a configuration."""
    for name, field in model.model_fields.items():
        yield prefix + name
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from keys(kind, f"{prefix}{name}.")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_are_valid(path: Path) -> None:
    if path.suffix == ".yaml":
        assert isinstance(yaml.safe_load(path.read_text()), dict)
    if path.suffix == ".sh":
        subprocess.run(["bash", "-n", str(path)], check=True)
        assert path.stat().st_mode & 0o100


def test_links_exist_and_every_file_is_linked() -> None:
    links = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXTS["cluster.md"]))
    assert all((PAGE.parent / link).exists() for link in links)
    assert links >= {f"cluster/{path.name}" for path in FILES}


def test_commands_and_their_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands = {(command, rest) for text in TEXTS.values() for command, rest in COMMAND.findall(text)}
    assert {command for command, _ in commands} >= {"run", "resume", "doctor", "sync", "ui"}
    for command, rest in commands:
        with pytest.raises(SystemExit):
            main([command, "--help"])
        printed = capsys.readouterr().out
        for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", rest):
            assert option in printed, (command, option)


@pytest.mark.parametrize("name", TEXTS)
def test_keys_of_the_configuration_exist(name: str) -> None:
    known = set(keys(Config))
    sections = "|".join(sorted({key.partition(".")[0] for key in known if "." in key}))
    for key in re.findall(rf"(?<![\w./])((?:{sections})\.[a-z_]+)(?![\w]|\.[a-z])", TEXTS[name]):
        assert key in known, key


def test_the_health_check_settings_agree() -> None:
    settings = {
        name: set(re.findall(r"RAY_health_check_(\w+?)(?:=|, value: \")(\d+)", text))
        for name, text in TEXTS.items()
        if "RAY_health_check" in text
    }
    assert settings.keys() >= {"cluster.md", "node.sh", "slurm.sh", "ray-up.yaml", "rayjob.yaml"}
    expected = {("initial_delay_ms", "0"), ("period_ms", "2000"), ("timeout_ms", "5000"), ("failure_threshold", "3")}
    assert all(values == expected for values in settings.values()), settings


SRUN = """#!/usr/bin/env bash
exec "${@:2}"
"""
RAY = """#!/usr/bin/env bash
while [ "$1" != -- ]; do shift; done
exec "${@:2}"
"""
SCONTROL = """#!/usr/bin/env bash
echo "scontrol $*" >>log
"""
SLEEP = f"""#!/usr/bin/env bash
exec {shutil.which("sleep")} 0.1
"""
FMNAS = f"""#!{sys.executable}
import signal, sys
from pathlib import Path
from fmnas.platform.experiment.lock import update_driver
from fmnas.platform.experiment.run_directory import RunDirectory

log = open("log", "a", buffering=1)
print(sys.argv[1], *(text for text in sys.argv if text.startswith("workers.gpus")), file=log)
if sys.argv[1] == "resume":
    sys.exit(3)
Path("run").mkdir()
Path("run/journal.jsonl").touch()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
update_driver(RunDirectory(Path("run")))
signal.sigwait([signal.SIGTERM])
print("stopped", file=log)
sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("on_node", "gpus"), [({}, 0), ({"GPUS_ON_NODE": "4"}, 1)])
def test_a_job_of_slurm_stops_the_driver_before_it_is_requeued_and_ends_with_its_exit_code(
    on_node: dict[str, str], gpus: int, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    stubs = {"srun": SRUN, "ray": RAY, "scontrol": SCONTROL, "sleep": SLEEP, "fmnas": FMNAS}
    for name, text in stubs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    slurm = {"JOB_ID": "7", "JOB_NUM_NODES": "1", "CPUS_PER_TASK": "1", **on_node}
    environment = {
        **os.environ,
        **{f"SLURM_{name}": value for name, value in slurm.items()},
        "SLURMD_NODENAME": "localhost",
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    command = ["bash", str(ROOT / "docs" / "cluster" / "slurm.sh"), "smoke", "run"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as job:
        while not (tmp_path / "run" / "driver.json").exists():
            assert job.poll() is None
            time.sleep(0.05)
        job.send_signal(signal.SIGUSR1)
        job.wait()
    assert (tmp_path / "log").read_text().split("\n") == [
        f"run workers.gpus={gpus}",
        *("stopped", "scontrol requeue 7", ""),
    ]
    assert subprocess.run(command, cwd=tmp_path, env=environment, check=False).returncode == 3
    assert (tmp_path / "log").read_text().endswith("resume\n")


def test_the_image_has_the_version_of_this_package() -> None:
    images = re.findall(r"/fmnas:([\w.]+)", TEXTS["rayjob.yaml"])
    assert set(images) == {version("fmnas")}
