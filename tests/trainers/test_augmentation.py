"""Crops and flips equal a slow reference, image by image."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.trainers.images.batches import crop, draw_crops
from fmnas.trainers.images.model import normalise

DRAWS = st.tuples(st.integers(0, 8), st.integers(0, 8), st.booleans())


def cropped_slowly(image: np.ndarray, top: int, left: int, mirrored: bool) -> np.ndarray:
    """Pad, cut, mirror: one image."""
    cut = np.pad(image, 4)[top : top + 28, left : left + 28]
    return cut[:, ::-1] if mirrored else cut


@given(draws=st.lists(DRAWS, min_size=1, max_size=6), seed=st.integers(0, 9))
@settings(deadline=None)
def test_a_batch_equals_its_images_one_by_one(draws: list[tuple[int, int, bool]], seed: int) -> None:
    images = np.random.default_rng(seed).integers(0, 256, (len(draws), 28, 28), dtype=np.uint8)
    result = crop(torch.from_numpy(images), torch.tensor(draws, dtype=torch.int64).T)
    assert result.dtype == torch.uint8
    for got, image, draw in zip(result.numpy(), images, draws, strict=True):
        np.testing.assert_array_equal(got, cropped_slowly(image, *draw))


def test_draws_cover_every_place_evenly_and_follow_the_generator() -> None:
    crops = draw_crops(9_000, torch.Generator().manual_seed(1))
    top, left, mirrored = crops
    for offsets in (top, left):
        counts = np.bincount(offsets.numpy(), minlength=9)
        assert len(counts) == 9
        assert counts.min() > 850, "each of the 9 places about 1,000 times"
        assert counts.max() < 1_150
    assert 0.47 < mirrored.float().mean() < 0.53
    assert abs(np.corrcoef(top, left)[0, 1]) < 0.05
    assert torch.equal(crops, draw_crops(9_000, torch.Generator().manual_seed(1)))
    assert not torch.equal(top, draw_crops(9_000, torch.Generator().manual_seed(2))[0])


def test_normalised_images_have_the_known_scale() -> None:
    images = torch.tensor([0, 51, 255], dtype=torch.uint8).reshape(3, 1, 1).expand(3, 28, 28)
    result = normalise(images)
    assert result.shape == (3, 1, 28, 28)
    expected = [(value - 0.1307) / 0.3081 for value in (0.0, 0.2, 1.0)]  # mean and standard deviation of MNIST
    torch.testing.assert_close(result[:, 0, 5, 5], torch.tensor(expected))
    assert images[1, 0, 0] == 51, "the images are not changed"
