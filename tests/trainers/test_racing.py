"""Trials that race: stopped after their first trainings, or trained as any other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.checkpoints import Checkpoints
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.recorded import race

MakeTrial, MakeTrainer = Callable[..., Trial], Callable[..., ImageTrainer]
arrangements = pytest.mark.parametrize("arrangement", ["plain", "fast", "stacked"])


def first_of(trial: Trial, seeds: int, above: float) -> Trial:
    return replace(trial, first_seeds=seeds, stop_above=above)


@pytest.mark.slow
@arrangements
@pytest.mark.parametrize("first", [1, 2])
def test_a_trial_that_loses_has_its_first_trainings(
    make_trainer: MakeTrainer, make_trial: MakeTrial, arrangement: str, first: int
) -> None:
    trainer, trial = make_trainer(arrangement=arrangement), make_trial()
    whole, stopped = trainer.evaluate(trial), trainer.evaluate(first_of(trial, first, 0.0))
    assert (whole.share, stopped.share) == (1.0, first / 3)
    assert stopped.errors == pytest.approx(whole.errors[:first])
    assert stopped.objective == pytest.approx(sum(stopped.errors) / first + 0.02 * (whole.flops_ratio or 0))
    assert len(stopped.seed_curves) == first


@pytest.mark.slow
@arrangements
def test_a_trial_that_does_not_lose_is_as_any_other(
    make_trainer: MakeTrainer, make_trial: MakeTrial, arrangement: str
) -> None:
    trainer, trial = make_trainer(arrangement=arrangement, threads=1 + (arrangement == "fast")), make_trial()
    whole, raced = trainer.evaluate(trial), trainer.evaluate(first_of(trial, 1, 2.0))
    assert raced.share == 1.0
    assert torch.allclose(torch.tensor(raced.seed_curves), torch.tensor(whole.seed_curves), atol=1e-6)
    if arrangement != "stacked":
        assert raced == whole


@pytest.mark.slow
@pytest.mark.parametrize("arrangement", ["plain", "stacked"])
def test_a_race_continues_from_checkpoints(
    make_trainer: MakeTrainer, make_trial: MakeTrial, tmp_path: Path, arrangement: str
) -> None:
    class LostError(Exception):
        pass

    def lose(seed: int, epoch: int, error: float) -> None:
        if (seed, epoch) == (2, 1):
            raise LostError

    trial = first_of(make_trial(), 1, 2.0)
    checkpoints = Checkpoints(tmp_path, every=1)
    with pytest.raises(LostError):
        make_trainer(None, checkpoints, arrangement=arrangement).evaluate(trial, lose)
    assert list(tmp_path.iterdir())
    again = make_trainer(None, checkpoints, arrangement=arrangement).evaluate(trial)
    assert again == make_trainer(arrangement=arrangement).evaluate(trial)
    assert not list(tmp_path.iterdir())


RECORDED = Evaluation(
    0.35,
    epochs=2,
    errors=(0.5, 0.3, 0.3, 0.26),
    curve=(0.5, 0.34),
    seconds=8.0,
    seed_curves=((0.8, 0.5), (0.4, 0.3), (0.4, 0.3), (0.4, 0.26)),
)


def test_a_recorded_result_races_with_its_first_errors() -> None:
    trial = Trial(0, {}, epochs=2, origin="random")
    assert race(RECORDED, trial) == race(RECORDED, first_of(trial, 1, 0.52)) == RECORDED
    stopped = race(RECORDED, first_of(trial, 1, 0.5))
    assert stopped.objective == pytest.approx(0.51)  # 0.01 is not of the errors
    assert (stopped.errors, stopped.share, stopped.seconds) == ((0.5,), 0.25, 2.0)
    assert stopped.curve == pytest.approx((0.8, 0.5))
    two = race(RECORDED, first_of(trial, 2, 0.4))
    assert (two.objective, two.share, two.seconds) == pytest.approx((0.41, 0.5, 4.0))
    assert (two.errors, two.curve) == ((0.5, 0.3), pytest.approx((0.6, 0.4)))
    assert race(RECORDED, first_of(trial, 4, 0.0)) == RECORDED
