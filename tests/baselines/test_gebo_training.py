"""GEBO: the loss and the results that its networks are trained on, and its search of the latent region."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.baselines import graph_autoencoder
from fmnas.baselines.exp3 import EXP3
from fmnas.baselines.gebo import GEBO, LatentKernel
from fmnas.baselines.graph_autoencoder import WIDTH, Encoder, GraphAutoencoder, result_weights
from fmnas.baselines.graph_bandits import NestedBandits, grow_graph
from fmnas.optimizers import random_design
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Nominal, Real, Space

SPACE = Space([Nominal("a", [0, 1, 2]), Nominal("b", [0, 1]), Real("c", -1.0, 1.0), Real("d", 0.0, 5.0)])
COMPLETE = np.ones((4, 4)) - np.eye(4)
OBJECTIVES = [3.0, 1.0, 1.0, 2.0, 7.0, 4.5]


def build_gebo(objectives: list[float], **options: Any) -> GEBO:
    optimizer = GEBO(SPACE, initial_design=random_design(SPACE, 6, 0), **options)
    tell(optimizer, objectives)
    return optimizer


def tell(optimizer: GEBO, objectives: list[float]) -> None:
    for objective in objectives:
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, objective)


def test_a_step_of_training_follows_the_gradient_of_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of w |targets - outputs| / 2 + KL / N + (metric + orthogonality) / 10, written out for a configuration."""
    rng = np.random.default_rng(2)
    network = GraphAutoencoder(SPACE, [COMPLETE], rng)
    encoder, triplet = network.encoders[0], torch.from_numpy(SPACE.sample_encoded(rng, 3))
    deviates, w, ratio = torch.from_numpy(rng.standard_normal(WIDTH)), torch.tensor(0.3).double(), 0.7
    mean, log_deviation = encoder(network.nodes(triplet, training=True))
    z, near, far = mean[0, -1] + deviates * log_deviation[0, -1].exp(), mean[1, -1], mean[2, -1]
    metric = (((z - far).norm() / (z - near).norm()).log() - ratio).square()
    sums = torch.stack([(torch.eye(WIDTH) - V @ V.T).sum() for V in encoder.V])
    assert sums.min() < 0 < sums.max()  # they do not cancel
    kl = (log_deviation[0].exp().square() + mean[0].square() - 1.0 - 2.0 * log_deviation[0]).sum(0).mean() / 2.0
    loss = network.reconstruction_loss(triplet[:1], z[None], w) + kl / 4 + (metric + sums.abs().sum()) / 10
    parameters = [encoder.V, encoder.bias, network.embedding, network.embedding_bias, network.hidden, network.output]
    expected = torch.autograd.grad(loss, parameters)
    taken: list[Tensor] = []
    monkeypatch.setattr(graph_autoencoder, "take_adam_step", lambda _, gradients, *rest: taken.extend(gradients))
    network.train(0, triplet[None], torch.tensor([ratio]), w[None], deviates[None])
    for gradient in expected:
        nearest = min(float((gradient - other).abs().max()) for other in taken if other.shape == gradient.shape)
        assert nearest < 1e-6 * float(gradient.abs().max())


def test_each_configuration_takes_a_step_and_its_embedding_is_the_mean_of_the_global_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network, steps = GraphAutoencoder(SPACE, [np.zeros((4, 4)), COMPLETE], np.random.default_rng(0)), []
    X = torch.from_numpy(SPACE.sample_encoded(np.random.default_rng(1), 3))
    mean, _ = network.encoders[1](network.nodes(X))
    np.testing.assert_array_equal(network.encode(1, X), mean[:, 4].detach())
    monkeypatch.setattr(graph_autoencoder, "take_adam_step", lambda *_: steps.append(1))
    network.train(1, X.expand(4, 3, 4), torch.ones(4), torch.ones(4), torch.zeros(4, WIDTH))
    assert len(steps) == 4


