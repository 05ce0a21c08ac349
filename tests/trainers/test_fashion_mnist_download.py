"""Fetching, with stand-ins for torchvision, apt-get and dpkg-deb: reasons are told, and nothing is printed."""

import importlib.util
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images import download as fashion_mnist_download
from fmnas.trainers.images.download import download_with_apt, download_with_torchvision


def program(folder: Path, name: str, script: str) -> None:
    """An executable shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder besides /bin where programs are looked up."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_without_apt_the_missing_programs_are_named(tmp_path: Path, programs: Path) -> None:
    with pytest.raises(DataError, match="no apt-get and no dpkg-deb here"):
        download_with_apt(tmp_path)
    program(programs, "apt-get", "exit 0")
    with pytest.raises(DataError, match=r"^no dpkg-deb here$"):
        download_with_apt(tmp_path)


@pytest.mark.parametrize(
    ("apt", "dpkg", "message"),
    [
        ("echo 'E: Unable to locate package' >&2; exit 100", "exit 0", "apt-get failed: E: Unable to locate package"),
        ("exit 7", "exit 0", "apt-get failed: code 7"),
        ("exit 0", "exit 0", "left no package"),
        ("echo >a.deb", "echo 'not a deb' >&2; exit 2", "dpkg-deb failed: not a deb"),
    ],
)
def test_what_stops_apt_is_told(tmp_path: Path, programs: Path, apt: str, dpkg: str, message: str) -> None:
    program(programs, "apt-get", apt)
    program(programs, "dpkg-deb", dpkg)
    with pytest.raises(DataError, match=message):
        download_with_apt(tmp_path)


def test_the_package_is_unpacked_in_the_folder(tmp_path: Path, programs: Path) -> None:
    program(programs, "apt-get", 'echo "$@" >asked; echo >a.deb')
    program(programs, "dpkg-deb", '/bin/mkdir -p usr/share/datasets/fashion-mnist; echo "$@" >unpacked')
    folder = tmp_path / "aside"
    folder.mkdir()
    assert download_with_apt(folder).is_dir()
    assert (folder / "asked").read_text().split()[-2:] == ["download", "dataset-fashion-mnist"]
    assert (folder / "unpacked").read_text().split() == ["-x", "a.deb", "."]


def test_old_package_lists_are_renewed_without_root(tmp_path: Path, programs: Path) -> None:
    script = """case "$*" in
    *Lists=*update) echo >known;;
    *Lists=*download*) test -e known && echo >a.deb;;
    *) exit 100;;
    esac"""
    program(programs, "apt-get", script)
    program(programs, "dpkg-deb", "/bin/mkdir -p usr/share/datasets/fashion-mnist")
    assert download_with_apt(tmp_path).is_dir()
    assert (tmp_path / "lists" / "partial").is_dir()


def test_torchvision_downloads_in_silence_and_gives_up_on_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    timeouts = []

    def download(folder: Path, download: bool) -> None:
        timeouts.append(socket.getdefaulttimeout())
        sys.stdout.write("100%")
        sys.stderr.write("100%")
        if (folder / "taken").exists():
            raise RuntimeError("Error downloading\nhost is away")
        (folder / "FashionMNIST" / "raw").mkdir(parents=True)
        (folder / "taken").touch()

    fake = SimpleNamespace(datasets=SimpleNamespace(FashionMNIST=download))
    monkeypatch.setattr(fashion_mnist_download, "import_torchvision", lambda: fake)
    assert download_with_torchvision(tmp_path).is_dir()
    with pytest.raises(DataError, match=r"^RuntimeError: Error downloading host is away$"):
        download_with_torchvision(tmp_path)
    assert capfd.readouterr() == ("", "")
    assert timeouts == [5.0, 5.0]
    assert socket.getdefaulttimeout() is None


def test_no_torchvision_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise ModuleNotFoundError("No module named 'torchvision'")

    monkeypatch.setattr(fashion_mnist_download, "import_torchvision", absent)
    with pytest.raises(DataError, match="No module named 'torchvision'"):
        download_with_torchvision(tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is None, reason="torchvision is not installed")
def test_torchvision_imports_beside_any_torch_and_only_when_asked() -> None:
    code = (
        "import sys, fmnas.trainers\n"
        "assert 'torchvision' not in sys.modules\n"
        "from fmnas.trainers.images.download import import_torchvision\n"
        "print(import_torchvision().datasets.FashionMNIST.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "FashionMNIST"), done.stderr
