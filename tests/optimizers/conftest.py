"""Random spaces and data for the model; one torch thread while a test runs; gpytorch imported without its warning."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.power_kernel import POWER_KERNELS, build_kernel
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.search_spaces import Graph, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.variables import Variable

with warnings.catch_warnings():
    # gpytorch compiles two functions with torch.jit.script, which torch deprecates.
    warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
    import gpytorch  # noqa: F401


@pytest.fixture(autouse=True)
def _one_torch_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@st.composite
def _discrete(draw: st.DrawFn, name: str) -> Variable:
    kind = draw(st.sampled_from(["integer", "ordinal", "nominal", "graph"]))
    n = draw(st.integers(2, 6))
    if kind == "integer":
        return Integer(name, 1, n)
    values = tuple("abcdef"[:n])
    if kind == "ordinal":
        return Ordinal(name, values)
    if kind == "nominal":
        return Nominal(name, values)
    tree = [(draw(st.integers(0, i - 1)), i) for i in range(1, n)]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=3))
    return Graph(name, values, tuple((values[i], values[j]) for i, j in [*tree, *more] if i != j))


@st.composite
def _space(draw: st.DrawFn) -> Space:
    D = draw(st.integers(0, 3))
    P = draw(st.integers(0 if D else 1, 3))
    reals = [Real(f"x{d}", 0.0, 1.0) for d in range(D)]
    return Space([*reals, *(draw(_discrete(f"v{p}")) for p in range(P))])


@pytest.fixture(scope="session")
def spaces() -> st.SearchStrategy[Space]:
    """Spaces of up to 3 real and up to 3 discrete variables of any kind, at least one in all."""
    return _space()


NAMES = [*FAST_KERNELS, *POWER_KERNELS, *(f"blended-{name}" for name in (*BLENDED_KERNELS, *POWER_KERNELS))]


@dataclass(frozen=True)
class Problem:
    """A space with n observed points X and standardised values y, one random eta, and what the model makes of them."""

    space: Space
    kernel: str
    X: np.ndarray
    y: torch.Tensor
    likelihood: Likelihood
    eta: torch.Tensor

    @property
    def points(self) -> Points:
        return Points.from_encoded(self.space, self.X)

    @property
    def posterior(self) -> Posterior:
        return Posterior(self.likelihood, self.eta)

    @property
    def plug_in(self) -> Posterior:
        """The posterior that takes the mean and the output scale of maximum likelihood for known."""
        likelihood = self.likelihood
        return Posterior(Likelihood(likelihood.kernel, likelihood.points, self.y, plug_in=True), self.eta)


def _problem(space: Space, n: int, seed: int = 0, kernel: str = "modlap") -> Problem:
    rng = np.random.default_rng(seed)
    X = space.sample_encoded(rng, n)
    y = rng.standard_normal(n) + X.sum(axis=1)
    y = torch.from_numpy((y - y.mean()) / y.std(ddof=1))
    model = build_kernel(space, kernel.removeprefix("blended-"), blended=kernel.startswith("blended-"))
    likelihood = Likelihood(model, Points.from_encoded(space, X), y)
    return Problem(
        space, kernel, X, y, likelihood, likelihood.parameters.box.clip(likelihood.parameters.starts(rng, 1)[0])
    )


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., Problem]:
    """make_problem(space, n, seed=0, kernel="modlap")."""
    return _problem


MIXED = Space(
    [
        Real("x", 0.0, 1.0),
        Nominal("a", ["p", "q", "r"]),
        Real("z", 0.0, 1.0),
        Ordinal("o", [1, 2, 3, 4]),
        Nominal("b", [0, 1, 2]),
        Graph("g", ("s", "t", "u", "w"), (("s", "t"), ("t", "u"), ("t", "w"))),
        Nominal("c", [False, True]),
        Integer("k", 1, 4),
    ]
)
"""Variables of one shape (a and b, o and k) do not stand side by side: what is computed together must be put back."""


@pytest.fixture(
    scope="session",
    params=[
        MIXED,
        Space([Nominal("a", ["p", "q", "r"]), Integer("k", 0, 4)]),
        Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)]),
    ],
    ids=["mixed", "discrete", "continuous"],
)
def space(request: pytest.FixtureRequest) -> Space:
    """A mixed space, one without real variables, one without discrete ones."""
    return request.param


@pytest.fixture(params=sorted(NAMES))
def kernel(request: pytest.FixtureRequest) -> str:
    """Each kernel of BO-FM."""
    return request.param
