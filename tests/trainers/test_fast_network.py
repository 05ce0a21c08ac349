"""The fast network equals the plain one: each operation, and the steps of a training."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import Conv2d, functional

from fmnas.search_spaces import Cell, Schedule, joint_space, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images.batches import DeviceData, streams, to_device, training_batches
from fmnas.trainers.images.cpu_fast import (
    FastMaxPool,
    FastNetwork,
    MergedConvolution,
    PairedConvolution,
    PixelProduct,
    fast_learner,
    fused_convolutions,
    rearrange,
    separate_maximum,
    sliding_maximum,
)
from fmnas.trainers.images.data import digits_set, search_split
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import Learner, TrainingContext, plain_learner, train_step
from fmnas.trainers.split import Split

pytestmark = pytest.mark.slow

SCHEDULE = Schedule(0.02, 0.9, 1e-3, 0.5, 0.5, 0.5)
RNG, SPACE = np.random.default_rng(3), joint_space()
RANDOM = {f"random{i}": Cell.from_configuration(SPACE.sample(RNG)) for i in range(2)}
CHAINS = {name: replace(largest_cell(), operations=((name, name),) * 4) for name in OPERATIONS}
MIXED = {"sepconv5x5+maxpool3x3": replace(largest_cell(), operations=(("sepconv5x5", "maxpool3x3"),) * 4)}
CELLS = {**CHAINS, **MIXED, **RANDOM}


@pytest.fixture(scope="module")
def digits() -> DeviceData:
    return to_device(search_split(digits_set(), 200, 150), torch.device("cpu"))


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def gradients(result: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(result, inputs, numbers(9, *result.shape))


@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(1, 3), st.just(8), st.integers(1, 6), st.integers(1, 8)),
    size=st.sampled_from([3, 5]),
    groups=st.sampled_from([1, 2, 4]),
)
@settings(max_examples=15, deadline=None)
def test_a_convolution_on_pairs_is_the_same(seed: int, shape: tuple[int, ...], size: int, groups: int) -> None:
    """Images of an odd width are not paired."""
    conv = torch.nn.Conv2d(8, 8, size, padding=size // 2, groups=groups).double()
    images = numbers(seed, *shape).double().to(memory_format=torch.channels_last).requires_grad_()
    check_equal(conv, PairedConvolution(conv), images)


def check_equal(conv: torch.nn.Module, form: torch.nn.Module, images: Tensor) -> None:
    """Values and derivatives, of images and parameters."""
    expected, result = conv(images), form(images)
    torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-8)
    inputs = (images, conv.weight, conv.bias)
    torch.testing.assert_close(gradients(result, *inputs), gradients(expected, *inputs), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [1, 3, 5])
def test_fused_convolutions_are_the_same_also_at_the_border(size: int) -> None:
    first = torch.nn.Conv2d(1, 16, size, padding=size // 2).double()
    pixelwise = torch.nn.Conv2d(16, 8, 1).double()
    images = numbers(0, 2, 1, 6, 5).double()
    expected, result = pixelwise(first(images)), fused_convolutions(images, first, pixelwise)
    torch.testing.assert_close(result, expected)
    inputs = (first.weight, first.bias, pixelwise.weight, pixelwise.bias)
    torch.testing.assert_close(gradients(result, *inputs), gradients(expected, *inputs))


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize(("channels", "outputs"), [(8, 8), (16, 16), (32, 32), (8, 16), (16, 32), (64, 32)])
def test_every_form_is_the_convolution_with_its_own_parameters(lanes: int, channels: int, outputs: int) -> None:
    for size, groups in ((1, 1), (3, 1), (3, 4), (5, 1), (5, 4)):
        conv = torch.nn.Conv2d(channels, outputs, size, padding=size // 2, groups=groups).double()
        form = rearrange(conv, lanes) if channels == outputs or size == 1 else conv
        images = numbers(2, 2, channels, 6, 6).double().to(memory_format=torch.channels_last).requires_grad_()
        check_equal(conv, form, images)
        parameters = ({name: id(part) for name, part in layer.named_parameters()} for layer in (form, conv))
        assert next(parameters) == next(parameters)


@pytest.mark.parametrize(
    ("lanes", "channels", "outputs", "size", "groups", "form"),
    [
        (8, 8, 8, 3, 4, MergedConvolution),
        (8, 8, 8, 5, 1, Conv2d),
        (8, 16, 16, 5, 4, MergedConvolution),
        (8, 32, 32, 3, 4, Conv2d),
        (8, 4, 4, 3, 2, MergedConvolution),
        (8, 16, 16, 1, 1, PixelProduct),
        (8, 8, 16, 1, 1, Conv2d),
        (8, 16, 8, 1, 1, Conv2d),
        (16, 8, 8, 3, 4, PairedConvolution),
        (16, 8, 8, 5, 1, PairedConvolution),
        (16, 8, 8, 3, 1, Conv2d),
        (16, 16, 16, 5, 4, Conv2d),
        (16, 32, 32, 1, 1, Conv2d),
    ],
)
def test_the_fastest_form_is_the_one_measured(
    lanes: int, channels: int, outputs: int, size: int, groups: int, form: type
) -> None:
    fastest = rearrange(Conv2d(channels, outputs, size, padding=size // 2, groups=groups), lanes)
    assert type(fastest) is form
    assert fastest(torch.zeros(1, channels, 4, 4)).shape == (1, outputs, 4, 4)


@pytest.mark.parametrize(("capability", "form"), [("AVX512", PairedConvolution), ("AVX2", MergedConvolution)])
def test_the_forms_are_those_for_this_machines_registers(
    capability: str, form: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    network = build_network(CELLS["sepconv5x5+maxpool3x3"], torch.Generator().manual_seed(0))
    kinds = {type(layer) for layer in FastNetwork(network).modules()}
    assert kinds & {PairedConvolution, MergedConvolution} == {form}
    assert FastMaxPool in kinds
    assert torch.nn.MaxPool2d not in kinds


@pytest.mark.parametrize("size", [3, 5])
def test_the_max_pool_of_a_training_has_torchs_derivatives_also_of_equal_numbers(size: int) -> None:
    images = numbers(1, 3, 8, 10, 10).round().to(memory_format=torch.channels_last).requires_grad_()
    expected, result = functional.max_pool2d(images, size, 1, size // 2), FastMaxPool(size)(images)
    assert torch.equal(result, expected)
    torch.testing.assert_close(gradients(result, images), gradients(expected, images), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("channels", "side"), [(8, 28), (16, 15), (32, 8)])
@pytest.mark.parametrize("ties", [False, True])
def test_a_separate_max_pool_is_a_max_pool(channels: int, side: int, ties: bool) -> None:
    """Also for equal numbers: the derivative goes to the same pixel."""
    images = numbers(1, 3, channels, side, side).to(memory_format=torch.channels_last)
    images = (images.round() if ties else images).requires_grad_()
    expected, result = functional.max_pool2d(images, 5, 1, 2), separate_maximum(images, 5)
    assert torch.equal(result, expected)
    torch.testing.assert_close(gradients(result, images)[0], gradients(expected, images)[0], rtol=1e-5, atol=1e-5)


@given(
    seed=st.integers(0, 99),
    shape=st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 9)),
    size=st.sampled_from([3, 5]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
@settings(max_examples=30, deadline=None)
def test_a_sliding_maximum_is_a_max_pool(
    seed: int, shape: tuple[int, int, int, int], size: int, dtype: torch.dtype
) -> None:
    """Of any size, with infinite numbers and NaN."""
    images = (numbers(seed, *shape) * 3).round().to(dtype).to(memory_format=torch.channels_last)
    for bad in (torch.inf, -torch.inf, torch.nan):
        expected, result = functional.max_pool2d(images, size, 1, size // 2), sliding_maximum(images, size)
        torch.testing.assert_close(result, expected, rtol=0.0, atol=0.0, equal_nan=True)
        images = images.masked_fill(numbers(seed + 1, *shape) > 1.5, bad)


def test_bulk_batches_are_the_batches(noise_split: Split) -> None:
    held = to_device(noise_split, torch.device("cpu"))
    draws = streams(0, 0), streams(0, 0)
    for _ in range(2):  # 23 images: with batches of 1, two bulks
        for size in (1, 5, 23):
            pairs = zip(training_batches(held, draws[0], size), training_batches(held, draws[1], size, 16), strict=True)
            for (images, labels), (bulk_images, bulk_labels) in pairs:
                assert torch.equal(images, bulk_images)
                assert torch.equal(labels, bulk_labels)


def learners(name: str, digits: DeviceData) -> tuple[Learner, Learner]:
    """A plain and a fast learner with the same weights."""
    context = TrainingContext(digits, 8, 50)
    plain, fast = (
        make(build_network(CELLS[name], torch.Generator().manual_seed(1)), SCHEDULE, streams(1, 0), context)
        for make in (plain_learner, fast_learner)
    )
    for learner in (plain, fast):
        learner._network.train()
    return plain, fast


@pytest.mark.parametrize("name", ["conv1x1", "sepconv5x5+maxpool3x3", "random0"])
def test_six_steps_end_where_the_plain_ones_do(digits: DeviceData, name: str) -> None:
    """In double precision: in single precision, two forms of the plain network differ as much."""
    losses = []
    for learner in learners(name, digits):
        learner._network.double()
        learner._optimizer.param_groups[0]["lr"] = 1e-3
        batches = list(training_batches(digits, streams(2, 0), 8))[:6]
        steps = [train_step(learner._network, learner._optimizer, x[:3].double(), y[:3]) for x, y in batches]
        losses.append(steps)
    assert losses[0][0] != losses[0][-1]
    assert losses[1] == pytest.approx(losses[0], rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("lanes", [8, 16])
def test_the_parameters_are_the_networks_own_in_their_order(lanes: int) -> None:
    network = build_network(CELLS["sepconv5x5"], torch.Generator().manual_seed(0))
    own = [(f"network.{name}", id(parameter)) for name, parameter in network.named_parameters()]
    fast = FastNetwork(network, lanes)
    assert [(name, id(parameter)) for name, parameter in fast.named_parameters()] == own
    paired = [module for module in network.modules() if isinstance(module, PairedConvolution)]
    merged = [module for module in network.modules() if isinstance(module, MergedConvolution)]
    assert (len(paired), len(merged)) == ((8, 0) if lanes == 16 else (0, 16)), "of cells of 8, and of 8 and 16 channels"


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("name", CELLS)
def test_a_step_for_registers_of_either_width_is_the_plain_one(name: str, lanes: int) -> None:
    """Loss, derivatives, and logits with the learned statistics, in double precision."""
    images, labels = numbers(5, 4, 1, 28, 28).double(), torch.tensor([1, 7, 2, 2])
    results = []
    for wrap in (lambda network: network, lambda network: FastNetwork(network, lanes)):
        network = build_network(CELLS[name], torch.Generator().manual_seed(3)).double().train()
        form = wrap(network)
        loss = functional.cross_entropy(form(images), labels)
        derivatives = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            results.append([loss, *derivatives, form.eval()(images)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-6, atol=1e-8)