def test_outside_of_training_nodes_are_normalised_by_the_running_statistics() -> None:
    network = GraphAutoencoder(SPACE, [COMPLETE], np.random.default_rng(0))
    network.running_mean[:] = torch.tensor([0.1, -0.2, 0.3, 0.0])
    network.running_variance[:] = torch.tensor([0.5, 1.0, 2.0, 4.0])
    embedding, bias = network.embedding.detach().numpy(), network.embedding_bias.detach().numpy()
    x = SPACE.encode({"a": 2, "b": 1, "c": 0.5, "d": 1.0})
    raw = np.array([x[0] * embedding[0], x[1] * embedding[1], embedding[2 + 2], embedding[5 + 1]]) + bias
    scaled = (raw - network.running_mean.numpy()) / np.sqrt(network.running_variance.numpy() + 1e-5)
    nodes = network.nodes(torch.from_numpy(x)[None]).detach().numpy()[0]
    np.testing.assert_allclose(nodes, np.vstack([scaled.clip(min=0.0), np.zeros(WIDTH)]), rtol=1e-9, atol=1e-12)


def test_untrained_parameters_are_within_the_bounds_of_glorot_and_of_torch() -> None:
    """Sqrt(6 / (inputs + outputs)) for a convolution, 1 / sqrt(inputs) for a linear layer."""
    rng = np.random.default_rng(0)
    network = GraphAutoencoder(Space([Nominal("n", range(100)), Real("x", 0.0, 1.0)]), [np.zeros((2, 2))], rng)
    largest = {
        "convolution": (network.encoders[0].V, np.sqrt(6 / 8)),
        "of the real": (network.embedding[:1], 1.0),
        "of 100 values": (network.embedding[1:], 0.1),
        "hidden": (network.hidden, 0.5),
        "output": (network.output, 0.5),
    }
    for values, bound in largest.values():
        assert 0.75 * bound < float(values.detach().abs().max()) <= bound
    assert float(Encoder.draw(np.zeros((2, 2)), rng).V.detach().mean().abs()) < 0.3


