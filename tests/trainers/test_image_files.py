"""Images that a user provides: read from a folder or a file, and what is wrong with others."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images.data import final_split, search_split
from fmnas.trainers.images.image_files import ARRAYS, IDX_FILES, dataset_name, load_user_images
from fmnas.trainers.images.problem import joint
from fmnas.trainers.problem import DataSettings, ProblemSettings

COUNT, TESTS = 30, 4
IMAGES = np.arange(COUNT, dtype=np.uint8)[:, None, None] * np.ones((28, 28), dtype=np.uint8)
LABELS = np.arange(COUNT) % 10
COMPLETE: dict[str, Any] = dict(zip(ARRAYS, (IMAGES, LABELS, IMAGES[:TESTS] + 100, LABELS[:TESTS]), strict=True))
BYTES = [array.astype(np.uint8) for array in COMPLETE.values()]


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_a_file_and_folders_of_the_same_arrays_are_the_same_set(tmp_path: Path, write_idx: Callable[..., Path]) -> None:
    folders = write_idx(tmp_path / "b", *BYTES), write_idx(tmp_path / "c", *BYTES, packed=True)
    sets = [load_user_images("own", root) for root in (npz(tmp_path / "a.npz", **COMPLETE), *folders)]
    assert [source.name for source in sets] == ["a.npz", "b", "c"]
    assert len({source.digest for source in sets}) == 1
    for source in sets:
        for name in ARRAYS:
            assert np.array_equal(getattr(source, name), COMPLETE[name])
            assert getattr(source, name).dtype == np.uint8


def test_the_digest_is_of_every_array(tmp_path: Path) -> None:
    changed = [
        COMPLETE,
        {**COMPLETE, "labels": (LABELS + 1) % 10},
        {**COMPLETE, "images": IMAGES + np.uint8(1)},
        {**COMPLETE, "test_labels": LABELS[1 : TESTS + 1]},
        {key: COMPLETE[key] for key in ARRAYS[:2]},
    ]
    sets = [load_user_images("own", npz(tmp_path / f"{i}.npz", **arrays)) for i, arrays in enumerate(changed)]
    assert len({source.digest for source in sets}) == len(changed)
    assert sets[0].digest == "b1540bdd4a9bf15dec684c8c288259ca2206558e31a57b39665e22f33e3754b4"


def test_splits_carry_the_digest_and_the_test_images(tmp_path: Path) -> None:
    source = load_user_images("own", npz(tmp_path / "a.npz", **COMPLETE))
    search, final = search_split(source, 10, 5), final_split(source, 10, 5, 20)
    for split in (search, final):
        assert (split.name, split.digest) == ("a.npz", source.digest)
        assert split.place == f"given: {tmp_path / 'a.npz'}, SHA-256 {source.digest}"
    assert np.array_equal(final.train_inputs[:15], np.concatenate([search.train_inputs, search.held_out_inputs]))
    assert np.array_equal(final.held_out_inputs, COMPLETE["test_images"])


def test_without_test_images_the_final_split_is_an_error(tmp_path: Path) -> None:
    root = npz(tmp_path / "a.npz", images=IMAGES, labels=LABELS)
    source = load_user_images("own", root)
    assert len(search_split(source, 10, 5).train_inputs) == 10
    with pytest.raises(DataError, match=rf"{root}.*test_images and test_labels"):
        final_split(source, 10, 5, 10)


@pytest.mark.parametrize("name", ["mnist", "kmnist"])
def test_a_set_known_by_name_is_found_where_torchvision_has_it(
    name: str, tmp_path: Path, write_idx: Callable[..., Path]
) -> None:
    root = write_idx(tmp_path / name.upper() / "raw", *BYTES).parents[1]
    source = load_user_images(name, root)
    assert (source.name, len(source.images)) == (name, COUNT)
    assert load_user_images(name, write_idx(tmp_path / "train", *BYTES[:2])).test_images is None


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"images": IMAGES / 255.0}, "images is float64"),
        ({"images": IMAGES[:, :27]}, r"images is uint8 \[30, 27, 28\]"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "images is"),
        ({"labels": LABELS + 1}, "labels is from 1 to 10"),
        ({"labels": LABELS[:, None]}, "labels is"),
        ({"labels": LABELS[1:]}, "30 images and 29 labels"),
        ({"labels": LABELS.astype(object)}, "Object arrays"),
        ({"test_labels": LABELS}, "4 test_images and 30 test_labels"),
        ({"test_images": None}, "None test_images and 4 test_labels"),
        ({"labels": None, "y": LABELS}, "30 images and None labels"),
    ],
)
def test_invalid_arrays_are_named(changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    arrays = {name: value for name, value in {**COMPLETE, **changes}.items() if value is not None}
    root = npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=f"^{root}: .*{key}"):
        load_user_images("own", root)


def test_unreadable_files_are_named(tmp_path: Path, write_idx: Callable[..., Path]) -> None:
    content = npz(tmp_path / "a.npz", **COMPLETE).read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "altered.npz").write_bytes(content[:5000] + b"?" + content[5001:])
    (tmp_path / "text.npz").write_text("images, labels\n")
    np.save(tmp_path / "one.npy", IMAGES)
    with zipfile.ZipFile(tmp_path / "members.npz", "w") as file:
        file.writestr("images", "x")
        file.writestr("labels", "y")
    write_idx(tmp_path / "half", BYTES[0])
    (write_idx(tmp_path / "torn", *BYTES) / IDX_FILES[0]).write_bytes(b"\0\0\x08\x03")
    for name in ("cut.npz", "altered.npz", "text.npz", "one.npy", "members.npz", "half", "torn", "absent", "x" * 300):
        with pytest.raises(DataError, match=f"{tmp_path / name}: "):
            load_user_images("own", tmp_path / name)


@pytest.mark.parametrize(("root", "name"), [("..", "above"), ("~", "above"), ("a.npz", "a.npz")])
def test_a_custom_set_is_named_by_its_place(
    root: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "above" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here.parent))
    assert dataset_name("own", Path(root)) == name
    settings = ProblemSettings(DataSettings("own", root, 10, 5, 4), flops_weight=0.0)
    assert joint(settings).dataset == name


def test_an_unknown_name_is_refused() -> None:
    problem = joint(ProblemSettings(DataSettings("cifar10", None, 10, 5, 4), flops_weight=0.0))
    assert problem.load_final is not None
    for load in (problem.load, lambda: problem.load_final(10)):
        with pytest.raises(DataError, match=r"data\.name = cifar10.*fashion_mnist"):
            load()
