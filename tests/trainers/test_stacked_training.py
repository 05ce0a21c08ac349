"""Trainings in one program equal the plain ones: operation by operation, step by step, and when one diverges."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.search_spaces import Cell, Schedule, joint_space, largest_cell
from fmnas.search_spaces.cell import OPERATIONS
from fmnas.trainers import Split, build_network, digits_split
from fmnas.trainers.captured import CaptureError
from fmnas.trainers.network import Network
from fmnas.trainers.stacked_network import Stack
from fmnas.trainers.stacked_training import StackedLearner
from fmnas.trainers.training import (
    DeviceData,
    Learner,
    Surroundings,
    plain_learner,
    streams,
    to_device,
    train_step,
    training_batches,
)

CPU, SEEDS = torch.device("cpu"), 3
SCHEDULE = Schedule(0.02, 0.9, 1e-3, 0.5, 0.5, 0.5)
RNG, SPACE = np.random.default_rng(5), joint_space()
RANDOM = {f"random{i}": Cell.from_configuration(SPACE.sample(RNG)) for i in range(6)}
CHAINS = {name: replace(largest_cell(), operations=((name, name),) * 4) for name in OPERATIONS}
DEAD = {"dead states": replace(largest_cell(), inputs=((-1, 0), (0, 1), (1, 2), (0, 1)), output=1)}
CELLS = {**CHAINS, **DEAD, **RANDOM}


@pytest.fixture(scope="module")
def digits() -> DeviceData:
    return to_device(digits_split(200, 150), CPU)


def networks_of(cell: Cell, dtype: torch.dtype = torch.float32) -> list[Network]:
    return [build_network(cell, torch.Generator().manual_seed(seed)).to(dtype) for seed in range(SEEDS)]


def stacked(networks: list[Network], cell: Cell, around: Surroundings) -> StackedLearner:
    draws = [streams(1, number) for number in range(len(networks))]
    return StackedLearner(Stack(networks, cell, CPU), SCHEDULE, draws, around)


def both(name: str, data: DeviceData, batch: int, dtype: torch.dtype) -> tuple[StackedLearner, list[Learner]]:
    """A stack of networks, and as many plain learners with the same weights and draws."""
    cell, around = CELLS[name], Surroundings(data, batch, 40)
    plain = [plain_learner(n, SCHEDULE, streams(1, i), around) for i, n in enumerate(networks_of(cell, dtype))]
    return stacked(networks_of(cell, dtype), cell, around), plain


def weights_of(plain: list[Learner], learner: StackedLearner) -> Tensor:
    """The plain learners' weights in the order of the stack's."""
    states = [one._network.state_dict() for one in plain]
    names = [name for name, _ in learner._stack.named_weights()]
    return torch.cat([torch.cat([state[name] for state in states]).flatten() for name in names])


def begin(learner: StackedLearner, rate: float) -> None:
    learner._stack.train()
    learner._draw_epoch()
    learner._rate.fill_(rate)


@pytest.mark.parametrize("name", CELLS)
def test_a_step_is_the_plain_one(digits: DeviceData, name: str) -> None:
    learner, plain = both(name, digits, 8, torch.float32)
    begin(learner, SCHEDULE.learning_rate)
    before = learner._stack.weights.detach().clone()
    assert torch.equal(before, weights_of(plain, learner))
    losses = learner.step(8)
    expected = []
    for number, one in enumerate(plain):
        one._network.train()
        images, labels = next(training_batches(digits, streams(1, number), 8))
        expected.append(train_step(one._network, one._optimizer, images, labels))
    assert losses.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    moved, should = learner._stack.weights.detach() - before, weights_of(plain, learner) - before
    torch.testing.assert_close(moved, should, rtol=1e-3, atol=1e-4 * float(should.abs().max()))
    for key, values in learner._stack.statistics.items():
        theirs = torch.cat([one._network.state_dict()[key] for one in plain])
        torch.testing.assert_close(values, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CELLS)
def test_twenty_steps_in_double_precision(digits: DeviceData, name: str) -> None:
    learner, plain = both(name, digits, 3, torch.float64)
    begin(learner, 1e-3)
    losses = torch.stack([learner.step(3) for _ in range(20)], dim=1)
    for number, one in enumerate(plain):
        one._network.train()
        one._optimizer.param_groups[0]["lr"] = 1e-3
        batches = training_batches(digits, streams(1, number), 3)
        steps = [train_step(one._network, one._optimizer, x.double(), y) for (x, y), _ in zip(batches, range(20))]  # noqa: B905
        assert steps[0] != steps[-1]
        assert losses[number].tolist() == pytest.approx(steps, rel=1e-6, abs=1e-6)
    torch.testing.assert_close(learner._stack.weights.detach(), weights_of(plain, learner), rtol=1e-6, atol=1e-7)
