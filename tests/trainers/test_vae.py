"""The variational autoencoder: which architectures its space has, its layers, its estimate, its trainer."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import random_design
from fmnas.platform.registry import OPTIMIZERS, OptimizerContext
from fmnas.search_spaces import Configuration, SpaceError, Trial
from fmnas.search_spaces.records import MODEL
from fmnas.trainers.contract import EvaluationStoppedError
from fmnas.trainers.images.vae import PENALTY, VAE_FMNIST_SMALL, Autoencoder, Deconvolution, Images, VAETrainer
from fmnas.trainers.images.vae_space import VAE_SPACE
from fmnas.trainers.problem import DataSettings, ProblemSettings
from fmnas.trainers.split import Split

PLAIN: Configuration = VAE_SPACE.sample(np.random.default_rng(0))


def encoder_sizes(c: Configuration) -> list[float]:
    """The sizes after each convolution that is used."""
    size, sizes = 28.0, []
    for name in ("c1", "c2")[: int(c["convolutions"])]:
        size = (size - c[f"{name}_filter"] + c[f"{name}_padding"]) / c[f"{name}_stride"] + 1
        sizes.append(size)
    return sizes


def decoder_size(c: Configuration) -> int:
    """The size after the deconvolutions that are used."""
    size = 7
    for name in ("d1", "d2")[: int(c["deconvolutions"])]:
        size = (size - 1) * c[f"{name}_stride"] + c[f"{name}_filter"]
        size += c[f"{name}_output_padding"] - 2 * c[f"{name}_padding"]
    return size


def fits(c: Configuration) -> bool:
    if not all(size.is_integer() for size in encoder_sizes(c)):
        return False
    return decoder_size(c) == 28 if c["deconvolutions"] else c["d1_channels"] == 16


def layers(name: str, output_padding: bool) -> list[Configuration]:
    values: dict[str, Any] = {"stride": (1, 2), "filter": (3, 5), "padding": range(4)}
    values |= {"output_padding": range(4)} if output_padding else {}
    return [
        {f"{name}_{key}": value for key, value in zip(values, one, strict=True)} for one in product(*values.values())
    ]


def count(kind: str, used: int, one: list[Configuration], other: list[Configuration], **fixed: Any) -> int:
    return sum(
        VAE_SPACE.meets_constraints({**PLAIN, "convolutions": 0, "deconvolutions": 0, "d1_channels": 16, **fixed}
                                    | {kind: used} | a | b)
        for a, b in product(one, other)
    )  # fmt: skip


def test_the_values_of_each_discrete_variable() -> None:
    """Up to two layers of each kind, with 0 to 3 paddings and a multiple of 64 units."""
    small, large, padding, units = (4, 8, 16, 24), (8, 16, 32, 48), (0, 1, 2, 3), tuple(range(0, 961, 64))
    values: dict[str, tuple[int, ...]] = {"f1_units": units, "f4_units": units, "latent": tuple(range(16, 65))}
    used = ("convolutions", "encoder_layers", "decoder_layers", "deconvolutions")
    values |= dict.fromkeys(used, (0, 1, 2))
    for name, channels in (("c1", small), ("c2", large), ("d1", large), ("d2", small)):
        values |= {f"{name}_channels": channels, f"{name}_stride": (1, 2), f"{name}_filter": (3, 5)}
        values |= {f"{name}_padding": padding} | ({f"{name}_output_padding": padding} if name[0] == "d" else {})
    assert {variable.name: variable.vertices for variable in VAE_SPACE.discrete} == values


def test_numbers_of_architectures_that_fit() -> None:
    assert (len(VAE_SPACE.discrete), len(VAE_SPACE.continuous)) == (25, 3)
    c1, c2 = layers("c1", output_padding=False), layers("c2", output_padding=False)
    assert count("convolutions", 1, c1, [{}]) == 12
    assert count("convolutions", 2, c1, c2) == 144
    assert count("convolutions", 0, c1, [{}]) == 16


def test_numbers_of_decoders_that_fit() -> None:
    d1, d2 = layers("d1", output_padding=True), layers("d2", output_padding=True)
    assert count("deconvolutions", 2, d1, d2) == 80
    as_in_torch = [[d for d in ds if d[f"{n}_output_padding"] < d[f"{n}_stride"]] for n, ds in (("d1", d1), ("d2", d2))]
    assert count("deconvolutions", 2, *as_in_torch) == 16
    assert count("deconvolutions", 1, d1, [{}]) == 0
    assert max(decoder_size({**d, "deconvolutions": 1}) for d in d1) == 20
    assert [count("deconvolutions", 0, [{}], [{}], d1_channels=n) for n in (8, 16, 32, 48)] == [0, 1, 0, 0]


@given(seed=st.integers(0, 10**6), deconvolutions=st.sampled_from([0, 2, 2]))
@settings(deadline=None)
def test_the_constraints_are_the_conditions_of_the_layers(seed: int, deconvolutions: int) -> None:
    rng = np.random.default_rng(seed)
    c = VAE_SPACE.decode(VAE_SPACE._draw(rng, 1)[0]) | {"deconvolutions": deconvolutions}
    assert VAE_SPACE.meets_constraints(c) == fits(c)


@pytest.mark.parametrize("seed", range(30))
def test_every_network_of_the_space_maps_images_to_images(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = VAE_SPACE.sample(rng)
    for _ in range(500 if seed % 2 else 0):
        c = VAE_SPACE.sample(rng) if c["deconvolutions"] == 0 else c
    x, network = torch.zeros(3, 784), Autoencoder(c)
    assert network.log_weights(x, 2, torch.Generator().manual_seed(0)).shape == (2, 3)
    assert network.encoder(x.view(3, 1, 28, 28)).shape == (3, 2 * int(c["latent"]))
    assert network.decoder(torch.zeros(3, network.latent)).shape == (3, 784)


@pytest.mark.parametrize(("stride", "filter_", "padding", "added"), [(1, 3, 0, 0), (2, 5, 3, 1), (2, 3, 1, 1)])
def test_a_deconvolution_is_torch_s(stride: int, filter_: int, padding: int, added: int) -> None:
    c = {"d1_stride": stride, "d1_filter": filter_, "d1_padding": padding, "d1_output_padding": added}
    layer = Deconvolution(4, 2, c, "d1")
    expected = torch.nn.ConvTranspose2d(4, 2, filter_, stride, padding, output_padding=added)
    expected.load_state_dict(layer.state_dict())
    x = torch.randn(3, 4, 7, 7, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), expected(x))


def test_added_rows_have_the_bias_alone() -> None:
    c = {"d1_stride": 1, "d1_filter": 3, "d1_padding": 1, "d1_output_padding": 3}
    layer = Deconvolution(4, 2, c, "d1")
    assert layer.bias is not None
    y = layer(torch.ones(1, 4, 7, 7))
    assert y.shape[-1] == 10
    torch.testing.assert_close(y[0, :, -2:, :], layer.bias[:, None, None].expand(2, 2, 10))


@pytest.fixture(scope="module")
def trainer() -> VAETrainer:
    rng = np.random.default_rng(0)
    images = (rng.random((64, 28, 28)) < 0.2).astype(np.uint8) * 255
    labels = (np.arange(64) % 10).astype(np.uint8)
    return VAETrainer(Split(images[:48], labels[:48], images[48:], labels[48:], "noise", "a test"))


def test_grey_levels_are_shares_of_255_and_probabilities_of_held_out_pixels() -> None:
    images, labels = np.zeros((2, 28, 28), dtype=np.uint8), np.zeros(2, dtype=np.uint8)
    images[:, 14:], images[:, 0, 0] = 255, 51
    data = Images.from_split(Split(images, labels, images, labels, "halves", "a test"))
    assert (data.train.shape, data.held_out.shape) == ((2, 784), (2, 784))
    assert data.train[0, [0, 1, 783]].tolist() == pytest.approx([0.2, 0.0, 1.0])
    assert data.held_out[:, 1:].tolist() == [[0.0] * 391 + [1.0] * 392] * 2


def test_uniform_pixels_have_the_penalty(trainer: VAETrainer) -> None:
    """With all weights 0, z is from the prior, and each pixel is 1 with probability 1/2: the estimate is exact."""
    network = Autoencoder(PLAIN)
    for parameter in network.parameters():
        torch.nn.init.zeros_(parameter)
    assert trainer.negative_log_likelihood(network) == pytest.approx(784 * math.log(2), rel=1e-5)
    assert pytest.approx(784 * math.log(2)) == PENALTY


def test_more_samples_tighten_the_bound(trainer: VAETrainer) -> None:
    network, x = Autoencoder(PLAIN), trainer._images.held_out
    with torch.no_grad():
        weights = network.log_weights(x, 200, torch.Generator().manual_seed(1))
    assert weights.logsumexp(0).mean() - math.log(200) > weights.mean()


def test_training_learns_and_is_a_function_of_the_seed(trainer: VAETrainer) -> None:
    c = {**PLAIN, "convolutions": 0, "encoder_layers": 0, "decoder_layers": 0}
    c |= {"learning_rate": 0.01, "learning_rate_decay": 1.0, "weight_decay": 1e-6}
    state, reports = torch.get_rng_state(), []
    trial = Trial(0, c, 30, "random", seed=5)
    one = trainer.evaluate(trial, lambda *report: reports.append(report))
    assert (torch.get_rng_state() == state).all()
    assert one.curve[-1] < one.curve[9] < PENALTY
    assert reports == [(0, epoch, value) for epoch, value in enumerate(one.curve, 1)]
    assert trainer.evaluate(trial).curve == one.curve
    assert trainer.evaluate(Trial(0, c, 30, "random", seed=6)).curve != one.curve


def test_a_training_can_be_cancelled_and_refuses_what_does_not_fit(trainer: VAETrainer) -> None:
    with pytest.raises(EvaluationStoppedError):
        trainer.evaluate(Trial(0, PLAIN, 1, "random"), stop=lambda: True)
    with pytest.raises(SpaceError, match="deconvolutions"):
        trainer.evaluate(Trial(0, {**PLAIN, "deconvolutions": 1}, 1, "random"))


def test_a_network_that_diverges_has_the_penalty(trainer: VAETrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "negative_log_likelihood", lambda network: math.inf)
    evaluation = trainer.evaluate(Trial(0, PLAIN, 1, "random"))
    assert (evaluation.objective, evaluation.diverged) == (PENALTY, True)


def test_the_problem_names_its_data() -> None:
    problem = VAE_FMNIST_SMALL.make(ProblemSettings(data=DataSettings(name="digits", train=20, validation=10)))
    assert problem.load is not None
    assert problem.dataset == problem.load().name == "digits"
    assert all(words in problem.objective for words in ("10 images of digits", "20 others"))


@pytest.mark.parametrize("name", ["bo-fm", "casmopolitan", "bodi", "mivabo"])
def test_optimizers_with_a_model_suggest_only_networks_that_fit(name: str) -> None:
    design = tuple(random_design(VAE_SPACE, 10, 0))
    context = OptimizerContext(seed=0, epochs=1, evaluations=20, log_objective=False, initial_design=design)
    optimizer = OPTIMIZERS[name].build(VAE_SPACE, context, {})
    for k in range(12):
        trial = optimizer.ask()
        assert trial is not None
        assert VAE_SPACE.meets_constraints(trial.configuration, strictly=True)
        optimizer.tell(trial, float(k % 4))
    assert {trial.origin for trial, _ in optimizer.history[10:]} == {MODEL}
