"""The nested bandits of GEBO (Ahn, Kim, Yun 2022, Sec. 4.3): one draws a graph, the other the hubs of new graphs.

| symbol | shape | meaning |
|---|---|---|
| N, K | | variables, the nodes of the graphs; graphs |
| A | [N, N] | adjacency of a graph: 0 or 1, symmetric |
| p | [K] | probabilities of the graphs |
| R | | a reward in [0, 1] |

A graph grows around its hubs: they form a complete graph, and every other node gets one edge to a node that is drawn in
proportion to its weight (preferential attachment, Barabasi and Albert 1999). Weights are degrees, those of hubs at
least 3 at first.

A reward R of graph i is R / p_i for its arm, and R / (p_i |hubs of i| q_v) for each of its hubs v, where q_v is the sum
of p over the graphs that have the hub v.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fmnas.baselines.exp3 import EXP3, exploration_rate
from fmnas.search_spaces.variables import Floats

HUB_WEIGHT = 3
MAX_FAILURES = 5


@dataclass(frozen=True)
class HubGraph:
    """A graph with its hubs. number: how many were drawn before it."""

    number: int
    hubs: tuple[int, ...]
    adjacency: Floats


def grow_graph(N: int, hubs: Sequence[int], draws: Sequence[float], hub_weight: int = HUB_WEIGHT) -> Floats:
    """Return A. draws: a uniform number for each node except the hubs, in their order, which draws its neighbour."""
    A, weights = np.zeros((N, N)), np.zeros(N)
    A[np.ix_(hubs, hubs)] = 1.0 - np.eye(len(hubs))
    weights[list(hubs)] = max(hub_weight, len(hubs) - 1)
    new_nodes = [node for node in range(N) if node not in hubs]
    for node, draw in zip(new_nodes, draws, strict=True):
        cumulative = weights.cumsum()
        target = int(np.searchsorted(cumulative, draw * cumulative[-1], side="right"))
        A[node, target] = A[target, node] = 1.0
        weights[[node, target]] += 1.0
    return A


class NestedBandits:
    """Bandits over K graphs and over their N nodes.

    hubs: draws of hubs for a graph; equal ones count once. pulls: number of draws of a graph, if known in advance.
    """

    def __init__(self, N: int, K: int, hubs: int, pulls: int, rng: np.random.Generator) -> None:
        self._hub_draws, self._drawn = hubs, 0
        self.by_node = EXP3(exploration_rate(N, pulls), np.zeros(N))
        self.by_graph = EXP3(exploration_rate(K, pulls), np.zeros(K))
        self.graphs = [self._draw_graph(rng) for _ in range(K)]
        self.failures = [0] * K

    def draw(self, rng: np.random.Generator) -> int:
        """Draw the arm of a graph."""
        return int(rng.choice(len(self.graphs), p=self.by_graph.probabilities))

    def reward(self, arm: int, reward: float) -> None:
        """Reward a graph and its hubs."""
        p, hubs = self.by_graph.probabilities, self.graphs[arm].hubs
        share = reward / p[arm] / len(hubs)
        chances = {hub: sum(p[i] for i, graph in enumerate(self.graphs) if hub in graph.hubs) for hub in hubs}
        self.by_node = self.by_node.add_rewards({hub: share / chance for hub, chance in chances.items()})
        self.by_graph = self.by_graph.update(arm, reward, float(p[arm]))

    def fail(self, arm: int, rng: np.random.Generator) -> bool:
        """Count a failure of a graph; replace it if it has more than MAX_FAILURES, and return whether it was."""
        self.failures[arm] += 1
        if self.failures[arm] <= MAX_FAILURES:
            return False
        self.failures[arm] = 0
        self.graphs[arm], self.by_graph = self._draw_graph(rng), self.by_graph.reset_arm(arm)
        return True

    def _draw_graph(self, rng: np.random.Generator) -> HubGraph:
        N = len(self.by_node.log_weights)
        drawn = rng.choice(N, size=self._hub_draws, p=self.by_node.probabilities)
        hubs = tuple(np.unique(drawn).tolist())
        self._drawn += 1
        return HubGraph(self._drawn, hubs, grow_graph(N, hubs, rng.random(N - len(hubs)).tolist()))
