"""Finding FashionMNIST: the order of the places, and what counts as found. Small stand-ins, but for the last test."""

import gzip
import hashlib
import logging
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images import fashion_mnist
from fmnas.trainers.images.fashion_mnist import (
    DATA_FILES,
    DataFile,
    default_cache,
    find_fashion_mnist,
    path_from_environment,
)

SHAPES = ((6, 28, 28), (6,), (2, 28, 28), (2,))
Contents = dict[str, bytes]


@pytest.fixture
def contents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Contents:
    """The four files of a small FashionMNIST, which the module then takes for the real one; no system copy."""
    rng = np.random.default_rng(0)
    made = {}
    for file, shape in zip(DATA_FILES, SHAPES, strict=True):
        header = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
        made[file.name] = header + rng.integers(0, 10, shape, dtype=np.uint8).tobytes()
    small = tuple(
        DataFile(name, shape, hashlib.md5(content).hexdigest())
        for (name, content), shape in zip(made.items(), SHAPES, strict=True)
    )
    monkeypatch.setattr(fashion_mnist, "DATA_FILES", small)
    monkeypatch.setattr(fashion_mnist, "SYSTEM_FOLDER", tmp_path / "system")
    monkeypatch.setattr(fashion_mnist, "FETCHERS", ())
    return made


def write(folder: Path, contents: Contents, packed: bool = False) -> Path:
    """The files in a folder, gzipped if asked."""
    folder.mkdir(parents=True)
    for name, content in contents.items():
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def fetcher(contents: Contents, calls: list[str], name: str = "net") -> tuple[str, Callable[[Path], Path]]:
    """A fetcher that brings these contents, and notes that it was asked."""

    def fetch(folder: Path) -> Path:
        calls.append(name)
        return write(folder / "somewhere" / "deep", contents, packed=True)

    return name, fetch


