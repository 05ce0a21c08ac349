"""The variational graph autoencoder of GEBO (Ahn, Kim, Yun 2022): configurations as graphs, and as points of R^4.

A configuration is a graph whose nodes are the variables, and a global node that every variable points to. An encoder of
two graph convolutions (Kipf and Welling 2016) gives the distribution of the global node's embedding z. There is an
encoder for each graph, and one decoder, from z to every variable.

| symbol | shape | meaning |
|---|---|---|
| m, N, d | | configurations; variables; width of z and of all layers, 4 |
| X | [m, N] | encoded configurations (space.py) |
| O | | outputs of the decoder: one per value of a discrete variable, one per continuous variable |
| z | [m, d] | embeddings |
| P | [N + 1, N + 1] | propagation in a graph, the global node last: D^-1/2 (A + I) D^-1/2 |
| V | [3, d, d] | matrices of an encoder's convolutions, inputs first |

The loss has the terms and weights of the authors' code:

    w |targets - outputs| / 2 + KL / N + (metric + orthogonality) / 10

w is the weight of a configuration, the targets are indicators of its values and its continuous variables in [0, 1], KL
is the divergence of q(z) from N(0, 1), and the others are `metric_loss` and `Encoder.orthogonality`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, layer_norm, pad
from torch.optim.adam import adam

from fmnas.optimizers.gp.kernel import ROOT_GUARD
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

WIDTH = 4
take_adam_step = partial(
    adam, lr=0.05, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False, fused=True
)
"""Making a torch.optim.Adam would import 800 modules, which takes a second."""
TERM_WEIGHT = 0.1  # of metric and orthogonality
MAX_LOG_DEVIATION = 10.0


@dataclass(frozen=True)
class Encoder:
    """Two graph convolutions. V[0] and bias[0] [d] give the hidden layer, the others mean and log deviation."""

    P: Tensor
    V: Tensor
    bias: Tensor

    @classmethod
    def draw(cls, adjacency: Floats, rng: np.random.Generator) -> "Encoder":
        """Draw an untrained encoder of a graph [N, N]."""
        bound = math.sqrt(3.0 / WIDTH)  # of Glorot's distribution
        V = _trainable(rng.uniform(-bound, bound, (3, WIDTH, WIDTH)))
        return cls(propagation(adjacency), V, _trainable(np.zeros((3, WIDTH))))

    def __call__(self, nodes: Tensor) -> Tensor:
        """Return (mean, log deviation) [2, m, N + 1, d] of all nodes, given their features [m, N + 1, d]."""
        hidden = (self.P @ nodes @ self.V[0] + self.bias[0]).relu()
        return self.P @ hidden @ self.V[1:, None] + self.bias[1:, None, None]

    def orthogonality(self) -> Tensor:
        """Return the sum over the three matrices of |sum of the entries of I - V V'|."""
        return (torch.eye(WIDTH, dtype=self.V.dtype) - self.V @ self.V.mT).sum((1, 2)).abs().sum()


def propagation(adjacency: Floats) -> Tensor:
    """Return P of an undirected graph [N, N]; D holds in-degrees plus 1."""
    N = len(adjacency)
    A = torch.eye(N + 1, dtype=torch.float64)
    A[:N, :N] += torch.from_numpy(adjacency)
    A[N] = 1.0
    root = A.sum(1).rsqrt()
    return root[:, None] * A * root


