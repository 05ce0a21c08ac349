"""Trainings in one program equal the plain ones, also if one diverges."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import islice
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from fmnas.search_spaces import Cell, Schedule, joint_space, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images import cuda_graph, multi_seed, stacked_convolution
from fmnas.trainers.images.batches import DeviceData, streams, to_device, training_batches
from fmnas.trainers.images.data import digits_set, search_split
from fmnas.trainers.images.model import Network, normalise
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.stacked_convolution import StackedConvolution
from fmnas.trainers.images.training import Learner, TrainingContext, plain_learner, train_step
from fmnas.trainers.split import Split

pytestmark = pytest.mark.slow

CPU, SEEDS = torch.device("cpu"), 3
SCHEDULE = Schedule(0.02, 0.9, 1e-3, 0.5, 0.5, 0.5)
RNG, SPACE = np.random.default_rng(5), joint_space()
RANDOM = {f"random{i}": Cell.from_configuration(SPACE.sample(RNG)) for i in range(2)}
CHAINS = {name: replace(largest_cell(), operations=((name, name),) * 4) for name in OPERATIONS}
DEAD = {"dead states": replace(CHAINS["sepconv3x3"], inputs=((-1, 0), (0, 1), (1, 2), (0, 1)), output=1)}
ALL = {"all operations": replace(largest_cell(), operations=tuple(zip(OPERATIONS[::2], OPERATIONS[1::2], strict=True)))}
CELLS = {**CHAINS, **DEAD, **ALL, **RANDOM}


@pytest.fixture(scope="module")
def digits() -> DeviceData:
    return to_device(search_split(digits_set(), 40, 30), CPU)


def networks_of(cell: Cell, dtype: torch.dtype = torch.float32) -> list[Network]:
    return [build_network(cell, torch.Generator().manual_seed(seed)).to(dtype) for seed in range(SEEDS)]


def stack_learner(networks: list[Network], cell: Cell, context: TrainingContext) -> StackedLearner:
    draws = [streams(1, number) for number in range(len(networks))]
    return StackedLearner(Stack(networks, cell, CPU), SCHEDULE, draws, context)


def both(name: str, data: DeviceData, batch: int, dtype: torch.dtype) -> tuple[StackedLearner, list[Learner]]:
    """A stack of networks, and plain learners with the same weights and draws."""
    cell, context = CELLS[name], TrainingContext(data, batch, 12)
    plain = [plain_learner(n, SCHEDULE, streams(1, i), context) for i, n in enumerate(networks_of(cell, dtype))]
    return stack_learner(networks_of(cell, dtype), cell, context), plain


def weights_of(plain: list[Learner], learner: StackedLearner) -> Tensor:
    """The plain learners' weights in the order of the stack."""
    states = [one._network.state_dict() for one in plain]
    names = [name for name, _ in learner._stack.named_weights()]
    return torch.cat([torch.cat([state[name] for state in states]).flatten() for name in names])


def begin(learner: StackedLearner, rate: float) -> None:
    learner._stack.train()
    learner._draw_epoch()
    learner._rate.fill_(rate)


