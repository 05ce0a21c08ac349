"""What a GPU computed is what a CPU computes, where the images are normalised as the GPU does it."""

import json
from pathlib import Path

import pytest
import torch
from gpu_checks import STEPS, Plan, checked_cells, learner_of, plain_losses, stacked_losses
from torch import Tensor
from training_gpu import noise

from fmnas.trainers.images import multi_seed
from fmnas.trainers.images.model import MEAN, STANDARD_DEVIATION

RESULTS = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results" / "gpu"


def normalise_as_cuda(images: Tensor) -> Tensor:
    """A product with the reciprocal in place of each division."""
    return images.unsqueeze(1).float().mul_(1 / 255.0).sub_(MEAN).mul_(1 / STANDARD_DEVIATION)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "conv1x1", "conv3x3", "random 1"])
def test_losses_of_the_first_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the largest difference to the plain loop. It is as large here, for the same cause."""
    checks = json.loads((RESULTS / "h200_checks.json").read_text())["parts"]["equality"]["rows"]
    plan, cell = Plan("cpu"), checked_cells()[name]
    split = noise(STEPS * plan.batch + plan.batch // 2)
    plain = plain_losses(cell, split, plan)
    monkeypatch.setattr(multi_seed, "normalise", normalise_as_cuda)
    stacked = stacked_losses(learner_of(cell, split, plan, capture=False, dtype=torch.float64), plan)
    apart = max(abs(a - b) for a, b in zip(stacked, plain, strict=True))
    assert apart == pytest.approx(checks[name]["losses_apart"], abs=1e-9)