class GraphAutoencoder:
    """Embedding of the variables and decoder of a space, and an encoder per graph [N, N]; all drawn from rng."""

    def __init__(self, space: Space, graphs: Sequence[Floats], rng: np.random.Generator) -> None:
        sizes = np.array([1] * len(space.continuous) + [len(variable.vertices) for variable in space.discrete])
        N, outputs = len(sizes), int(sizes.sum())
        self._is_discrete = torch.arange(N) >= len(space.continuous)
        self._bounds = [0, *sizes.cumsum().tolist()]  # of the outputs, by variable
        self._first = torch.tensor(self._bounds[:-1])
        self._variable = torch.arange(N).repeat_interleave(torch.from_numpy(sizes))  # of each output

        def draw(inputs: Floats | int, *shape: int) -> Tensor:
            """Draw parameters of linear layers as torch does: uniform within 1 / sqrt(inputs)."""
            return _trainable(rng.uniform(-1.0, 1.0, shape) / np.sqrt(inputs))

        inputs = sizes[:, None]
        self.embedding = draw(np.repeat(inputs, sizes, 0), outputs, WIDTH)
        self.embedding_bias = draw(inputs, N, WIDTH)
        self.batch_scale, self.batch_bias = _trainable(np.ones(WIDTH)), _trainable(np.zeros(WIDTH))
        self.running_mean, self.running_variance = torch.zeros(WIDTH).double(), torch.ones(WIDTH).double()
        self.hidden, self.hidden_bias = draw(WIDTH, N, WIDTH, WIDTH), draw(WIDTH, N, WIDTH)  # inputs first
        self.layer_scale, self.layer_bias = _trainable(np.ones((N, WIDTH))), _trainable(np.zeros((N, WIDTH)))
        self.output, self.output_bias = draw(WIDTH, outputs, WIDTH), draw(WIDTH, outputs)
        self.encoders = [Encoder.draw(graph, rng) for graph in graphs]

    def nodes(self, X: Tensor, training: bool = False) -> Tensor:
        """Return the features [m, N + 1, d] of all nodes.

        training: normalise by the statistics of X, and add them to the running ones, which are used otherwise.
        """
        rows = self._first + torch.where(self._is_discrete, X, 0.0).long()
        amounts = torch.where(self._is_discrete, 1.0, X)
        features = amounts[..., None] * self.embedding[rows] + self.embedding_bias
        running, affine = (self.running_mean, self.running_variance), (self.batch_scale, self.batch_bias)
        normalised = batch_norm(features.flatten(0, 1), *running, *affine, training)
        return pad(normalised.relu().view_as(features), (0, 0, 0, 1))  # the global node begins at 0

    def encode(self, arm: int, X: Tensor) -> Tensor:
        """Return the means of z under the graph number `arm`."""
        with torch.no_grad():
            return self.encoders[arm](self.nodes(X))[0, :, -1]

    def predict(self, z: Tensor) -> Tensor:
        """Return the outputs [m, O] before the softmax over the values of each discrete variable."""
        hidden = torch.einsum("md,nde->mne", z, self.hidden) + self.hidden_bias
        hidden = layer_norm(hidden, list(self.layer_scale.shape), self.layer_scale, self.layer_bias).relu()
        return (hidden[:, self._variable] * self.output).sum(-1) + self.output_bias

    def decode(self, z: Tensor) -> Floats:
        """Return X for embeddings: the value with the largest output, the first of equal ones; clipped numbers."""
        with torch.no_grad():
            outputs = self.predict(z).numpy()
        X = outputs[:, self._first.numpy()].clip(0.0, 1.0)
        for n in self._is_discrete.nonzero()[:, 0].tolist():
            X[:, n] = outputs[:, self._bounds[n] : self._bounds[n + 1]].argmax(1)
        return np.asarray(X)

    def reconstruction_loss(self, X: Tensor, z: Tensor, w: Tensor) -> Tensor:
        """Return half the sum of w |targets - outputs| with weights w [m]."""
        outputs, variable = self.predict(z), self._variable.expand(len(z), -1)
        largest = torch.full_like(X, -torch.inf).scatter_reduce(1, variable, outputs.detach(), "amax")
        powers = (outputs - largest.gather(1, variable)).exp()
        shares = powers / torch.zeros_like(X).scatter_add(1, variable, powers).gather(1, variable)
        is_value, columns = self._is_discrete[self._variable], X.gather(1, variable)
        indicators = (columns == torch.arange(outputs.shape[1]) - self._first[self._variable]).double()
        missed = torch.where(is_value, indicators - shares, columns - outputs)
        return 0.5 * (w * (missed.square().sum(1) + ROOT_GUARD).sqrt()).sum()

    @torch.no_grad()
    def train(self, arm: int, triplets: Tensor, ratios: Tensor, w: Tensor, noise: Tensor) -> None:
        """Take a step of Adam, new at each call, for one configuration after another, s of them.

        triplets [s, 3, N]: a configuration, and those that `metric_loss` compares it with. ratios, w [s]: that of their
        objectives, and weights. noise [s, d]: standard normal, draws z.
        """
        encoder = self.encoders[arm]
        shared = [value for value in vars(self).values() if isinstance(value, Tensor) and value.requires_grad]
        parameters = [encoder.V, encoder.bias, *shared]
        first, second = ([torch.zeros_like(value) for value in parameters] for _ in range(2))  # moments
        steps = [torch.zeros(()) for _ in parameters]
        for triplet, ratio, weight, deviates in zip(triplets, ratios, w, noise, strict=True):
            with torch.enable_grad():
                mean, log_deviation = encoder(self.nodes(triplet, training=True))
                log_deviation = log_deviation[:1].clamp(max=MAX_LOG_DEVIATION)
                z = mean[:1, -1] + deviates * log_deviation[:, -1].exp()
                terms = metric_loss(z, mean[1:2, -1], mean[2:, -1], ratio) + encoder.orthogonality()
                loss = self.reconstruction_loss(triplet[:1], z, weight)
                loss = loss + divergence(mean[:1], log_deviation) / triplet.shape[1] + TERM_WEIGHT * terms
            take_adam_step(parameters, [*torch.autograd.grad(loss, parameters)], first, second, [], steps)


def result_weights(y: Floats, k: float) -> Floats:
    """Return weights [n], of sum 1, in proportion to 1 / (k n + number of better results), given objectives y [n]."""
    weights = 1.0 / (k * len(y) + (y < y[:, None]).sum(1))
    return np.asarray(weights / weights.sum())


def divergence(mean: Tensor, log_deviation: Tensor) -> Tensor:
    """Return KL, summed over nodes and averaged over configurations and d; both [m, N + 1, d]."""
    terms = 1.0 + 2.0 * log_deviation - mean.square() - (2.0 * log_deviation).exp()
    return -0.5 * terms.sum(1).mean()


def metric_loss(z: Tensor, near: Tensor, far: Tensor, ratio: Tensor) -> Tensor:
    """Return the log-ratio loss (Kim et al. 2019) of embeddings.

    near, far [m, d]: those of the configurations with the nearest and the farthest of the other objectives.
    ratio [m]: the logarithm of the ratio of the two differences of objectives, the farthest first.
    """
    to_far, to_near = ((z - other).square().sum(1) + ROOT_GUARD for other in (far, near))
    return (0.5 * (to_far.log() - to_near.log()) - ratio).square().mean()


def _trainable(values: Floats) -> Tensor:
    return torch.from_numpy(values).requires_grad_()
