"""The trained networks of a run directory: whether the files are those of the retrained incumbent."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.events import Asked, Begun, Finished, Retrained, RetrainingBegun, Started
from fmnas.platform.experiment.ledger import Ledger, RetrainSettings, fold
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.saved_models import save_model, saved_models
from fmnas.search_spaces import Evaluation, Trial

RUN = "random/repeat-0"
SETTINGS = RetrainSettings(epochs=5, images=40, seeds=2)
CONFIG = {"optimizers": [{"name": "random"}], "repeats": 1, "budget": {"evaluations": 3}, "fidelity": {"epochs": 3}}
FACTS = {
    "configuration": {"rate": 0.1, "op": "a"},
    "epochs": 5,
    "images": 40,
    "test_images": 15,
    "test_errors": [0.25, 0.1 + 0.2],
}


def make_events(number: int, objective: float) -> list[Any]:
    trial, key = Trial(number, {"rate": 0.1, "op": "ab"[number]}, 3, "model"), (RUN, number, 1, "w")
    return [Asked(RUN, trial, 0.0, 1.0), Started(*key, 2.0), Finished(*key, Evaluation(objective, 3), 3.0)]


@pytest.fixture
def ledger() -> Ledger:
    """Trial 0 is the incumbent, and was retrained."""
    retrained = Retrained(RUN, 0, 1, "w", (0.25, 0.1 + 0.2), 15, 1.0, 4.0, 5.0)
    begun = RetrainingBegun(5, 40, 2, (RUN,), 4.0)
    return fold([Begun("id", 4, CONFIG, 0.0), *make_events(0, 0.1), begun, retrained])


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    """Its network is saved."""
    directory = RunDirectory(tmp_path)
    save_model(directory, RUN, {"model.json": json.dumps(FACTS).encode(), "seed-1.safetensors": b"1"})
    return directory


def test_a_saved_network_is_found(directory: RunDirectory, ledger: Ledger) -> None:
    assert saved_models(directory, ledger) == {RUN: directory.models / RUN}
    assert saved_models(directory, ledger, SETTINGS) == {RUN: directory.models / RUN}
    assert not saved_models(directory, ledger, replace(SETTINGS, seeds=1))


def test_one_of_a_former_incumbent_is_not(directory: RunDirectory, ledger: Ledger) -> None:
    for event in make_events(1, 0.05):
        ledger.apply(event)
    ledger.apply(Retrained(RUN, 1, 1, "w", (0.25, 0.1 + 0.2), 15, 1.0, 4.0, 5.0))
    assert not saved_models(directory, ledger)


@pytest.mark.parametrize("change", [{"epochs": 4}, {"images": 39}, {"test_errors": [0.25]}, {"test_images": 14}])
def test_one_of_a_different_retraining_is_not(change: Any, directory: RunDirectory, ledger: Ledger) -> None:
    save_model(directory, RUN, {"model.json": json.dumps({**FACTS, **change}).encode()})
    assert not saved_models(directory, ledger)


@pytest.mark.parametrize("content", [b"", b"[1]", b"\xff", None])
def test_damaged_or_missing_facts_are_no_network(
    content: bytes | None, directory: RunDirectory, ledger: Ledger
) -> None:
    path = directory.models / RUN / "model.json"
    path.unlink() if content is None else path.write_bytes(content)
    assert not saved_models(directory, ledger)


def test_files_of_an_earlier_network_do_not_stay(directory: RunDirectory) -> None:
    save_model(directory, RUN, {"model.json": b"{}", "seed-2.safetensors": b"2"})
    assert {path.name for path in (directory.models / RUN).iterdir()} == {"model.json", "seed-2.safetensors"}


def test_a_trainer_without_files_is_an_error(directory: RunDirectory) -> None:
    with pytest.raises(ExperimentFailed, match="without --save"):
        save_model(directory, RUN, {})
