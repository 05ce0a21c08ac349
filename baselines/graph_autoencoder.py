"""The variational graph autoencoder of GEBO (Ahn, Kim, Yun 2022): configurations as graphs, and as points of R^4.

A configuration is a graph whose nodes are the variables, and a global node that every variable points to. An encoder of
two graph convolutions (Kipf and Welling 2016) gives the distribution of the global node's embedding z; there is an
encoder for each graph, and one decoder, from z to a value for each variable.

| symbol | shape | meaning |
|---|---|---|
| m, N, d | | configurations; variables; width of z and of all layers, 4 |
| X | [m, N] | encoded configurations, in the order of `Space.columns` |
| W | | outputs of the decoder: one per value of a discrete variable, one per continuous variable |
| z | [m, d] | embeddings |
| P | [N + 1, N + 1] | propagation of a graph, the global node last: D^-1/2 (A + I) D^-1/2 |
| w | [m] | weights of configurations |

The loss is that of the authors' code:

    sum_m w 0.5 |target - prediction| + KL(q(z) || N(0, 1)) / N + 0.1 metric + 0.1 |sum of the entries of I - V V'|

with target the indicators of values and the continuous variables in [0, 1], metric a log-ratio loss, and V the matrices
of the convolutions. KL is summed over the nodes and averaged over configurations and d.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import batch_norm, layer_norm

from fmnas.optimizers.gp.kernel import ROOT_GUARD
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

WIDTH = 4
LEARNING_RATE = 0.05
TERM_WEIGHT = 0.1  # of metric and orthogonality
MAX_LOG_DEVIATION = 10.0
TIE_GUARD = 1e-6  # added to differences of objectives


@dataclass(frozen=True)
class Encoder:
    """Two graph convolutions with the matrices V [3, d, d], inputs first, and biases [3, d].

    The first is that of the hidden layer, the others those of the mean and of the logarithm of the deviation.
    """

    P: Tensor
    V: Tensor
    bias: Tensor

    @classmethod
    def draw(cls, adjacency: Floats, rng: np.random.Generator) -> "Encoder":
        """Draw an encoder of a graph [N, N] with Glorot's distribution."""
        bound = math.sqrt(3.0 / WIDTH)
        V = _trainable(rng.uniform(-bound, bound, (3, WIDTH, WIDTH)))
        return cls(propagation(adjacency), V, _trainable(np.zeros((3, WIDTH))))

    def __call__(self, nodes: Tensor) -> Tensor:
        """Return (mean, log deviation) [2, m, N + 1, d] of all nodes, given their features [m, N + 1, d]."""
        hidden = (self.P @ nodes @ self.V[0] + self.bias[0]).relu()
        return self.P @ hidden @ self.V[1:, None] + self.bias[1:, None, None]

    def orthogonality(self) -> Tensor:
        """Return the sum over V of |sum of the entries of I - V V'|."""
        return (torch.eye(WIDTH, dtype=self.V.dtype) - self.V @ self.V.mT).sum((1, 2)).abs().sum()


def propagation(adjacency: Floats) -> Tensor:
    """Return P of an undirected graph [N, N]. Degrees are in-degrees plus 1."""
    N = len(adjacency)
    A = torch.eye(N + 1, dtype=torch.float64)
    A[:N, :N] += torch.from_numpy(adjacency)
    A[N] = 1.0
    root = A.sum(1).rsqrt()
    return root[:, None] * A * root


