"""Random crops and flips of a batch, as one gather on the training device; and normalisation.

An image is padded by 4 black pixels on each side, cropped back to 28x28 at a random place, and mirrored half the time.
Draws are made on the CPU, for a whole epoch at once, so that every device sees the same ones.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from fmnas.trainers.images.network import IMAGE_SIZE

PADDING = 4
MEAN, STANDARD_DEVIATION = 0.1307, 0.3081  # MNIST's, which the paper's code uses for FashionMNIST, too


@dataclass(frozen=True)
class Crops:
    """What is drawn for n images: the crop's first row and column in the padded image, 0..8, and whether to mirror.

    top [n], left [n]: int64. mirrored [n]: bool.
    """

    top: Tensor
    left: Tensor
    mirrored: Tensor

    def __getitem__(self, part: slice) -> "Crops":
        """The draws of some of the images."""
        return Crops(self.top[part], self.left[part], self.mirrored[part])

    def to(self, device: torch.device) -> "Crops":
        """The same draws on another device."""
        return Crops(self.top.to(device), self.left.to(device), self.mirrored.to(device))


def draw_crops(count: int, generator: torch.Generator) -> Crops:
    """Independent uniform draws for `count` images."""
    top, left = torch.randint(0, 2 * PADDING + 1, (2, count), generator=generator)
    mirrored = torch.randint(0, 2, (count,), generator=generator).bool()
    return Crops(top, left, mirrored)


def crop(images: Tensor, crops: Crops) -> Tensor:
    """Images [B, 28, 28] uint8, padded, cropped and mirrored as drawn: [B, 28, 28] uint8."""
    padded = functional.pad(images, (PADDING,) * 4)
    windows = padded.unfold(1, IMAGE_SIZE, 1).unfold(2, IMAGE_SIZE, 1)  # [B, 9, 9, 28, 28], a view
    cropped = windows[torch.arange(len(images), device=images.device), crops.top, crops.left]
    return torch.where(crops.mirrored[:, None, None], cropped.flip(-1), cropped)


def normalise(images: Tensor) -> Tensor:
    """Images [B, 28, 28] uint8 as the network takes them: [B, 1, 28, 28] float32, standardised."""
    return images.unsqueeze(1).float().div_(255.0).sub_(MEAN).div_(STANDARD_DEVIATION)
