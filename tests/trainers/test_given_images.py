"""Sets of images that a user gives: read from a folder or a file, split, and what is wrong with others."""

import gzip
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.images import user_images as given
from fmnas.trainers.images.data import final_split, search_split
from fmnas.trainers.images.fashion_mnist import DATA_FILES
from fmnas.trainers.images.problem import joint
from fmnas.trainers.images.user_images import ARRAYS, read_given, title
from fmnas.trainers.problem import DataSettings, ProblemSettings
from fmnas.trainers.split import permutation

COUNT, TESTS = 30, 4
IMAGES = np.arange(COUNT, dtype=np.uint8)[:, None, None] * np.ones((28, 28), dtype=np.uint8)
LABELS = np.arange(COUNT) % 10
WHOLE: dict[str, Any] = {
    "images": IMAGES,
    "labels": LABELS,
    "test_images": IMAGES[:TESTS] + 100,
    "test_labels": LABELS[:TESTS],
}


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def folder(path: Path, names: tuple[str, ...] = ARRAYS, packed: bool = False, **arrays: Any) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, file in zip(ARRAYS, DATA_FILES, strict=True):
        if name in names:
            array = np.asarray({**WHOLE, **arrays}[name], dtype=np.uint8)
            content = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
            place = path / (f"{file.name}.gz" if packed else file.name)
            place.write_bytes(gzip.compress(content) if packed else content)
    return path


def test_a_file_and_folders_of_the_same_arrays_are_the_same_set(tmp_path: Path) -> None:
    roots = [npz(tmp_path / "a.npz", **WHOLE), folder(tmp_path / "b"), folder(tmp_path / "c", packed=True)]
    sets = [read_given("own", root) for root in roots]
    assert [found.name for found in sets] == ["a.npz", "b", "c"]
    assert len({found.digest for found in sets}) == 1
    for found in sets:
        for name in ARRAYS:
            assert np.array_equal(getattr(found, name), WHOLE[name])
            assert getattr(found, name).dtype == np.uint8


def test_the_digest_is_of_every_array(tmp_path: Path) -> None:
    changed = [
        WHOLE,
        {**WHOLE, "labels": (LABELS + 1) % 10},
        {**WHOLE, "images": IMAGES + np.uint8(1)},
        {**WHOLE, "test_labels": LABELS[1 : TESTS + 1]},
        {key: WHOLE[key] for key in ARRAYS[:2]},
    ]
    digests = {read_given("own", npz(tmp_path / f"{i}.npz", **arrays)).digest for i, arrays in enumerate(changed)}
    assert len(digests) == len(changed)


def test_it_is_split_as_any_other(tmp_path: Path) -> None:
    found = read_given("own", npz(tmp_path / "a.npz", **WHOLE))
    split, order = search_split(found, 10, 5), permutation(COUNT)
    assert [int(image[0, 0]) for image in split.train_inputs] == order[:10].tolist()
    assert [int(image[0, 0]) for image in split.held_out_inputs] == order[-5:].tolist()
    assert split.train_labels.tolist() == (order[:10] % 10).tolist()
    assert (split.name, split.digest) == ("a.npz", found.digest)
    assert split.place == f"given: {tmp_path / 'a.npz'}, SHA-256 {found.digest}"
    with pytest.raises(DataError, match=r"data\.train = 20, data.validation = 11: a\.npz has 30 images for both"):
        search_split(found, 20, 11)


def test_the_last_word_is_on_its_test_images(tmp_path: Path) -> None:
    found = read_given("own", npz(tmp_path / "a.npz", **WHOLE))
    search, final = search_split(found, 10, 5), final_split(found, 10, 5, 20)
    both = np.concatenate([search.train_inputs, search.held_out_inputs])
    assert np.array_equal(final.train_inputs[:15], both)
    assert len(np.unique(final.train_inputs[:, 0, 0])) == 20
    assert np.array_equal(final.held_out_inputs, WHOLE["test_images"])
    assert final.for_tests
    with pytest.raises(DataError, match="images = 31: it must be from 1 to 30"):
        final_split(found, 10, 5, 31)


def test_without_test_images_there_is_no_last_word(tmp_path: Path) -> None:
    for root in (npz(tmp_path / "a.npz", images=IMAGES, labels=LABELS), folder(tmp_path / "b", ARRAYS[:2])):
        found = read_given("own", root)
        assert len(search_split(found, 10, 5).train_inputs) == 10
        told = rf"data.root = {root}: it has no test images, .* give test_images and test_labels"
        with pytest.raises(DataError, match=told):
            final_split(found, 10, 5, 10)


