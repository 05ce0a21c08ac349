"""The allocator's settings, and what takes precedence over them."""

import ctypes
from types import SimpleNamespace

import pytest

from fmnas.trainers import memory


@pytest.mark.parametrize("name", [*memory.VARIABLES, ""])
def test_the_environment_and_other_allocators_take_precedence(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable in memory.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    calls: list[object] = []
    library = SimpleNamespace(mallopt=lambda *setting: calls.append(setting)) if name else None
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: library)
    if name:
        monkeypatch.setenv(name, "131072")
    assert not memory.tune_malloc()
    assert calls == []


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_glibc_keeps_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in memory.VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert memory.tune_malloc()
