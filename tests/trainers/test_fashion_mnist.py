"""FashionMNIST: the order of the places, verification, downloads. Small stand-ins, except in the last test."""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images import fashion_mnist
from fmnas.trainers.images.data import fashion_mnist_set
from fmnas.trainers.images.fashion_mnist import default_cache, find_fashion_mnist
from fmnas.trainers.images.image_files import IDX_FILES, read_idx, read_images

ARRAYS = [np.random.default_rng(0).integers(0, 10, shape, dtype=np.uint8) for shape in ((6, 28, 28), 6, (2, 28, 28), 2)]
Write = Callable[..., Path]


@pytest.fixture
def write(write_idx: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a small data set, whose digest replaces the real one; without a system copy or downloads."""
    example = write_idx(tmp_path / "example", *ARRAYS)
    monkeypatch.setattr(fashion_mnist, "DIGEST", read_images("own", example).digest)
    monkeypatch.setattr(fashion_mnist, "SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", ())
    return lambda folder, packed=False: write_idx(folder, *ARRAYS, packed=packed)


@pytest.mark.parametrize(("packed", "below"), [(False, ""), (True, "FashionMNIST/raw")])
def test_the_given_folder_is_used(tmp_path: Path, write: Write, packed: bool, below: str) -> None:
    folder = write(tmp_path / "mine" / below, packed)
    write(tmp_path / "cache" / "FashionMNIST" / "raw")
    source = find_fashion_mnist(tmp_path / "mine", tmp_path / "cache")
    assert source.place == f"given folder: {folder}"
    for array, expected in zip(
        (source.images, source.labels, source.test_images, source.test_labels), ARRAYS, strict=True
    ):
        assert np.array_equal(array, expected)


@pytest.mark.parametrize("root", ["{tmp_path}", "~no-such-user/x", "x" * 300])
def test_a_given_folder_without_data_is_an_error(root: str, tmp_path: Path, write: Write) -> None:
    write(tmp_path / "cache" / "FashionMNIST" / "raw")
    with pytest.raises(DataError, match=r"data\.root.*FMNAS_DATA"):
        find_fashion_mnist(Path(root.format(tmp_path=tmp_path)), tmp_path / "cache")


def test_a_download_that_takes_too_long_is_one_of_those_that_were_tried(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(folder: Path) -> Path:
        raise subprocess.TimeoutExpired("apt-get", 9.0, stderr=b"W: slow")

    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", (("package", hang),))
    with pytest.raises(DataError, match="package: W: slow"):
        find_fashion_mnist(None, tmp_path / "cache")


def test_the_places_are_tried_in_order(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def fail(folder: Path) -> Path:
        calls.append("first")
        (folder / IDX_FILES[0]).write_bytes(b"\0\0\x08")
        raise subprocess.CalledProcessError(1, "apt-get", stderr="no such\npackage")

    def download(folder: Path) -> Path:
        calls.append("second")
        return write(folder / "some" / "where", packed=True)

    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", (("first", fail), ("second", download)))
    raw = tmp_path / "cache" / "FashionMNIST" / "raw"
    assert find_fashion_mnist(None, tmp_path / "cache").place == f"second: {raw}"
    assert sorted(path.name for path in raw.iterdir()) == sorted(f"{name}.gz" for name in IDX_FILES)
    assert [path for path in raw.parent.iterdir() if path != raw] == [], "temporary folders are removed"
    write(tmp_path / "system")
    assert find_fashion_mnist(None, tmp_path / "cache").place == f"cache: {raw}"
    assert find_fashion_mnist(None, tmp_path / "other").place == f"system copy: {tmp_path / 'system'}"
    assert calls == ["first", "second"], "nothing is downloaded while there is a copy"


def damaged_download(folder: Path) -> Path:
    (folder / IDX_FILES[0]).write_bytes(b"damaged")
    return folder


def interrupted_download(folder: Path) -> Path:
    (folder / IDX_FILES[0]).write_bytes(b"\0\0\x08")
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("download", "error"), [(damaged_download, DataError), (interrupted_download, KeyboardInterrupt)]
)
def test_a_failed_download_leaves_nothing(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, download: object, error: type[BaseException]
) -> None:
    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", (("net", download),))
    with pytest.raises(error) as caught:
        find_fashion_mnist(None, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    if error is DataError:
        for key in ("cache:", "system copy:", "net:", "dataset-fashion-mnist", fashion_mnist.URL, "FMNAS_DATA="):
            assert key in str(caught.value)


def test_another_process_may_be_faster(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / "cache" / "FashionMNIST" / "raw"

    def download(folder: Path) -> Path:
        write(raw)
        return write(folder / "x")

    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", (("net", download),))
    assert find_fashion_mnist(None, tmp_path / "cache").place == f"net: {raw}"


@pytest.mark.parametrize(
    ("place", "damage", "name"),
    [
        ("given", "missing", IDX_FILES[1]),
        ("given", "missing", IDX_FILES[2]),
        ("cache/FashionMNIST/raw", "truncated", IDX_FILES[0]),
        ("system", "altered", IDX_FILES[3]),
    ],
)
def test_damaged_data_are_an_error_that_names_the_place(
    tmp_path: Path, write: Write, place: str, damage: str, name: str
) -> None:
    path = write(tmp_path / place) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(content[:-3] if damage == "truncated" else content[:-1] + b"\xff")
    with pytest.raises(DataError, match=str(path.parent)):
        find_fashion_mnist(path.parent if place == "given" else None, tmp_path / "cache")


def test_the_environment_names_cache_and_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = Path("~").expanduser()
    for key in ("FMNAS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(key, raising=False)
    assert default_cache() == home / ".cache" / "fmnas"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert default_cache() == Path("/x/fmnas")
    monkeypatch.setenv("FMNAS_CACHE", "~/y")
    assert default_cache() == home / "y"
    monkeypatch.setenv("FMNAS_DATA", str(tmp_path / "absent"))
    with pytest.raises(DataError, match=str(tmp_path / "absent")):
        fashion_mnist_set()


def test_without_a_home_the_cache_is_a_temporary_folder(
    tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in many containers: no HOME, and no entry in the user database."""

    def unknown(_: object) -> None:
        raise KeyError

    for key in ("HOME", "FMNAS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert default_cache() == Path(tempfile.gettempdir()) / "fmnas"
    with pytest.raises(DataError, match="FMNAS_CACHE"):
        find_fashion_mnist(None, default_cache())
    write(tmp_path / "system")
    assert find_fashion_mnist(None, tmp_path / "cache").place == f"system copy: {tmp_path / 'system'}"


def test_the_four_files_are_downloaded(tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "server", packed=True)
    monkeypatch.setattr(fashion_mnist, "URL", source.as_uri())
    folder = fashion_mnist._download_files(tmp_path)
    for name in IDX_FILES:
        assert np.array_equal(read_idx(folder / f"{name}.gz"), read_idx(source / f"{name}.gz"))


@pytest.mark.parametrize(
    ("apt", "dpkg", "reason"),
    [
        ("echo 'E: Unable to locate' >&2; exit 100", "exit 0", "E: Unable to locate"),
        ("echo >a.deb", "echo 'not a deb' >&2; exit 2", "not a deb"),
        (None, None, "apt-get"),
        ("case $* in *download*) echo >a.deb;; *) exit 100;; esac", '/bin/mkdir -p raw; echo "$@" >raw/asked', ""),
    ],
)
def test_the_package_is_unpacked_without_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Write, apt: str | None, dpkg: str | None, reason: str
) -> None:
    """With scripts for apt-get and dpkg-deb; the last ones succeed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(fashion_mnist, "PACKAGE_FOLDER", Path("raw"))
    for name, script in (("apt-get", apt), ("dpkg-deb", dpkg)):
        if script:
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)
    if not reason:
        assert (fashion_mnist._download_package(tmp_path) / "asked").read_text().split() == ["-x", "a.deb", "."]
        return
    monkeypatch.setattr(fashion_mnist, "DOWNLOADS", (("apt package", fashion_mnist._download_package),))
    with pytest.raises(DataError, match=f"apt package: .*{reason}"):
        find_fashion_mnist(None, tmp_path / "cache")


def test_the_real_data_set() -> None:
    try:
        source = fashion_mnist_set()
    except DataError as error:
        if "not found" not in str(error):
            raise
        pytest.skip(str(error))
    assert np.bincount(source.labels).tolist() == [6_000] * 10
    assert np.bincount(source.test_labels).tolist() == [1_000] * 10
    assert source.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert source.images.mean() == pytest.approx(72.9404, abs=1e-4)
    assert not source.images.flags.writeable
