"""The pieces of a training: streams, batches, a step, the learning rate, validation, divergence."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fmnas.search_spaces import Cell, Schedule, Trial
from fmnas.trainers.images import batches, training
from fmnas.trainers.images.batches import DeviceData, Streams, normalise, streams, to_device, training_batches
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import Learner, TrainingContext, build_optimizer, train_step
from fmnas.trainers.split import Split

SCHEDULE = Schedule(0.1, 0.9, 0.01, 0.5, 0.5, 0.5)


@pytest.fixture
def held(noise_split: Split) -> DeviceData:
    """The noise on the CPU."""
    return to_device(noise_split, torch.device("cpu"))


class Linear(nn.Module):
    """A network of one layer, which makes steps easy to check."""

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


def one_epoch(network: nn.Module, held: DeviceData, batch_size: int, rate: float) -> bool:
    return learner(network, held, batch_size).train_epoch(rate)


def validation_error(network: nn.Module, held: DeviceData, batch_size: int) -> float | None:
    return learner(network, held, batch_size).validation_error()


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


def test_an_epoch_takes_every_image_once_in_a_new_order(held: DeviceData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "crop", lambda images, crops: images)
    draws = streams(0, 0)
    orders = []
    for _ in range(2):
        found = list(training_batches(held, draws, 10))
        assert [len(labels) for _, labels in found] == [10, 10, 3]
        images, labels = (torch.cat(column) for column in zip(*found, strict=True))
        all_images = normalise(held.train_images)
        order = [int((all_images == image).flatten(1).all(1).nonzero()) for image in images]
        assert sorted(order) == list(range(23))
        assert labels.tolist() == held.train_labels[order].tolist()
        orders.append(order)
    assert orders[0] != orders[1]


def test_every_image_of_every_epoch_is_cropped_anew(held: DeviceData) -> None:
    """12 times the same image, 2 epochs: 24 draws of 162 crops give more than 15 different ones."""
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


def test_an_epoch_uses_the_learning_rate_it_is_given(held: DeviceData) -> None:
    moved = []
    for rate in (0.0, 0.01, 0.02):
        network = Linear()
        assert one_epoch(network, held, 32, rate)
        moved.append(network.layer.weight.abs().sum().item())
    assert moved[0] == 0 < moved[1], "23 images: one step"
    assert moved[2] == pytest.approx(2 * moved[1], rel=1e-4)


def test_training_stops_at_the_first_loss_that_is_not_finite(held: DeviceData, monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in (float("nan"), float("inf")):
        losses = iter([1.0, bad, 1.0, 1.0])
        monkeypatch.setattr(training, "train_step", lambda *_, losses=losses: next(losses))
        network = Linear()
        assert not one_epoch(network, held, 4, 0.1)
        assert list(losses) == [1.0, 1.0], "two steps were taken, no more"


@pytest.mark.parametrize("batch_size", [1, 5, 17, 100])
def test_validation_error_is_the_share_of_wrong_answers(held: DeviceData, batch_size: int) -> None:
    network = Linear()
    with torch.no_grad():
        network.layer.bias[7] = 1.0  # always answers 7
    wrong = sum(label != 7 for label in held.held_out_labels.tolist())
    assert 0 < wrong < 17
    assert validation_error(network, held, batch_size) == wrong / 17


def test_validation_logits_that_are_not_finite_are_no_error_rate(held: DeviceData) -> None:
    network = Linear()
    with torch.no_grad():
        network.layer.bias[0] = float("inf")
    assert validation_error(network, held, 100) is None


def test_an_epoch_after_a_validation_trains_again(held: DeviceData, make_trial: Callable[..., Trial]) -> None:
    network = build_network(Cell.from_configuration(make_trial().configuration), torch.Generator().manual_seed(0))
    for count in (3, 6):  # BatchNorm counts the batches it has learned from
        assert one_epoch(network, held, 8, 0.01)
        validation_error(network, held, 10)
        assert network.norm.num_batches_tracked == count


def test_validation_neither_learns_nor_depends_on_the_batch(held: DeviceData, make_trial: Callable[..., Trial]) -> None:
    network = build_network(Cell.from_configuration(make_trial().configuration), torch.Generator().manual_seed(0))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    errors = {validation_error(network, held, batch_size) for batch_size in (1, 7, 17)}
    assert len(errors) == 1
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