def test_training_compares_results_with_those_of_the_nearest_and_the_farthest_objective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the others, which an equal objective is not; the results are drawn by their weights."""
    optimizer, recorded = build_gebo(OBJECTIVES), []
    monkeypatch.setattr(GraphAutoencoder, "train", lambda self, *arguments: recorded.append(arguments))
    network = GraphAutoencoder(SPACE, [COMPLETE], np.random.default_rng(0))
    for seed in range(60):
        optimizer._train(network, 0, 1e-2, np.random.default_rng(seed))
    X = np.array([SPACE.encode(trial.configuration) for trial, _ in optimizer.history])
    y = (np.array(OBJECTIVES) - np.mean(OBJECTIVES)) / np.std(OBJECTIVES, ddof=1)
    weights, drawn = result_weights(y, 1e-2), np.zeros(len(y))
    for _, triplets, ratios, w, noise in recorded:
        assert noise.shape == (5, WIDTH)
        for triplet, ratio, weight in zip(triplets.numpy(), ratios, w, strict=True):
            i, near, far = (int(np.flatnonzero((row == X).all(1))[0]) for row in triplet)
            gaps = np.abs(y - y[i])
            assert gaps[far] == gaps.max()
            assert gaps[near] == gaps[gaps > 0].min()
            assert float(ratio) == pytest.approx(np.log(gaps[far] + 1e-6) - np.log(gaps[near] + 1e-6))
            assert float(weight) == pytest.approx(weights[i])
            drawn[i] += 1
    np.testing.assert_allclose(drawn / drawn.sum(), weights, atol=0.1)


def test_the_warm_up_weighs_results_equally_and_later_training_prefers_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorded: list[float] = []
    monkeypatch.setattr(GraphAutoencoder, "train", lambda self, *arguments: recorded.append(float(arguments[3].max())))
    optimizer = build_gebo(OBJECTIVES, graphs=2)
    tell(optimizer, [0.5])
    warm_up, later = recorded[:2], recorded[2:]
    assert warm_up == pytest.approx([1 / 6] * 2, rel=1e-2)
    assert later == pytest.approx([result_weights(np.array([*OBJECTIVES, 0.5]), 1e-2).max()])


def test_a_result_that_is_the_best_is_no_failure_and_others_are() -> None:
    optimizer = build_gebo(OBJECTIVES, graphs=1)
    for objective, failures in ((0.5, 0), (0.6, 1), (0.5, 1), (0.4, 1), (9.0, 2)):
        tell(optimizer, [objective])
        assert optimizer._bandits.failures == [failures]


def test_the_first_new_configuration_that_the_bandit_s_graph_decodes_is_suggested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer = build_gebo(OBJECTIVES, graphs=4)
    known = SPACE.encode(optimizer.history[0][0].configuration)
    new = SPACE.sample_encoded(np.random.default_rng(1), 2)
    monkeypatch.setattr(GraphAutoencoder, "decode", lambda self, z: np.array([known, *new]))
    optimizer._bandits.by_graph = EXP3(0.0, np.array([-30.0, -30.0, 30.0, -30.0]))
    trial = optimizer.ask()
    assert trial is not None
    assert trial.memo == (2, optimizer._bandits.graphs[2].number)
    np.testing.assert_allclose(SPACE.encode(trial.configuration), new[0])


def test_the_kernel_of_embeddings_is_a_matern_of_their_distance() -> None:
    C, theta = torch.from_numpy(np.random.default_rng(0).random((4, WIDTH))), 0.6
    points = Points(C, torch.zeros(4, 1, dtype=torch.int64))
    conditioned = LatentKernel([]).condition_on({"theta": torch.tensor([theta], dtype=torch.float64)}, points)
    d = np.sqrt(5) * np.linalg.norm(C[:, None] - C, axis=-1) / theta
    np.testing.assert_allclose(conditioned.correlate(points)[0], (1 + d + d**2 / 3) * np.exp(-d), rtol=1e-7)


def test_the_bound_is_minimised_in_the_region_around_the_embeddings() -> None:
    """The three best of 1,000 samples are climbed; they come first, and then all samples, the best ones first."""
    optimizer, z = build_gebo(OBJECTIVES), torch.from_numpy(np.random.default_rng(1).random((7, WIDTH)))
    alone = optimizer._fit_embeddings(z[:6], optimizer.objectives(), np.random.default_rng(0))
    posterior = optimizer._fit_embeddings(z, optimizer.objectives(), np.random.default_rng(0))
    pending = Points(z[6:], torch.zeros(1, 1, dtype=torch.int64))
    assert float(posterior.likelihood.y[6]) == pytest.approx(float(alone.predict(pending)[0]))
    candidates = optimizer._maximise_bound(posterior, np.random.default_rng(0))
    mean, variance = posterior.predict(Points(candidates, torch.zeros(len(candidates), 1, dtype=torch.int64)))
    bound = (mean - 2.0 * variance.sqrt()).numpy()
    climbed, samples = bound[:3], bound[3:]
    assert len(samples) == 1000
    assert (np.diff(climbed) >= -1e-9).all()
    assert (np.diff(samples) >= -1e-9).all()
    assert climbed[0] < samples[0]
    margin = float(posterior.parameters["theta"]) * (z.numpy().std(0) + 1e-6)
    low, high = z.numpy().min(0) - margin, z.numpy().max(0) + margin
    np.testing.assert_allclose(candidates[3:].numpy().min(0), low, atol=0.02 * (high - low).max())
    np.testing.assert_allclose(candidates[3:].numpy().max(0), high, atol=0.02 * (high - low).max())


def test_the_bandits_draw_hubs_and_graphs_by_their_probabilities() -> None:
    bandits, rng = NestedBandits(6, 4, 3, 1000, np.random.default_rng(0)), np.random.default_rng(1)
    bandits.by_graph = bandits.by_graph.add_rewards({2: 80.0})
    bandits.by_node = bandits.by_node.add_rewards({5: 80.0})
    shares = np.bincount([bandits.draw(rng) for _ in range(2000)], minlength=4) / 2000
    np.testing.assert_allclose(shares, bandits.by_graph.probabilities, atol=0.05)
    assert bandits.by_graph.probabilities[2] > 0.4
    hubs = [bandits._draw_graph(rng).hubs for _ in range(300)]
    p = bandits.by_node.probabilities
    assert p[5] > 0.3
    np.testing.assert_allclose(np.mean([5 in drawn for drawn in hubs]), 1 - (1 - p[5]) ** 3, atol=0.1)


@pytest.mark.parametrize(
    ("hubs", "draws", "neighbour"),
    [
        ((0,), (0.0, 0.79), 0),  # weights 4 and 1
        ((0,), (0.0, 0.81), 1),
        ((0, 1, 2, 3, 4), (0.0, 0.95), 4),  # weights 5, 4, 4, 4, 4 and 1
        ((0, 1, 2, 3, 4), (0.0, 0.96), 5),
    ],
)
def test_a_node_s_neighbour_is_drawn_by_degree_and_a_hub_has_three_or_its_degree(
    hubs: tuple[int, ...], draws: tuple[float, float], neighbour: int
) -> None:
    A = grow_graph(len(hubs) + 2, hubs, draws)
    assert np.flatnonzero(A[-1]).tolist() == [neighbour]
