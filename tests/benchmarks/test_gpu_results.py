"""What a GPU computed is what a CPU computes, where the images are normalised as the GPU does it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from gpu_checks import STEPS, Plan, checked_cells, learner_of, plain_losses, stacked_losses
from torch import Tensor
from training_gpu import noise

from fmnas.trainers.images import multi_seed
from fmnas.trainers.images.model import MEAN, STANDARD_DEVIATION

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "gpu"


def normalise_as_cuda(images: Tensor) -> Tensor:
    """A product with the reciprocal in place of each division."""
    return images.unsqueeze(1).float().mul_(1 / 255.0).sub_(MEAN).mul_(1 / STANDARD_DEVIATION)


def read_part(file: str, part: str) -> Any:
    return json.loads((RESULTS / file).read_text())["parts"][part]["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["identity", "conv1x1", "conv3x3", "random 1"])
def test_losses_of_the_first_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the largest difference to the plain loop. It is as large here, for the same cause."""
    checks = read_part("h200_checks.json", "equality")
    plan, cell = Plan("cpu"), checked_cells()[name]
    split = noise(STEPS * plan.batch + plan.batch // 2)
    plain = plain_losses(cell, split, plan)
    monkeypatch.setattr(multi_seed, "normalise", normalise_as_cuda)
    stacked = stacked_losses(learner_of(cell, split, plan, capture=False, dtype=torch.float64), plan)
    apart = max(abs(a - b) for a, b in zip(stacked, plain, strict=True))
    assert apart == pytest.approx(checks[name]["losses_apart"], abs=1e-9)


def test_the_pages_have_the_equality() -> None:
    checks = read_part("h200_equality.json", "equality")
    assert all(check["ok"] for check in checks.values())
    apart = [check["losses_apart"] for check in checks.values() if "losses_apart" in check]
    digits, exponent = f"{max(apart):.1e}".split("e")
    bound = f"within {math.ceil(float(digits))}e{int(exponent)}"
    page, records = ((ROOT / "docs" / "cluster.md").read_text(), (RESULTS / "README.md").read_text())
    assert f"in double precision, {len(apart)} cells | {bound} |" in page
    assert f"all {len(apart)} cells were {bound}" in records


def test_the_pages_have_the_times() -> None:
    first, now = (read_part(file, "times")["gpu"]["alone"] for file in ("h200_first.json", "h200_times.json"))
    largest, *cells = now
    seconds, speedups = ([now[cell][key] for cell in now] for key in ("stacked", "speedup"))
    page = (ROOT / "docs" / "cluster.md").read_text()
    assert f"{min(seconds[1:]):.0f} to {max(seconds[1:]):.0f} seconds for three random cells" in page
    assert f"{seconds[0]:.0f} for the largest; {min(speedups):.0f} to {max(speedups):.0f} times as fast" in page
    for cell in (largest, *cells):
        both = [f"{run[cell]['stacked']:.0f}" for run in (first, now)]
        plain = ", ".join(f"{run[cell]['plain']:,.0f}" for run in (first, now))
        assert f"| {cell} | {' | '.join(both)} | {plain} |" in (RESULTS / "README.md").read_text()
    first, now = (read_part(file, "captures") for file in ("h200_first.json", "h200_checks.json"))
    records = " ".join((RESULTS / "README.md").read_text().split())
    before, after = ([f"{part[f'round {number}']['device_mb']:,.0f}" for number in (1, 2, 3)] for part in (first, now))
    assert "{}, {} and {} MB in use".format(*before) in records
    assert f"{after[0]} MB after each round" in records
    assert len(set(after)) == 1
