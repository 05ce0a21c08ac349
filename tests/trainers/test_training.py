"""The parts of a training: random generators, batches, a step, validation."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.trainers.contract import EvaluationStoppedError
from fmnas.trainers.images import batches
from fmnas.trainers.images.batches import DeviceData, Streams, streams, to_device, training_batches
from fmnas.trainers.images.model import normalise
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import Learner, TrainingContext, build_optimizer, train_step
from fmnas.trainers.split import Split

SCHEDULE = Schedule(0.1, 0.9, 0.01, 0.5, 0.5, 0.5)


@pytest.fixture
def held(noise_split: Split) -> DeviceData:
    """The noise on the CPU."""
    return to_device(noise_split, torch.device("cpu"))


class Linear(nn.Module):
    """A network of one layer, whose steps are easy to check."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(784, 10)
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, images: Tensor) -> Tensor:
        return self.layer(images.flatten(1))


def learner(network: nn.Module, held: DeviceData, batch_size: int) -> Learner:
    context = TrainingContext(held, batch_size, batch_size)
    return Learner(network, build_optimizer(network, SCHEDULE), streams(0, 0), context)


def first_numbers(draws: Streams) -> tuple[int, ...]:
    return tuple(
        int(torch.randint(2**40, (1,), generator=g)) for g in (draws.initialisation, draws.order, draws.augmentation)
    )


def test_streams_are_fixed_and_all_different() -> None:
    numbers = [first_numbers(streams(trial, number)) for trial in (0, 1, 2**60) for number in range(4)]
    assert len({value for triple in numbers for value in triple}) == 36
    assert first_numbers(streams(1, 0)) == numbers[4]


def test_data_share_memory_with_read_only_arrays(noise_split: Split, held: DeviceData) -> None:
    assert held.train_images.data_ptr() == noise_split.train_inputs.ctypes.data
    assert held.held_out_images.data_ptr() == noise_split.held_out_inputs.ctypes.data
    assert held.train_labels.tolist() == noise_split.train_labels.tolist()
    assert held.held_out_labels.dtype == torch.int64


def test_an_epoch_has_every_image_once_in_a_new_order(held: DeviceData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "crop", lambda images, crops: images)
    draws = streams(0, 0)
    orders = []
    for _ in range(2):
        epoch = list(training_batches(held, draws, 10))
        assert [len(labels) for _, labels in epoch] == [10, 10, 3]
        images, labels = (torch.cat(column) for column in zip(*epoch, strict=True))
        all_images = normalise(held.train_images)
        order = [int((all_images == image).flatten(1).all(1).nonzero()) for image in images]
        assert sorted(order) == list(range(23))
        assert labels.tolist() == held.train_labels[order].tolist()
        orders.append(order)
    assert orders[0] != orders[1]


def test_every_image_of_every_epoch_has_a_new_crop(held: DeviceData) -> None:
    """2 epochs of 12 equal images: 24 draws of 162 crops give more than 15 different ones."""
    same = DeviceData(held.train_images[:1].repeat(12, 1, 1), held.train_labels[:12], *[held.train_labels] * 2)
    draws = streams(0, 0)
    seen = [image for _ in range(2) for images, _ in training_batches(same, draws, 4) for image in images]
    assert len(seen) == 24
    assert len(torch.stack(seen).flatten(1).unique(dim=0)) > 15


def test_a_step_is_sgd_with_momentum_and_weight_decay(held: DeviceData) -> None:
    network = Linear()
    optimizer = build_optimizer(network, SCHEDULE)
    images, labels = normalise(held.train_images), held.train_labels
    flat, target = images.flatten(1), torch.eye(10)[labels]
    weight, velocity = torch.zeros(10, 784), torch.zeros(10, 784)
    bias, bias_velocity = torch.zeros(10), torch.zeros(10)
    for step in range(3):
        logits = flat @ weight.T + bias
        residual = (logits.softmax(1) - target) / len(flat)
        expected = -(logits.log_softmax(1) * target).sum(1).mean().item()
        assert train_step(network, optimizer, images, labels) == pytest.approx(expected, rel=1e-4), step
        velocity = 0.9 * velocity + residual.T @ flat + 0.01 * weight
        bias_velocity = 0.9 * bias_velocity + residual.sum(0) + 0.01 * bias
        weight, bias = weight - 0.1 * velocity, bias - 0.1 * bias_velocity
        torch.testing.assert_close(network.layer.weight.detach(), weight, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("batch_size", [1, 5, 17, 100])
def test_validation_error_is_the_share_of_wrong_answers(held: DeviceData, batch_size: int) -> None:
    network = Linear()
    with torch.no_grad():
        network.layer.bias[7] = 1.0  # always predicts 7
    wrong = sum(label != 7 for label in held.held_out_labels.tolist())
    assert 0 < wrong < 17
    assert learner(network, held, batch_size).validation_error() == wrong / 17


class Overflowing(Linear):
    """One logit of its batch `at`, from 0, is infinite."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.batch = at, 0

    def forward(self, images: Tensor) -> Tensor:
        logits = super().forward(images).clone()
        if self.batch == self.at:
            logits[0, 3] = float("inf")
        self.batch += 1
        return logits


@pytest.mark.parametrize("at", [0, 1, 3])
def test_a_logit_that_is_not_finite_ends_a_training_for_good(held: DeviceData, at: int) -> None:
    """In any of 4 batches. Later epochs are neither trained nor validated, whatever they would give."""
    one = learner(Overflowing(at), held, 5)
    assert one.validation_errors() == [None]
    assert one.diverged() == [True]
    before = one._draws.order.get_state()
    assert one.train([0.1]) == [None]
    assert one.validation_errors() == [None]
    assert torch.equal(one._draws.order.get_state(), before)
    assert learner(Overflowing(4), held, 5).validation_errors() != [None]


@pytest.mark.parametrize("allowed", [0, 2])
def test_a_stop_ends_a_validation_before_its_next_batch(held: DeviceData, allowed: int) -> None:
    seen: list[Tensor] = []
    context = TrainingContext(held, 5, 5, stop=lambda: len(seen) == allowed)
    with pytest.raises(EvaluationStoppedError):
        seen.extend(images for images, _ in context.validation_batches(None))
    assert len(seen) == allowed


def test_validation_neither_learns_nor_depends_on_the_batch(held: DeviceData, make_trial: Callable[..., Trial]) -> None:
    network = build_network(Cell.from_configuration(make_trial().configuration), torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    errors = {learner(network, held, batch_size).validation_error() for batch_size in (1, 7, 17)}
    assert len(errors) == 1
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
