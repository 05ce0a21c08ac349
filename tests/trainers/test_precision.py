"""A GPU computes in float32, and what its process prefers is put back. The GPU is a stub."""

from contextlib import nullcontext

import pytest
import torch

from fmnas.trainers.images import devices
from fmnas.trainers.images.devices import deterministic_float32

GPU = torch.device("cuda", 0)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that answers, and has nothing to give back."""
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda *_: (1, 1))


def precisions() -> dict[str, object]:
    cudnn = torch.backends.cudnn
    parts = {"conv": cudnn.conv, "matmul": torch.backends.cuda.matmul}
    flags = {name: getattr(cudnn, name) for name in ("enabled", "benchmark", "deterministic")}
    return {**flags, **{name: part.fp32_precision for name, part in parts.items()}}


@pytest.mark.parametrize("everywhere", ["none", "tf32"])
def test_a_gpu_computes_in_float32_whatever_the_process_prefers_and_all_is_put_back(
    everywhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends, "fp32_precision", everywhere)
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    before = precisions()
    with deterministic_float32(GPU):
        exact = {"enabled": True, "benchmark": False, "deterministic": True, "conv": "ieee", "matmul": "ieee"}
        assert precisions() == exact
    assert precisions() == before


def test_an_older_torch_has_its_older_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before precision was said operation by operation."""

    class Flags:
        def __init__(self, **flags: bool) -> None:
            self.__dict__.update(flags)

    cudnn = Flags(enabled=True, benchmark=True, deterministic=False, allow_tf32=True)
    matmul = Flags(allow_tf32=True)
    monkeypatch.setattr(devices.torch.backends, "cudnn", cudnn)
    monkeypatch.setattr(devices.torch.backends.cuda, "matmul", matmul)
    with deterministic_float32(GPU):
        assert vars(cudnn) == {"enabled": True, "benchmark": False, "deterministic": True, "allow_tf32": False}
        assert not matmul.allow_tf32
    assert vars(cudnn) == {"enabled": True, "benchmark": True, "deterministic": False, "allow_tf32": True}
    assert matmul.allow_tf32
