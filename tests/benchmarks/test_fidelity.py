"""The noise of trainings beside the differences that it hides: known variances are found again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fidelity import agreement, agreement_across, halves_of, measure_spread, pair_errors

from fmnas.trainers.recorded_table import RecordedTable, read_table

RECORDED = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "results" / "recorded"
UNIFORM = RECORDED / "uniform_800_images_3_epochs.npz"


def test_each_half_chooses_once() -> None:
    halves = halves_of(4)
    assert len(halves) == len({tuple(chooses) for chooses, _ in halves}) == 6
    assert all(sorted([*chooses, *measures]) == [0, 1, 2, 3] for chooses, measures in halves)


@pytest.mark.parametrize("share", [1.0, 0.1])
def test_known_variances_are_found(share: float) -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.0, 1.0, 20_000)
    errors = truth[:, None] + rng.normal(0.0, 0.01, (20_000, 4))
    spread = measure_spread(errors, share)
    assert spread.noise == pytest.approx(0.005, rel=0.02)
    assert spread.truth == pytest.approx(share / np.sqrt(12), rel=0.05)


def test_noise_alone_is_no_difference() -> None:
    """Choosing the best of what is all the same must not look like a difference."""
    errors = np.random.default_rng(1).normal(0.3, 0.02, (5_000, 4))
    assert measure_spread(errors, 0.1).truth < 0.003
    assert abs(agreement(errors[:500])) < 0.1


def select(table: RecordedTable, rows: Sequence[int]) -> RecordedTable:
    return replace(table, arrays={name: v if v.ndim == 0 else v[rows].copy() for name, v in table.arrays.items()})


def test_the_same_configurations_are_paired() -> None:
    """In another order, and without those that diverged, failed or were shorter in one of the tables."""
    table = read_table(UNIFORM)
    rows = np.random.default_rng(0).permutation(len(table))[:100]
    shuffled = select(table, rows.tolist())
    for name, value in (("diverged", True), ("status", "failed"), ("epochs", 1)):
        shuffled.arrays[name][{"diverged": 0, "status": 1, "epochs": 2}[name]] = value
    first, second = pair_errors(table, shuffled)
    assert len(first) == 97
    assert np.array_equal(first, second)


def test_a_configuration_that_was_trained_twice_is_refused() -> None:
    table = read_table(UNIFORM)
    with pytest.raises(ValueError, match="3 full trainings of 2 configurations"):
        pair_errors(table, select(table, [0, 1, 0]))


def test_across_fidelities_the_noise_is_the_same() -> None:
    """Two fidelities that differ in their noise alone agree as well as the halves of one do."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(2_000, 1))
    first, second = (truth + rng.normal(0.0, 1.0, (2_000, 4)) for _ in range(2))
    assert agreement_across(first, second) == pytest.approx(agreement(first), abs=0.03)
    assert agreement_across(first, -second) == pytest.approx(-agreement(first), abs=0.03)