def broken_fetcher(calls: list[str], name: str) -> tuple[str, Callable[[Path], Path]]:
    """A fetcher that fails half-way."""

    def fetch(folder: Path) -> Path:
        calls.append(name)
        (folder / DATA_FILES[0].name).write_bytes(b"\0\0\x08")
        raise DataError(f"{name} is out")

    return name, fetch


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_a_folder_given_is_used(
    tmp_path: Path, contents: Contents, packed: bool, below: str, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write(tmp_path / "mine" / below, contents, packed)
    write(tmp_path / "cache" / "FashionMNIST" / "raw", contents)
    with caplog.at_level(logging.INFO, "fmnas.trainers"):
        source = find_fashion_mnist(tmp_path / "mine", tmp_path / "cache")
    assert source.place == f"folder given: {folder}"
    assert f"FashionMNIST from the folder given: {folder}" in caplog.messages
    for array, shape, content in zip(
        (source.images, source.labels, source.test_images, source.test_labels),
        SHAPES,
        contents.values(),
        strict=True,
    ):
        assert array.shape == shape
        assert array.tobytes() == content[-array.size :]


@pytest.mark.parametrize("exists", [False, True])
def test_a_folder_given_without_data_is_an_error_though_the_cache_has_them(
    tmp_path: Path, contents: Contents, exists: bool
) -> None:
    write(tmp_path / "cache" / "FashionMNIST" / "raw", contents)
    root = tmp_path / "mine"
    if exists:
        root.mkdir()
    with pytest.raises(DataError, match=r"data.root .or FMNAS_DATA. = .*mine: .* It must hold train-im"):
        find_fashion_mnist(root, tmp_path / "cache")


def test_the_places_are_tried_in_order(tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fetchers = (broken_fetcher(calls, "first"), fetcher(contents, calls, "second"))
    monkeypatch.setattr(fashion_mnist, "FETCHERS", fetchers)
    cache = tmp_path / "cache"

    fetched = find_fashion_mnist(None, cache)
    assert calls == ["first", "second"]
    kept = cache / "FashionMNIST" / "raw"
    assert fetched.place == f"second: {kept}"
    assert sorted(path.name for path in kept.iterdir()) == sorted(f"{name}.gz" for name in contents)

    write(tmp_path / "system", contents)
    assert find_fashion_mnist(None, cache).place == f"cache: {kept}"
    assert find_fashion_mnist(None, tmp_path / "other cache").place == f"system copy: {tmp_path / 'system'}"
    assert calls == ["first", "second"], "nothing is fetched while there is a copy"


def test_a_failed_fetch_leaves_nothing_behind(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    altered = {**contents, DATA_FILES[2].name: contents[DATA_FILES[2].name][:-1] + b"\xff"}
    monkeypatch.setattr(fashion_mnist, "FETCHERS", (broken_fetcher([], "a"), fetcher(altered, [], "b")))
    with pytest.raises(DataError) as caught:
        find_fashion_mnist(None, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    message = str(caught.value)
    for part in (
        "found nowhere",
        f"cache: nothing in {tmp_path}",
        f"system copy: nothing in {tmp_path / 'system'}",
        "a: a is out",
        "was altered",
        "apt-get install dataset-fashion-mnist",
        "pip install torchvision",
        "FMNAS_DATA=",
    ):
        assert part in message


def test_an_interrupted_fetch_leaves_nothing_that_looks_whole(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path) -> Path:
        write(folder / "x", contents)
        raise KeyboardInterrupt

    monkeypatch.setattr(fashion_mnist, "FETCHERS", (("net", interrupted),))
    with pytest.raises(KeyboardInterrupt):
        find_fashion_mnist(None, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_another_process_that_was_faster_is_no_error(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "cache" / "FashionMNIST" / "raw"

    def slow(folder: Path) -> Path:
        write(kept, contents)
        return write(folder / "x", contents)

    monkeypatch.setattr(fashion_mnist, "FETCHERS", (("net", slow),))
    assert find_fashion_mnist(None, tmp_path / "cache").place == f"net: {kept}"


def test_a_cache_that_cannot_be_written_is_reported(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file, where the folder should be")
    monkeypatch.setattr(fashion_mnist, "FETCHERS", (fetcher(contents, [], "net"),))
    with pytest.raises(DataError, match=r"net: the cache .* cannot be written: Not a directory"):
        find_fashion_mnist(None, tmp_path / "cache")


@pytest.mark.parametrize("place", ["given", "cache", "system"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "is truncated"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"\xff"), "was altered"),
    ],
)
@pytest.mark.parametrize("file", DATA_FILES, ids=lambda file: file.name)
def test_damaged_data_are_an_error_that_names_the_file(
    tmp_path: Path, contents: Contents, place: str, damage: Callable[[Path], None], message: str, file: DataFile
) -> None:
    cache = tmp_path / "cache"
    folder = {"given": tmp_path / "given", "cache": cache / "FashionMNIST" / "raw", "system": tmp_path / "system"}[
        place
    ]
    damage(write(folder, contents) / file.name)
    with pytest.raises(DataError, match=message) as caught:
        find_fashion_mnist(folder if place == "given" else None, cache)
    assert str(folder / file.name) in str(caught.value)


def test_a_truncated_gzip_and_a_wrong_shape_are_told(tmp_path: Path, contents: Contents) -> None:
    folder = write(tmp_path / "x", contents, packed=True)
    path = folder / f"{DATA_FILES[0].name}.gz"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match=f"{DATA_FILES[0].name}.gz is truncated"):
        find_fashion_mnist(folder, tmp_path)
    path.write_bytes(gzip.compress(contents[DATA_FILES[2].name]))
    with pytest.raises(DataError, match=r"shape \(2, 28, 28\); FashionMNIST's is \(6, 28, 28\)"):
        find_fashion_mnist(folder, tmp_path)


def test_the_environment_moves_cache_and_root() -> None:
    home = Path("~").expanduser()
    assert default_cache({}) == home / ".cache" / "fmnas"
    assert default_cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/fmnas")
    assert default_cache({"XDG_CACHE_HOME": "/x", "FMNAS_CACHE": "~/y"}) == home / "y"
    assert path_from_environment("FMNAS_DATA", {"FMNAS_DATA": "/d"}) == Path("/d")
    assert path_from_environment("FMNAS_DATA", {"FMNAS_DATA": ""}) is None
    assert path_from_environment("FMNAS_DATA", {}) is None


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without HOME and without an entry in the list of users, as in many containers."""

    def unknown(_: object) -> None:
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


@pytest.mark.usefixtures("homeless")
def test_without_a_home_there_is_no_cache_and_the_other_places_are_searched(
    tmp_path: Path, contents: Contents, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert default_cache({}) is None
    assert default_cache({"FMNAS_CACHE": "/c"}) == Path("/c")
    with pytest.raises(DataError, match="FMNAS_CACHE = ~/y: that home folder is not known here: write the whole path"):
        default_cache({"FMNAS_CACHE": "~/y"})
    fetched: list[Path] = []
    monkeypatch.setattr(fashion_mnist, "FETCHERS", (("download", fetched.append),))
    with pytest.raises(DataError, match=r"found nowhere(?s:.*)home folder is not known here; FMNAS_CACHE=/a/folder"):
        find_fashion_mnist(None, default_cache({}))
    assert not fetched
    write(tmp_path / "system", contents)
    assert find_fashion_mnist(None, default_cache({})).place == f"system copy: {tmp_path / 'system'}"


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("~no-such-user/x", "that home folder is not known here: write the whole path"),
        ("x" * 300, r"cannot be looked at \(File name too long\): give one that you may read"),
    ],
)
def test_a_folder_given_that_cannot_be_looked_at_is_explained(
    root: str, words: str, tmp_path: Path, contents: Contents
) -> None:
    with pytest.raises(DataError, match=words):
        find_fashion_mnist(Path(root), tmp_path)


def test_a_cache_that_cannot_be_looked_at_does_not_hide_the_other_places(tmp_path: Path, contents: Contents) -> None:
    with pytest.raises(DataError, match=r"found nowhere(?s:.*)cache: x.*\(File name too long\)"):
        find_fashion_mnist(None, Path("x" * 300))
    write(tmp_path / "system", contents)
    assert find_fashion_mnist(None, Path("x" * 300)).place == f"system copy: {tmp_path / 'system'}"


def test_the_real_data_set() -> None:
    try:
        source = find_fashion_mnist(path_from_environment("FMNAS_DATA"), default_cache())
    except DataError as error:
        if "found nowhere" not in str(error):
            raise
        pytest.skip(str(error))
    assert np.bincount(source.labels).tolist() == [6_000] * 10
    assert np.bincount(source.test_labels).tolist() == [1_000] * 10
    assert source.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert source.images.mean() == pytest.approx(72.9404, abs=1e-4)
    assert not source.images.flags.writeable
