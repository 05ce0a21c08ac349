"""GEBO: bandits, graphs and network against golden values, and how its parts follow from the results."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fmnas.baselines.exp3 import EXP3, exploration_rate
from fmnas.baselines.gebo import GEBO, latent_box
from fmnas.baselines.graph_autoencoder import (
    WIDTH,
    Encoder,
    GraphAutoencoder,
    divergence,
    metric_loss,
    propagation,
    result_weights,
    take_adam_step,
)
from fmnas.baselines.graph_bandits import MAX_FAILURES, HubGraph, NestedBandits, grow_graph
from fmnas.optimizers import OptimizerError, random_design
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Real, Space
from fmnas.search_spaces.records import FALLBACK, MODEL, RANDOM

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_gebo.json").read_text())
BANDIT, NETWORK = GOLDEN["bandit"], GOLDEN["network"]
SPACE = Space([Nominal("a", [0, 1, 2]), Nominal("b", [0, 1]), Real("c", -1.0, 1.0), Real("d", 0.0, 5.0)])
COLUMNS = [2, 3, 0, 1]
"""The golden place of each column of an encoding."""
NODES = [*COLUMNS, 4]


def tensor(values: Any) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float64))


def golden_bandits() -> NestedBandits:
    bandits = NestedBandits(BANDIT["n_vars"], BANDIT["K"], 3, BANDIT["T"], np.random.default_rng(0))
    bandits.graphs = [HubGraph(i, tuple(hubs), np.zeros((7, 7))) for i, hubs in enumerate(BANDIT["hubs"])]
    return bandits


def test_golden_rewards_of_graphs_and_hubs() -> None:
    bandits = golden_bandits()
    assert bandits.by_graph.gamma == pytest.approx(BANDIT["gamma_graph"])
    assert bandits.by_node.gamma == pytest.approx(BANDIT["gamma_node"])
    for step in BANDIT["steps"]:
        np.testing.assert_allclose(bandits.by_graph.probabilities, step["p"], rtol=1e-10)
        bandits.reward(step["graph"], step["reward"])
        np.testing.assert_allclose(np.exp(bandits.by_graph.log_weights), step["graph_weights"], rtol=1e-10)
        np.testing.assert_allclose(np.exp(bandits.by_node.log_weights), step["node_weights_code"], rtol=1e-10)
    np.testing.assert_allclose(bandits.by_node.probabilities, BANDIT["node_distribution_final_code"], rtol=1e-10)


def test_the_first_reward_by_hand() -> None:
    """All five graphs have the probability 0.2; node 0 is a hub of one of them, node 3 of three."""
    bandits, reward = golden_bandits(), 0.7683
    bandits.reward(0, reward)
    gammas = exploration_rate(5, 100), exploration_rate(7, 100)
    assert bandits.by_graph.log_weights[0] == pytest.approx(reward / 0.2 * gammas[0] / 5)
    assert bandits.by_node.log_weights[0] == pytest.approx(reward / 0.2 / 2 / 0.2 * gammas[1] / 7)
    assert bandits.by_node.log_weights[3] == pytest.approx(reward / 0.2 / 2 / 0.6 * gammas[1] / 7)


def test_golden_replacement() -> None:
    golden = GOLDEN["replacement"]
    bandit = EXP3(0.1, np.log(golden["before"])).reset_arm(2)
    np.testing.assert_allclose(np.exp(bandit.log_weights), golden["after"], rtol=1e-10)


def test_a_single_arm_is_reset_to_the_weight_1() -> None:
    assert EXP3(0.0, np.array([2.0])).reset_arm(0).log_weights.tolist() == [0.0]


def test_golden_failures() -> None:
    bandits, best = golden_bandits(), 1.0
    for step in GOLDEN["failure_counter"]["steps"]:
        number = bandits.graphs[step["graph"]].number
        replaced = step["y"] > best and bandits.fail(step["graph"], np.random.default_rng(0))
        best = min(best, step["y"])
        assert bandits.failures == step["counters_after"]
        assert replaced == (step["replaced"] >= 0)
        assert (bandits.graphs[step["graph"]].number != number) == replaced


@pytest.mark.parametrize("case", GOLDEN["graphs"]["cases"], ids=lambda case: str(case["hubs"]))
def test_golden_graphs(case: dict[str, Any]) -> None:
    draws = [step["u"] for step in case["steps"]]
    A = grow_graph(case["n"], case["hubs"], draws, case["threshold"])
    np.testing.assert_array_equal(A, case["adjacency"])


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 100))
def test_graphs_are_connected_around_their_hubs(N: int, hubs: int, seed: int) -> None:
    bandits = NestedBandits(N, 2, hubs, 100, np.random.default_rng(seed))
    for graph in bandits.graphs:
        A, count = graph.adjacency, len(graph.hubs)
        assert 1 <= count <= min(hubs, N)
        assert A.sum() / 2 == count * (count - 1) / 2 + N - count
        np.testing.assert_array_equal(A, A.T)
        assert (np.linalg.matrix_power(A + np.eye(N), N) > 0).all()


@pytest.fixture
def network() -> GraphAutoencoder:
    """The network with the golden parameters, in the order of an encoding."""
    edges, adjacency = GOLDEN["gcn"]["undirected_edges"], np.zeros((4, 4))
    for i, j in edges:
        adjacency[i, j] = adjacency[j, i] = 1.0
    network = GraphAutoencoder(SPACE, [adjacency[np.ix_(COLUMNS, COLUMNS)]], np.random.default_rng(0))
    gcn, layers = GOLDEN["gcn"], {name: [NETWORK[name][p] for p in COLUMNS] for name in ("embedding", "decoder_out")}
    layers["hidden"] = [NETWORK["decoder_project"][p] for p in COLUMNS]
    parameters = {
        "embedding": torch.cat([tensor(layer["W"]).T for layer in layers["embedding"]]),
        "embedding_bias": tensor([layer["b"] for layer in layers["embedding"]]),
        "batch_scale": tensor(NETWORK["batchnorm_weight"]),
        "batch_bias": tensor(NETWORK["batchnorm_bias"]),
        "hidden": torch.stack([tensor(layer["W"]).T for layer in layers["hidden"]]),
        "hidden_bias": tensor([layer["b"] for layer in layers["hidden"]]),
        "layer_scale": tensor(NETWORK["layernorm_weight"])[COLUMNS],
        "layer_bias": tensor(NETWORK["layernorm_bias"])[COLUMNS],
        "output": torch.cat([tensor(layer["W"]) for layer in layers["decoder_out"]]),
        "output_bias": torch.cat([tensor(layer["b"]) for layer in layers["decoder_out"]]),
    }
    for name, value in parameters.items():
        setattr(network, name, value)
    V = torch.stack([tensor(gcn[name]).T for name in ("W1", "W_mu", "W_logstd")])
    bias = tensor([gcn[name] for name in ("b1", "b_mu", "b_logstd")])
    network.encoders = [replace(network.encoders[0], V=V, bias=bias)]
    return network


@pytest.fixture
def encoded() -> Tensor:
    """The golden points."""
    points = [{"a": int(a), "b": int(b), "c": c, "d": d} for a, b, c, d in GOLDEN["encode"]["x"]]
    return torch.from_numpy(SPACE.encode_all(points))


def test_golden_convolution(network: GraphAutoencoder) -> None:
    gcn, A = GOLDEN["gcn"], np.zeros((4, 4))
    for i, j in gcn["undirected_edges"]:
        A[i, j] = A[j, i] = 1.0
    np.testing.assert_allclose(propagation(A), gcn["propagation"], rtol=1e-10)
    mean, log_deviation = replace(network.encoders[0], P=propagation(A))(tensor(gcn["x"])[None])[:, 0]
    np.testing.assert_allclose(mean, gcn["mu"], rtol=1e-10)
    np.testing.assert_allclose(log_deviation, gcn["logstd"], rtol=1e-10)


def test_golden_embedding(network: GraphAutoencoder, encoded: Tensor) -> None:
    nodes = network.nodes(encoded, training=True)
    np.testing.assert_allclose(nodes, tensor(NETWORK["node_features"])[:, NODES], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(network.running_mean, NETWORK["batchnorm_running_mean"], rtol=1e-9)
    np.testing.assert_allclose(network.running_variance, NETWORK["batchnorm_running_var"], rtol=1e-9)


def test_golden_losses(network: GraphAutoencoder, encoded: Tensor) -> None:
    encoder, y = network.encoders[0], NETWORK["y"]
    mean, log_deviation = encoder(network.nodes(encoded, training=True))
    np.testing.assert_allclose(mean, tensor(NETWORK["mu"])[:, NODES], rtol=1e-9)
    z = mean[:, -1]
    np.testing.assert_allclose(z, NETWORK["z"], rtol=1e-9)
    near, far = [1, 0, 0], [1, 2, 1]  # y is 0.4, -1.2, 2.0: the first is as far from both
    to_near, to_far = (tensor([y[i] - y[other[i]] + 1e-6 for i in range(3)]).abs().log() for other in (near, far))
    ratio = to_far - to_near
    reconstruction = float(network.reconstruction_loss(encoded, z, tensor(NETWORK["sample_weights"])))
    metric = float(metric_loss(z, z[near], z[far], ratio))
    kl, orthogonality = float(divergence(mean, log_deviation)), float(encoder.orthogonality())
    assert reconstruction == pytest.approx(NETWORK["recon"], rel=1e-9)
    assert kl == pytest.approx(NETWORK["kl"], rel=1e-9)
    assert metric == pytest.approx(NETWORK["metric"], rel=1e-9)
    assert orthogonality == pytest.approx(NETWORK["orth_in_out"], rel=1e-9)
    assert reconstruction + kl / 4 + 0.1 * (metric + orthogonality) == pytest.approx(2.7293221626250362, rel=1e-9)


def test_decoding_takes_the_largest_output_and_clips(network: GraphAutoencoder) -> None:
    X = network.decode(tensor(NETWORK["z"]))
    predicted = NETWORK["prediction"]
    np.testing.assert_allclose(X[:, 0], np.clip([row[2][0] for row in predicted], 0.0, 1.0))
    np.testing.assert_allclose(X[:, 1], np.clip([row[3][0] for row in predicted], 0.0, 1.0))
    assert X[:, 2].tolist() == [np.argmax(row[0]) for row in predicted]
    assert X[:, 3].tolist() == [np.argmax(row[1]) for row in predicted]


def test_golden_decoding(monkeypatch: pytest.MonkeyPatch, network: GraphAutoencoder) -> None:
    golden = GOLDEN["encode"]
    outputs = tensor([np.concatenate([row[p] for p in COLUMNS]) for row in golden["decoder_output"]])
    monkeypatch.setattr(network, "predict", lambda z: outputs)
    decoded = [list(SPACE.decode(x).values()) for x in network.decode(torch.zeros(2, WIDTH))]
    np.testing.assert_allclose(np.array(decoded, float), golden["decoded"], rtol=1e-12, atol=1e-12)


def test_golden_latent_box() -> None:
    golden = GOLDEN["latent_box"]
    for factor, lower, upper in zip(golden["l"], golden["lower"], golden["upper"], strict=True):
        box = latent_box(tensor(golden["z"]), factor)
        np.testing.assert_allclose(box.lower, lower, rtol=1e-10)
        np.testing.assert_allclose(box.upper, upper, rtol=1e-10)


def test_the_noise_is_a_tenth_of_the_output_scale() -> None:
    optimizer = GEBO(SPACE, initial_design=random_design(SPACE, 6, 0))
    play(optimizer, 6)
    z = torch.from_numpy(np.random.default_rng(0).random((7, WIDTH)))
    posterior = optimizer._fit_embeddings(z, optimizer.objectives(), np.random.default_rng(0))
    assert posterior.g == pytest.approx(0.1)
    assert 1e-4 <= float(posterior.parameters["theta"]) <= 3.0
    assert len(posterior.likelihood.y) == 7
    assert float(posterior.likelihood.y[:6].mean()) == pytest.approx(0.0, abs=1e-12)


def test_golden_weights() -> None:
    golden = GOLDEN["weights"]
    np.testing.assert_allclose(result_weights(np.array(golden["y"]), 1e-2), golden["k_001"], rtol=1e-10)
    np.testing.assert_allclose(result_weights(np.array(golden["y"]), 1e3), golden["k_1000"], rtol=1e-10)


def test_training_lowers_the_loss_of_reconstruction() -> None:
    rng = np.random.default_rng(0)
    network = GraphAutoencoder(SPACE, [np.ones((4, 4)) - np.eye(4)], rng)
    X = torch.from_numpy(np.repeat(SPACE.sample_encoded(rng, 1), 5, 0))
    triplets, zeros, w = X[:, None].expand(-1, 3, -1), torch.zeros(5), torch.ones(5)

    def loss() -> float:
        return float(network.reconstruction_loss(X, network.encode(0, X), w).detach())

    before = loss()
    for _ in range(20):
        network.train(0, triplets, zeros, w, torch.zeros(5, WIDTH))
    assert loss() < before / 2
    np.testing.assert_array_equal(network.decode(network.encode(0, X))[:, 2:], X[:, 2:])


def test_the_arguments_of_adam_give_the_steps_of_its_class() -> None:
    ours, theirs, first, second = (torch.zeros(3, dtype=torch.float64) for _ in range(4))
    optimizer, steps = torch.optim.Adam([theirs.requires_grad_()], lr=0.05), torch.zeros(())
    for gradient in tensor([[1.0, -2.0, 1e-6], [0.5, 3.0, 0.0]]):
        take_adam_step([ours], [gradient], [first], [second], [], [steps])
        theirs.grad = gradient
        optimizer.step()
    np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-12)
    assert (ours != 0.0).all()


def test_training_an_encoder_leaves_the_others() -> None:
    rng = np.random.default_rng(0)
    network = GraphAutoencoder(SPACE, [np.zeros((4, 4))] * 2, rng)
    before = [encoder.V.detach().clone() for encoder in network.encoders]
    X = torch.from_numpy(SPACE.sample_encoded(rng, 3))
    network.train(1, X[None], torch.ones(1), torch.ones(1), torch.zeros(1, WIDTH))
    assert torch.equal(network.encoders[0].V, before[0])
    assert not torch.equal(network.encoders[1].V, before[1])


def play(
    optimizer: GEBO, asks: int, score: Callable[[np.ndarray], float] = lambda x: float(((x - 0.3) ** 2).sum())
) -> None:
    for _ in range(asks):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, score(optimizer.space.encode(trial.configuration)))


def test_the_best_result_is_the_largest_reward_and_published_rewards_are_objectives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received: list[float] = []
    monkeypatch.setattr(NestedBandits, "reward", lambda self, arm, reward: received.append(reward))
    for reward, expected in (("scaled", [1.0, 0.5, 0.0]), ("published", [-3.0, 0.0, 3.0])):
        optimizer = GEBO(SPACE, reward=reward, initial_design=random_design(SPACE, 3, 0))
        for value in (1.0, 2.0, 3.0, -3.0, 0.0, 3.0):
            trial = optimizer.ask()
            assert trial is not None
            optimizer.tell(trial, value)
        assert received == pytest.approx(expected)
        received.clear()


def test_a_graph_that_fails_is_replaced_with_its_encoder() -> None:
    optimizer = GEBO(SPACE, graphs=1, initial_design=random_design(SPACE, 3, 0))
    play(optimizer, 3)
    numbers, encoders = [], []
    for _ in range(MAX_FAILURES + 1):
        play(optimizer, 1, lambda x: 9.0)
        numbers.append(optimizer._bandits.graphs[0].number)
        encoders.append(optimizer._autoencoder.encoders[0])
    assert numbers == [1] * MAX_FAILURES + [2]
    assert encoders[0] is encoders[-2]
    assert encoders[-1] is not encoders[0]
    drawn = propagation(optimizer._bandits.graphs[0].adjacency)
    assert torch.equal(encoders[-1].P, drawn)


def test_the_result_of_a_replaced_graph_changes_nothing() -> None:
    optimizer = GEBO(SPACE, graphs=1, initial_design=random_design(SPACE, 3, 0))
    play(optimizer, 3)
    late = optimizer.ask()
    play(optimizer, MAX_FAILURES + 1, lambda x: 9.0)
    weights, output = optimizer._bandits.by_node.log_weights, optimizer._autoencoder.output.detach().clone()
    assert late is not None
    optimizer.tell(late, 0.0)
    assert optimizer._bandits.by_node.log_weights is weights
    assert torch.equal(optimizer._autoencoder.output, output)


def test_without_a_new_feasible_point_the_suggestion_is_random_and_the_graph_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bits = [Integer(f"b{i}", 0, 1) for i in range(6)]
    space = Space(bits, [LinearConstraint({bit.name: 1 for bit in bits}, 2)])
    optimizer = GEBO(space, graphs=2, initial_design=random_design(space, 4, 0))
    play(optimizer, 4)
    monkeypatch.setattr(GraphAutoencoder, "decode", lambda self, z: np.ones((len(z), 6)))
    trial = optimizer.ask()
    assert trial is not None
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    optimizer.tell(trial, -9.0)
    assert sorted(optimizer._bandits.failures) == [0, 1]
    assert optimizer._bandits.by_graph.gamma > 0.0
    assert (optimizer._bandits.by_graph.log_weights == 0.0).all()
    assert (optimizer._bandits.by_node.log_weights == 0.0).all()


def test_nothing_is_suggested_twice_while_the_model_knows_new_points() -> None:
    optimizer = GEBO(SPACE, seed=3, initial_design=random_design(SPACE, 5, 0))
    play(optimizer, 25)
    suggested = [trial.configuration for trial, _ in optimizer.history if trial.origin == MODEL]
    assert len(suggested) > 10
    assert len({tuple(configuration.values()) for configuration in suggested}) == len(suggested)


def test_pulls_are_the_evaluations_after_the_design() -> None:
    design = random_design(SPACE, 4, 0)
    for evaluations, pulls in ((54, 50), (None, 100), (2, 1)):
        bandits = GEBO(SPACE, evaluations=evaluations, initial_design=design)._bandits
        assert bandits.by_graph.gamma == exploration_rate(5, pulls)
        assert bandits.by_node.gamma == exploration_rate(4, pulls)


@pytest.mark.parametrize("options", [{"graphs": 0}, {"hubs": 0}, {"reward": "raw"}, {"evaluations": 0}])
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptimizerError):
        GEBO(SPACE, **options)


def test_it_finds_a_corner() -> None:
    """Clipped outputs reach the ends of ranges."""
    space = Space([Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Nominal("n", list("abc"))])
    optimizer = GEBO(space, seed=1, initial_design=random_design(space, 10, 0))
    play(optimizer, 50, lambda x: float(x.sum()))
    assert min(evaluation.objective for _, evaluation in optimizer.history) < 0.1


def test_a_drawn_encoder_is_untrained() -> None:
    encoder = Encoder.draw(np.zeros((3, 3)), np.random.default_rng(0))
    assert float(encoder.V.detach().abs().max()) <= np.sqrt(3 / 4)
    assert not encoder.bias.detach().any()
