"""The whole family of kernels: the authors' normalised form, products, and sums."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import kernels
from fmnas.search_spaces import Nominal, Ordinal, Real, Space

GOLDEN = json.loads((Path(__file__).parent / "golden_normalised_kernels.json").read_text())
X = torch.tensor(GOLDEN["X"], dtype=torch.float64)
GOLDEN_SPACE = Space(
    [
        *(Real(f"c{d}", -9.0, 9.0) for d in range(3)),
        Nominal("a", list(range(5))),
        Ordinal("b", list(range(4))),
        Nominal("c", [0, 1]),
    ]
)


def gram(kernel: Any, points: torch.Tensor) -> np.ndarray:
    return kernel(points).to_dense().detach().numpy()


def golden(kernel: Any, theta: Any) -> np.ndarray:
    kernel.beta, kernel.lengthscale = GOLDEN["beta"], theta
    if hasattr(kernel, "alpha"):
        kernel.alpha = GOLDEN["alpha"]
    return gram(kernel, X)


@pytest.mark.parametrize(
    ("make", "normalised", "name"),
    [
        (kernels.ModLap, True, "K_ref_ModLap"),
        (kernels.ModDif, True, "K_ref_ModDif"),
        (kernels.ProdLap, True, "K_ref_ARDLap"),
        (kernels.ProdDif, True, "K_ref_ARDDif"),
        (kernels.ProdLap, False, "K_paper_ARDLap"),
        (kernels.ProdDif, False, "K_paper_ARDDif"),
    ],
)
def test_golden_gram_matrices(make: Any, normalised: bool, name: str) -> None:
    # Far lengthscales take the distance away: what is left of a product is the graph kernel alone.
    theta = GOLDEN["theta"] if "Mod" in name else [1e9] * 3
    K = golden(make(GOLDEN_SPACE, normalised=normalised), theta)
    for i, row in enumerate(GOLDEN[name]):
        np.testing.assert_allclose(K[i, : i + 1], row, rtol=1e-9)


FAMILY = [
    kernels.ModLap,
    kernels.ModDif,
    kernels.ProdLap,
    kernels.ProdDif,
    kernels.AddLap,
    kernels.AddDif,
]


def randomize_parameters(kernel: Any, seed: int) -> Any:
    """The kernel with parameters drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in kernel.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
    return kernel


@pytest.mark.parametrize("make", FAMILY)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_positive_definite_symmetric_and_its_own_diagonal(
    make: Any, data: st.DataObject, spaces: Any, seed: int
) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.continuous) > 0))
    points = torch.from_numpy(space.sample_encoded(np.random.default_rng(seed), 12))
    kernel = randomize_parameters(make(space), seed)
    K = gram(kernel, points)
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9 * K.max()
    assert K.min() > -1e-12
    np.testing.assert_allclose(kernel(points, diag=True).detach(), np.diag(K), rtol=1e-10)


@pytest.mark.parametrize("make", FAMILY)
def test_batches_equal_their_members(make: Any) -> None:
    batch = randomize_parameters(make(GOLDEN_SPACE, batch_shape=torch.Size([3])), 1)
    K = batch(X.expand(3, *X.shape)).to_dense().detach()
    assert K.shape == (3, 12, 12)
    for b in range(3):
        member = make(GOLDEN_SPACE)
        for name, parameter in batch.named_parameters():
            getattr(member, name).data = parameter[b].data
        np.testing.assert_allclose(K[b], gram(member, X), rtol=1e-10)


@pytest.mark.parametrize("make", [kernel for kernel in FAMILY if kernel is not kernels.ModDif])
def test_never_increases_with_the_distance(make: Any) -> None:
    kernel = randomize_parameters(make(GOLDEN_SPACE), 2)
    points = X[:1].repeat(7, 1)
    points[:, 0] = torch.tensor([0.0, 0.01, 0.1, 0.5, 1.0, 3.0, 30.0]).double()
    points[1:, 3:] = torch.tensor([1.0, 2.0, 1.0]).double()
    row = gram(kernel, points)[0, 1:]
    assert (np.diff(row) <= 1e-12).all()