@pytest.mark.parametrize("name", [*DEAD, *ALL, *RANDOM, "maxpool5x5"])
def test_a_step_is_the_plain_one(digits: DeviceData, name: str) -> None:
    learner, plain = both(name, digits, 4, torch.float32)
    begin(learner, SCHEDULE.learning_rate)
    before = learner._stack.weights.detach().clone()
    assert torch.equal(before, weights_of(plain, learner))
    losses = learner.step(4)
    expected = []
    for number, one in enumerate(plain):
        one._network.train()
        images, labels = next(training_batches(digits, streams(1, number), 4))
        expected.append(train_step(one._network, one._optimizer, images, labels))
    assert losses.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-5)
    moved, should = learner._stack.weights.detach() - before, weights_of(plain, learner) - before
    torch.testing.assert_close(moved, should, rtol=1e-3, atol=1e-4 * float(should.abs().max()))
    for key, values in learner._stack.statistics.items():
        theirs = torch.cat([one._network.state_dict()[key] for one in plain])
        torch.testing.assert_close(values, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("as_on_a_gpu", [False, True])
@pytest.mark.parametrize("name", [*ALL, *DEAD])
def test_six_steps_in_double_precision(
    digits: DeviceData, name: str, as_on_a_gpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacked_convolution, "has_own_gradients", lambda device: as_on_a_gpu)
    learner, plain = both(name, digits, 2, torch.float64)
    begin(learner, 1e-3)
    losses = torch.stack([learner.step(2) for _ in range(6)], dim=1)
    for number, one in enumerate(plain):
        one._network.train()
        one._optimizer.param_groups[0]["lr"] = 1e-3
        batches = islice(training_batches(digits, streams(1, number), 2), 6)
        steps = [train_step(one._network, one._optimizer, images.double(), labels) for images, labels in batches]
        assert steps[0] != steps[-1]
        assert losses[number].tolist() == pytest.approx(steps, rel=1e-6, abs=1e-6)
    torch.testing.assert_close(learner._stack.weights.detach(), weights_of(plain, learner), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("at_once", [7, 4096])
def test_epochs_have_the_plain_order_crops_and_flips(
    noise_split: Split, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Two epochs of 23 images in batches of 5, the last of them smaller; cropped in parts, or all at once."""
    monkeypatch.setattr(multi_seed, "IMAGES_AT_ONCE", at_once)
    held = to_device(noise_split, CPU)
    cell, context = CELLS["identity"], TrainingContext(held, 5, 10)
    learner = stack_learner(networks_of(cell), cell, context)
    draws = [streams(1, number) for number in range(SEEDS)]
    batches: list[tuple[Tensor, Tensor]] = []

    def losses(images: Tensor, labels: Tensor) -> Tensor:
        batches.append((images, labels))
        return learner._stack.weights.square().sum() * torch.ones(SEEDS)

    monkeypatch.setattr(learner, "_losses", losses)
    for _ in range(2):
        batches.clear()
        learner.train_epoch(0.0)
        assert [len(images) for images, _ in batches] == [5, 5, 5, 5, 3]
        for number in range(SEEDS):
            for (images, labels), (x, y) in zip(training_batches(held, draws[number], 5), batches, strict=True):
                assert torch.equal(x[:, number], images[:, 0])
                assert torch.equal(y[:, number], labels)


def test_an_epoch_and_its_validation(digits: DeviceData) -> None:
    """In double precision, 40 images in batches of 16, 30 to validate on in batches of 12."""
    learner, plain = both("random0", digits, 16, torch.float64)
    expected = []
    for one in plain:
        one._network.train()
        one._optimizer.param_groups[0]["lr"] = 1e-3
        for images, labels in training_batches(digits, one._draws, 16):
            train_step(one._network, one._optimizer, images.double(), labels)
        logits = one._network.eval()(normalise(digits.held_out_images).double())
        expected.append((logits.argmax(1) != digits.held_out_labels).sum().item() / 30)
    assert learner.train([1e-3]) == expected
    torch.testing.assert_close(learner._stack.weights.detach(), weights_of(plain, learner), rtol=1e-6, atol=1e-7)
    for own, one in zip(learner.weights(), plain, strict=True):
        torch.testing.assert_close(own, one.weights()[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("name", "bad"), [("dead states", float("nan")), ("all operations", 1e38)])
def test_a_diverged_training_does_not_affect_the_others(noise_split: Split, name: str, bad: float) -> None:
    """Also from the start: numbers that are not finite never reach the others."""
    cell, context = CELLS[name], TrainingContext(to_device(noise_split, CPU), 8, 10)
    healthy = stack_learner(networks_of(cell), cell, context)
    networks = networks_of(cell)
    with torch.no_grad():
        networks[1].stem.weight.fill_(bad)
    ill = stack_learner(networks, cell, context)
    errors = [(healthy.train([0.01]), ill.train([0.01])) for _ in range(2)]
    for good, diverged in errors:
        assert diverged == [good[0], None, good[2]]
    own = ill._stack.owner == 1
    assert torch.equal(ill._stack.weights[~own], healthy._stack.weights[~own])
    assert not ill._stack.weights[own].any()
    assert not ill._velocity[own].any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_a_training_at_that_step(
    digits: DeviceData, bad: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statistics are finite, but it never returns: neither at the next step nor at a validation."""
    cell = CELLS["identity"]
    learner = stack_learner(networks_of(cell), cell, TrainingContext(digits, 10, 12))
    real, factors = learner._losses, iter([1.0, bad, 1.0, 1.0])
    monkeypatch.setattr(learner, "_losses", lambda *batch: real(*batch) * torch.tensor([1.0, next(factors), 1.0]))
    begin(learner, 0.01)
    for ended in (False, True, True, True):
        learner.step(10)
        assert learner.diverged() == [False, ended, False]
        assert learner._stack.weights[learner._stack.owner == 1].any() == (not ended)
    assert [error is None for error in learner.validation_errors()] == [False, True, False]
    assert learner.diverged() == [False, True, False]


def test_one_validation_logit_that_is_not_finite_ends_a_training(digits: DeviceData) -> None:
    cell = CELLS["identity"]
    learner = stack_learner(networks_of(cell), cell, TrainingContext(digits, 10, 12))
    with torch.no_grad():
        dict(learner._stack.named_weights())["classifier.bias"][13] = float("inf")  # class 3 of network 1
    assert [error is None for error in learner.validation_errors()] == [False, True, False]


def test_validation_logits_that_are_not_finite_end_a_training(digits: DeviceData) -> None:
    cell = CELLS["identity"]
    learner = stack_learner(networks_of(cell), cell, TrainingContext(digits, 10, 12))
    learner._stack.statistics["norm.running_mean"][32:64] = float("inf")
    errors = learner.validation_errors()
    assert [error is None for error in errors] == [False, True, False]
    assert learner.train([0.01])[1] is None


def test_a_capture_does_not_train(digits: DeviceData, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps before the recording leave no trace; the graph is a stand-in."""

    def record(step: Callable[[], object], first_step: Callable[[], object]) -> object:
        for _ in range(3):
            first_step()
        return SimpleNamespace(replay=step)

    monkeypatch.setattr(cuda_graph, "_record", record)
    cell, context = CELLS["dead states"], TrainingContext(digits, 16, 12)
    learner, with_graph = (stack_learner(networks_of(cell), cell, context) for _ in range(2))
    with_graph.capture()
    for rate in (0.02, 0.01):
        assert with_graph.train([rate]) == learner.train([rate])
    assert torch.equal(learner._stack.weights, with_graph._stack.weights)


def test_steps_of_fewer_images_than_a_batch_are_not_captured(
    digits: DeviceData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a full batch are not there."""
    monkeypatch.setattr(multi_seed, "capture_graph", None)
    cell, context = CELLS["dead states"], TrainingContext(digits, 41, 12)
    stack_learner(networks_of(cell), cell, context).capture()


@pytest.mark.parametrize(("size", "groups"), [(1, 1), (3, 4), (5, 1)])
def test_gradients_of_a_convolution_are_torchs(size: int, groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of images that are not square, with other numbers of outputs than inputs."""
    monkeypatch.setattr(stacked_convolution, "has_own_gradients", lambda device: True)
    layer = StackedConvolution(SEEDS * 8, SEEDS * 4, size, SEEDS * groups, torch.float64)
    images = torch.randn(5, SEEDS * 8, 9, 7, dtype=torch.float64, requires_grad=True)
    output = layer(images)
    expected = functional.conv2d(images, layer.weight, layer.bias, padding=size // 2, groups=SEEDS * groups)
    assert torch.equal(output, expected)
    gradient, needed = torch.randn_like(output), (images, layer.weight, layer.bias)
    for ours, theirs in zip(*(torch.autograd.grad(y, needed, gradient) for y in (output, expected)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "parts"), [("images", ["image"]), ("weight", ["weight"]), ("bias", [])])
def test_only_the_gradients_that_are_needed_are_computed(
    name: str, parts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From one whose channels come last, too. A stem does not need that of its images."""
    own = {part: getattr(stacked_convolution, f"{part}_gradient") for part in ("image", "weight")}
    computed: list[str] = []

    def compute(part: str, *arguments: Any) -> Tensor:
        computed.append(part)
        return own[part](*arguments)

    monkeypatch.setattr(stacked_convolution, "has_own_gradients", lambda device: True)
    for part in own:
        monkeypatch.setattr(stacked_convolution, f"{part}_gradient", partial(compute, part))
    layer, images = StackedConvolution(4, 8, 3, 2, torch.float64), torch.randn(5, 4, 6, 7, dtype=torch.float64)
    leaf = {"images": images, "weight": layer.weight, "bias": layer.bias}[name]
    layer.requires_grad_(False)
    leaf.requires_grad_(True)
    gradient = torch.randn(5, 8, 6, 7, dtype=torch.float64).to(memory_format=torch.channels_last)
    plain = functional.conv2d(images, layer.weight, layer.bias, padding=1, groups=2)
    (result,), (expected,) = (torch.autograd.grad(output, leaf, gradient) for output in (layer(images), plain))
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    assert computed == parts


@pytest.mark.parametrize("groups", [1, 4])
def test_gradients_of_a_1x1_convolution_neither_pad_nor_reverse(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    images, weight = torch.randn(5, 8, 9, 7, requires_grad=True), torch.randn(4, 8 // groups, 1, 1, requires_grad=True)
    output = functional.conv2d(images, weight, groups=groups)
    gradient = torch.randn_like(output)
    expected = torch.autograd.grad(output, (images, weight), gradient)
    with monkeypatch.context() as patch:
        patch.setattr(functional, "pad", None)
        patch.setattr(torch.Tensor, "flip", None)
        ours = (
            stacked_convolution.image_gradient(gradient, weight, groups),
            stacked_convolution.weight_gradient(gradient, images, weight.shape, groups),
        )
    torch.testing.assert_close(ours, expected)


def test_own_gradients_are_for_gpus() -> None:
    assert stacked_convolution.has_own_gradients(torch.device("cuda"))
    assert not stacked_convolution.has_own_gradients(CPU)
