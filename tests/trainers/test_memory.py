"""The allocator's settings: where they are made, and that they change no number."""

import ctypes
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fmnas.trainers import memory

pytestmark = pytest.mark.slow

PROGRAM = """
import json, sys
import numpy as np
from fmnas.search_spaces import Trial, joint_space
from fmnas.trainers.split import Split
from fmnas.trainers.images.image_trainer import ImageTrainer, TrainingSettings
from fmnas.trainers.memory import tune_malloc
kept = tune_malloc() if sys.argv[1] == "keep" else None
rng, arrays = np.random.default_rng(0), []
for count in (64, 20):
    arrays += [rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), rng.integers(0, 10, count, dtype=np.uint8)]
trainer = ImageTrainer(Split(*arrays, name="noise", place="x"), TrainingSettings(seeds=2), clock=lambda: 0.0)
configuration = {**joint_space().sample(rng), "momentum": 0.9}
print(json.dumps([kept, trainer.evaluate(Trial(0, configuration, 1, "random")).to_dict()]))
"""
CLEAN = {key: value for key, value in os.environ.items() if key not in memory.VARIABLES}


def run(*arguments: str, **environment: str) -> list[object]:
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**CLEAN, **environment})
    return json.loads(done.stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="not glibc")
def test_no_number_changes() -> None:
    (kept, evaluation), (_, usual) = run("keep"), run("leave")
    assert kept is True
    assert evaluation == usual


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