@pytest.mark.parametrize("name", ["mnist", "kmnist"])
def test_a_set_known_by_name_has_its_number_of_images(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder(tmp_path / name.upper() / "raw").parents[1]  # as torchvision lays it out
    with pytest.raises(DataError, match=f"it has 30 images and 4 test images; {name} has 60000, 10000"):
        read_given(name, root)
    monkeypatch.setitem(given.KNOWN_SIZES, name, (COUNT, TESTS))
    assert read_given(name, root).name == name
    assert len(read_given(name, folder(tmp_path / "plain")).images) == COUNT
    assert read_given(name, folder(tmp_path / "train", ARRAYS[:2])).test_images is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": IMAGES / 255.0}, r"images are float64 \[30, 28, 28\]: they must be uint8 \[n, 28, 28\]"),
        ({"images": IMAGES[:, :27]}, r"images are uint8 \[30, 27, 28\]"),
        ({"images": IMAGES[:, None]}, r"images are uint8 \[30, 1, 28, 28\]"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, r"images are uint8 \[0, 28, 28\]"),
        ({"labels": LABELS + 1}, "labels are from 1 to 10: they must be from 0 to 9"),
        ({"labels": LABELS - 1}, "labels are from -1 to 8: they must be from 0 to 9"),
        ({"labels": LABELS.astype(float)}, r"labels are float64 \[30\]: they must be whole numbers"),
        ({"labels": LABELS[:, None]}, r"labels are int64 \[30, 1\]"),
        ({"labels": LABELS[1:]}, "it has 30 images and 29 labels: each image has one label"),
        ({"labels": LABELS.astype(object)}, r"it cannot be read as arrays of numbers \(Object arrays"),
        ({"test_labels": LABELS}, "it has 4 test_images and 30 test_labels"),
        ({"test_labels": None}, "it has test_images and no test_labels: give both, or neither"),
        ({"test_images": None}, "it has test_labels and no test_images: give both, or neither"),
        ({"labels": None, "y": LABELS}, "it has no array 'labels', but images, test_images, test_labels, y"),
    ],
)
def test_arrays_that_do_not_fit_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays = {key: value for key, value in {**WHOLE, **changes}.items() if value is not None}
    root = npz(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=f"^data.root = {root}: {message}"):
        read_given("own", root)


def test_a_member_that_is_no_array_is_named(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as file:
        file.writestr("images", "x")
        file.writestr("labels", "y")
    with pytest.raises(DataError, match=r"a\.npz: images are no array of numpy's"):
        read_given("own", tmp_path / "a.npz")


def test_a_folder_that_may_be_seen_and_not_entered_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(file: object, folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(given, "path_of", closed)
    for name in ("own", "mnist"):
        with pytest.raises(DataError, match=rf"data.root = {tmp_path}: it cannot be looked into \(Permission denied\)"):
            read_given(name, tmp_path)


@pytest.mark.parametrize(
    ("root", "called"), [(".", "here"), ("..", "above"), ("~", "above"), ("a.npz", "a.npz"), ("~nobody/b", "b")]
)
def test_a_set_is_called_by_where_it_is(
    root: str, called: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "above" / "here"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(here.parent))
    assert title("own", Path(root)) == called
    settings = ProblemSettings(DataSettings("own", root, 10, 5, 4), flops_weight=0.0)
    assert joint(settings).dataset == called


def test_a_name_that_is_of_no_set_is_refused() -> None:
    made = joint(ProblemSettings(DataSettings("cifar10", None, 10, 5, 4), flops_weight=0.0))
    assert made.load_final is not None
    for load in (made.load, lambda: made.load_final(10)):
        with pytest.raises(DataError, match=r"data\.name = cifar10: it must be fashion_mnist, digits, mnist"):
            load()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    whole = npz(tmp_path / "a.npz", **WHOLE).read_bytes()
    cut, altered, text = (tmp_path / f"{name}.npz" for name in ("cut", "altered", "text"))
    cut.write_bytes(whole[: len(whole) // 2])
    altered.write_bytes(whole[:5000] + b"?" + whole[5001:])
    text.write_text("images, labels\n")
    np.save(tmp_path / "one.npy", IMAGES)
    for root in (cut, text, tmp_path / "one.npy"):
        with pytest.raises(DataError, match=r"it is no \.npz file, or was cut off"):
            read_given("own", root)
    with pytest.raises(DataError, match=r"it cannot be read as arrays of numbers \(Bad CRC-32"):
        read_given("own", altered)
    with pytest.raises(DataError, match="there is no such file or folder; give a folder with train-images-idx3-ubyte"):
        read_given("own", tmp_path / "nowhere")
    with pytest.raises(DataError, match="it cannot be looked at"):
        read_given("own", Path("x" * 300))
    with pytest.raises(DataError, match="there is no train-labels-idx1-ubyte in it, nor"):
        read_given("own", folder(tmp_path / "half", ("images",)))
    whole_folder = folder(tmp_path / "torn")
    (whole_folder / DATA_FILES[0].name).write_bytes(b"\0\0\x08\x03")
    with pytest.raises(DataError, match="train-images-idx3-ubyte is truncated"):
        read_given("own", whole_folder)
