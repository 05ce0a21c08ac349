"""Final trainings: which images they see, what they measure, and that it is measured on the test images alone."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Trial
from fmnas.trainers import DataError
from fmnas.trainers.images import data
from fmnas.trainers.images.data import digits_set, fashion_mnist_set, final_split, search_split
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer, TrainingSettings
from fmnas.trainers.images.training import Learner
from fmnas.trainers.split import ImageSet, Split

MakeTrial = Callable[..., Trial]
COUNT = 60


def numbered(first: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images that are each filled with its own number, and their labels."""
    images = np.broadcast_to(np.arange(first, first + count, dtype=np.uint8)[:, None, None], (count, 28, 28))
    return images, (np.arange(count) % 10).astype(np.uint8)


@pytest.fixture(scope="module", autouse=True)
def _numbered_source() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    source = ImageSet("fashion_mnist", "cache: here", *numbered(0, COUNT), *numbered(100, 15))
    patch.setattr(data, "find_fashion_mnist", lambda root, cache: source)
    yield
    patch.undo()


def numbers(images: np.ndarray) -> list[int]:
    return [int(image[0, 0]) for image in images]


@given(given_=st.data())
def test_the_searchs_own_images_come_first_and_the_test_images_are_all(given_: st.DataObject) -> None:
    train = given_.draw(st.integers(1, COUNT - 1))
    validation = given_.draw(st.integers(1, COUNT - train))
    images = given_.draw(st.integers(1, COUNT))
    found = fashion_mnist_set()
    search, final = search_split(found, train, validation), final_split(found, train, validation, images)
    both = [*numbers(search.train_inputs), *numbers(search.held_out_inputs)]
    chosen = numbers(final.train_inputs)
    assert len(set(chosen)) == len(chosen) == images
    assert chosen[: len(both)] == both[:images]
    assert final.train_labels.tolist() == [number % 10 for number in chosen]
    assert numbers(final.held_out_inputs) == list(range(100, 115))


@pytest.mark.parametrize("images", [0, -1, COUNT + 1])
def test_a_number_of_images_that_does_not_fit_is_named(images: int) -> None:
    with pytest.raises(DataError, match=f"images = {images}: it must be from 1 to {COUNT}"):
        final_split(fashion_mnist_set(), 20, 20, images)


def test_digits_are_tested_on_what_the_search_left_alone() -> None:
    digits = digits_set()
    search, final = search_split(digits, 1000, 300), final_split(digits, 1000, 300, 1300)
    assert np.array_equal(final.train_inputs, np.concatenate([search.train_inputs, search.held_out_inputs]))
    labels = np.concatenate([search.train_labels, search.held_out_labels, final.held_out_labels])
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    with pytest.raises(DataError, match="images = 1301: it must be from 1 to 1300"):
        final_split(digits, 1000, 300, 1301)
    with pytest.raises(DataError, match="none is left to test on"):
        final_split(digits, 1000, 797, 10)


@pytest.fixture
def final(noise_split: Split) -> Split:
    return Split(
        noise_split.train_inputs,
        noise_split.train_labels,
        noise_split.held_out_inputs,
        noise_split.held_out_labels,
        "noise",
        "a test",
        for_tests=True,
    )


@pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])
def test_it_is_the_last_error_of_the_same_trainings(
    arrangement: str, noise_split: Split, final: Split, make_trial: MakeTrial
) -> None:
    settings = TrainingSettings(seeds=2, batch_size=8, arrangement=arrangement)
    usual = ImageTrainer(noise_split, settings).evaluate(make_trial(epochs=3))
    reports: list[tuple[int, int, float]] = []
    evaluation = FinalTrainer(final, settings).evaluate(make_trial(epochs=3), lambda *report: reports.append(report))
    assert evaluation.errors == usual.errors
    assert evaluation.curve == (usual.curve[-1],)
    assert (evaluation.epochs, evaluation.objective) == (3, usual.objective)
    assert sorted(reports) == [(0, 3, usual.errors[0]), (1, 3, usual.errors[1])]


@pytest.mark.parametrize(("where", "bad", "most"), [("train_epoch", False, 2), ("validation_error", None, 1)])
def test_a_training_that_diverges_has_the_error_of_guessing(
    where: str, bad: object, most: int, final: Split, make_trial: MakeTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = getattr(Learner, where), iter(range(100))
    monkeypatch.setattr(Learner, where, lambda *a: bad if next(calls) == most - 1 else real(*a))
    evaluation = FinalTrainer(final, TrainingSettings(seeds=1, batch_size=8)).evaluate(make_trial(epochs=4))
    assert evaluation.diverged
    assert evaluation.errors == (0.9,)
    assert next(calls) == most, "it ends there"


def test_arrays_that_are_no_split_are_named(final: Split) -> None:
    with pytest.raises(DataError, match="noise, test part: 17 inputs, labels"):
        replace(final, held_out_labels=final.held_out_labels[1:])