class GraphAutoencoder:
    """Embedding of the variables and decoder of a space, and one encoder per graph [N, N]."""

    def __init__(self, space: Space, graphs: Sequence[Floats], rng: np.random.Generator) -> None:
        D = len(space.continuous)
        sizes = np.array([1] * D + [len(variable.vertices) for variable in space.discrete])
        N, W = len(sizes), int(sizes.sum())
        self._first = torch.from_numpy(sizes.cumsum() - sizes)  # of the W outputs, by variable
        self._sizes = torch.from_numpy(sizes)
        self._variable = torch.arange(N).repeat_interleave(self._sizes)  # of each output
        self._is_discrete = torch.arange(N) >= D
        fan_in = np.sqrt(sizes)  # all linear layers begin as those of torch: uniform in 1 / sqrt(inputs)
        half = math.sqrt(WIDTH)
        self.embedding = _trainable(rng.uniform(-1.0, 1.0, (W, WIDTH)) / np.repeat(fan_in, sizes)[:, None])
        self.embedding_bias = _trainable(rng.uniform(-1.0, 1.0, (N, WIDTH)) / fan_in[:, None])
        self.batch_scale, self.batch_bias = _trainable(np.ones(WIDTH)), _trainable(np.zeros(WIDTH))
        self.running_mean, self.running_variance = torch.zeros(WIDTH).double(), torch.ones(WIDTH).double()
        self.hidden = _trainable(rng.uniform(-1.0, 1.0, (N, WIDTH, WIDTH)) / half)  # inputs first
        self.hidden_bias = _trainable(rng.uniform(-1.0, 1.0, (N, WIDTH)) / half)
        self.layer_scale, self.layer_bias = _trainable(np.ones((N, WIDTH))), _trainable(np.zeros((N, WIDTH)))
        self.output = _trainable(rng.uniform(-1.0, 1.0, (W, WIDTH)) / half)
        self.output_bias = _trainable(rng.uniform(-1.0, 1.0, W) / half)
        self.encoders = [Encoder.draw(graph, rng) for graph in graphs]

    def nodes(self, X: Tensor, training: bool = False) -> Tensor:
        """Return the features [m, N + 1, d] of all nodes; training: update the running statistics."""
        rows = self._first + torch.where(self._is_discrete, X, 0.0).long()
        amounts = torch.where(self._is_discrete, 1.0, X)
        features = amounts[..., None] * self.embedding[rows] + self.embedding_bias
        flat = batch_norm(
            features.flatten(0, 1),
            self.running_mean,
            self.running_variance,
            self.batch_scale,
            self.batch_bias,
            training,
        )
        return torch.nn.functional.pad(flat.relu().view_as(features), (0, 0, 0, 1))

    def encode(self, arm: int, X: Tensor) -> Tensor:
        """Return the mean embeddings z of encoded configurations under one graph."""
        with torch.no_grad():
            return self.encoders[arm](self.nodes(X))[0, :, -1]

    def predict(self, z: Tensor) -> Tensor:
        """Return the outputs [m, W]: scores of values, and continuous variables."""
        hidden = torch.einsum("md,nde->mne", z, self.hidden) + self.hidden_bias
        hidden = layer_norm(hidden, list(hidden.shape[1:]), self.layer_scale, self.layer_bias).relu()
        return (hidden[:, self._variable] * self.output).sum(-1) + self.output_bias

    def decode(self, z: Tensor) -> Floats:
        """Return X [m, N] for embeddings: values of the largest score, the first of equal ones, and clipped numbers."""
        with torch.no_grad():
            outputs = self.predict(z).numpy()
        X = outputs[:, self._first.numpy()].clip(0.0, 1.0)
        for n in self._is_discrete.nonzero()[:, 0].tolist():
            first = int(self._first[n])
            X[:, n] = outputs[:, first : first + int(self._sizes[n])].argmax(1)
        return X

    def loss(self, arm: int, X: Tensor, y: Tensor, w: Tensor, noise: Tensor, pos=None, neg=None, ratio=None) -> Tensor:
        """Return the loss of configurations with objectives y [m]. noise [m, d] draws z from its distribution."""
        mean, log_deviation = self.encoders[arm](self.nodes(X, training=True))
        log_deviation = log_deviation.clamp(max=MAX_LOG_DEVIATION)
        z = mean[:, -1] + noise * log_deviation[:, -1].exp()
        missed = (self._targets(X) - self._probabilities(z)).square().sum(1)
        divergence = -0.5 * (1.0 + 2.0 * log_deviation - mean.square() - (2.0 * log_deviation).exp()).sum(1).mean()
        if pos is None:
            metric = metric_loss(z, y)
        else:
            zp, zn = (self.encoders[arm](self.nodes(o, training=True))[0, :, -1] for o in (pos, neg))
            ds = [((z - o).square().sum(1) + ROOT_GUARD).log() / 2 for o in (zn, zp)]
            metric = (ds[0] - ds[1] - ratio).square().mean()
        terms = metric + self.encoders[arm].orthogonality()
        return 0.5 * (w * (missed + ROOT_GUARD).sqrt()).sum() + divergence / X.shape[1] + TERM_WEIGHT * terms

    def train(self, arm: int, X: Tensor, y: Tensor, w: Tensor, noise: Tensor) -> None:
        """Take the first step of Adam on the loss; its moments then are the gradient g and g^2."""
        encoder = self.encoders[arm]
        parameters = [encoder.V, encoder.bias, self.embedding, self.embedding_bias, self.batch_scale, self.batch_bias]
        parameters += [self.hidden, self.hidden_bias, self.layer_scale, self.layer_bias, self.output, self.output_bias]
        with torch.enable_grad():
            gradients = torch.autograd.grad(self.loss(arm, X, y, w, noise), parameters)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= LEARNING_RATE * gradient / (gradient.abs() + 1e-8)

    def _targets(self, X: Tensor) -> Tensor:
        """Return indicators and continuous variables [m, W]."""
        value = torch.arange(len(self._variable)) - self._first[self._variable]
        columns = X[:, self._variable]
        return torch.where(self._is_discrete[self._variable], (columns == value).double(), columns)

    def _probabilities(self, z: Tensor) -> Tensor:
        """Return the outputs [m, W] with a softmax over the values of each discrete variable."""
        outputs = self.predict(z)
        variable = self._variable.expand_as(outputs)
        largest = outputs.new_zeros(len(z), len(self._first)).scatter_reduce(1, variable, outputs.detach(), "amax", include_self=False)
        powers = (outputs - largest.gather(1, variable)).exp()
        total = torch.zeros_like(largest).scatter_add(1, variable, powers)
        return torch.where(self._is_discrete[self._variable], powers / total.gather(1, variable), outputs)


def metric_loss(z: Tensor, y: Tensor) -> Tensor:
    """Return the log-ratio loss (Kim et al. 2019) of embeddings whose objectives y [m] are not all equal, else 0.

    Each is compared with those of the nearest and of the farthest objective that differ from its own.
    """
    gaps = (y[:, None] - y).abs()
    rows = (gaps > 0.0).any(1).nonzero()[:, 0]
    if len(rows) == 0:
        return z.new_zeros(())
    near = gaps.masked_fill(gaps == 0.0, torch.inf)[rows].argmin(1)
    far = gaps[rows].argmax(1)
    in_z = [(z[rows] - z[other]).square().sum(1).add(ROOT_GUARD).log() / 2.0 for other in (far, near)]
    in_y = [(y[rows] - y[other] + TIE_GUARD).abs().log() for other in (far, near)]
    return (in_z[0] - in_z[1] - (in_y[0] - in_y[1])).square().mean()


def _trainable(values: Floats) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).requires_grad_()
