"""Saved networks, loaded in a process without fmnas: they are the networks that were trained."""

import json
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.search_spaces import Cell, Evaluation, Trial, joint_space
from fmnas.trainers.contract import FinalEvaluation
from fmnas.trainers.images.image_trainer import FinalTrainer
from fmnas.trainers.images.model import Network, normalise
from fmnas.trainers.images.multi_seed import StackedLearner
from fmnas.trainers.images.saved_model import saved_facts
from fmnas.trainers.images.settings import TrainingSettings
from fmnas.trainers.split import Split

# -S: no .pth file makes fmnas importable, and -I: no variable does.
SCRIPT = """
import importlib.util, sys
packages, root = sys.argv[1:]
sys.path += [packages, f"{root}/0"]
assert importlib.util.find_spec("fmnas") is None
from pathlib import Path
import numpy, torch
from model import load, normalise
images = numpy.load(f"{root}/images.npy")
for path in Path(root).glob("*/*.safetensors"):
    network = load(path)
    with torch.inference_mode():
        logits = network(normalise(torch.from_numpy(images)))
    numpy.savez(path.with_suffix(".npz"), logits=logits, classes=network.predict(images))
"""


def test_images_may_be_read_only() -> None:
    """As those of `numpy.frombuffer` are: torch would warn."""
    images = np.zeros((2, 28, 28), dtype=np.uint8)
    images.flags.writeable = False
    cell = Cell.from_configuration(joint_space().sample(np.random.default_rng(0)))
    assert Network(cell.states, cell.output).eval().predict(images).shape == (2,)


def write(files: dict[str, bytes], folder: Path) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture
def train(noise_split: Split, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[FinalEvaluation, torch.Tensor]]:
    """train(arrangement, configuration): the evaluation of two trainings, and the logits [2, n, 10] at their ends."""

    def train(arrangement: str, configuration: dict[str, Any]) -> tuple[FinalEvaluation, torch.Tensor]:
        learners: list[Any] = []
        make = FinalTrainer._learner
        monkeypatch.setattr(
            FinalTrainer, "_learner", lambda *given: learners.append(learner := make(*given)) or learner
        )
        trainer = FinalTrainer(
            replace(noise_split, for_tests=True), TrainingSettings(seeds=2, batch_size=8, arrangement=arrangement)
        )
        evaluation = trainer.evaluate(Trial(0, configuration, epochs=2, origin="random", seed=5))
        monkeypatch.undo()
        assert isinstance(evaluation, FinalEvaluation)
        images = normalise(torch.from_numpy(noise_split.held_out_inputs.copy()))
        with torch.inference_mode():
            if isinstance(learners[0], StackedLearner):
                return evaluation, learners[0]._stack(images.expand(-1, 2, -1, -1))
            return evaluation, torch.stack([learner._network(images) for learner in learners])

    return train


@pytest.mark.slow
def test_saved_networks_compute_what_the_retrained_ones_do(
    train: Callable[..., Any], noise_split: Split, tmp_path: Path
) -> None:
    """Random cells after two epochs, whose BatchNorm statistics are far from the initial ones."""
    rng, images = np.random.default_rng(1), noise_split.held_out_inputs
    trained = []
    for number, arrangement in enumerate(2 * ["plain", "fast", "stacked"]):
        configuration = {**joint_space().sample(rng), "learning_rate": 0.01, "momentum": 0.8}
        trained.append(train(arrangement, configuration))
        write(trained[-1][0].files, tmp_path / str(number))
    np.save(tmp_path / "images.npy", images)
    arguments = [sysconfig.get_paths()["purelib"], str(tmp_path)]
    subprocess.run([sys.executable, "-I", "-S", "-c", SCRIPT, *arguments], check=True, cwd=tmp_path)
    for number, (evaluation, logits) in enumerate(trained):
        for seed in (0, 1):
            loaded = np.load(tmp_path / str(number) / f"seed-{seed + 1}.npz")
            torch.testing.assert_close(torch.from_numpy(loaded["logits"]), logits[seed], rtol=1e-4, atol=1e-4)
            assert (loaded["classes"] != noise_split.held_out_labels).mean() == evaluation.errors[seed]


def test_the_facts_are_those_of_the_trainings(train: Callable[..., Any], configuration: dict[str, Any]) -> None:
    evaluation, _ = train("fast", configuration)
    facts = json.loads(evaluation.files["model.json"])
    cell = Cell.from_configuration(configuration)
    assert {int(number): [tuple(one) for one in pair] for number, pair in facts["cell"]["states"].items()} == {
        number: list(pair) for number, pair in cell.states.items()
    }
    expected = {"configuration": configuration, "epochs": 2, "images": 23, "seed": 5, "test_images": 17}
    assert facts.items() >= expected.items()
    assert facts["test_errors"] == list(evaluation.errors)
    assert facts["labels"] == list("0123456789")


def test_only_the_real_fashion_mnist_has_its_class_names(noise_split: Split, make_trial: Callable[..., Trial]) -> None:
    """A custom set in a folder of that name has a digest."""
    evaluation = Evaluation(0.5, 1, errors=(0.5,))
    for digest, first in (("", "T-shirt/top"), ("abc", "0")):
        split = replace(noise_split, name="fashion_mnist", digest=digest)
        assert saved_facts(make_trial(), split, evaluation)["labels"][0] == first


def test_only_images_are_predicted(configuration: dict[str, Any]) -> None:
    cell = Cell.from_configuration(configuration)
    network = Network(cell.states, cell.output).eval()
    assert network.predict(np.zeros((3, 28, 28), np.uint8)).shape == (3,)
    for images in (np.zeros((3, 28, 28), np.float32), np.zeros((3, 1, 28, 28), np.uint8)):
        with pytest.raises(ValueError, match=r"uint8 \[n, 28, 28\]"):
            network.predict(images)
