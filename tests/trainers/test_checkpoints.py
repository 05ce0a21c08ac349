"""The files of checkpoints, without a training: what is used, what is ignored, and what is removed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from fmnas.trainers.checkpoints import Checkpoints, Rows, pack, unpack

STATE = {"weight": torch.arange(3.0), "order": torch.Generator().manual_seed(1).get_state()}
ROWS = [[0.5, 0.4], [0.3, 0.2], [0.25, 0.15]]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


def restore_rows(
    checkpoints: Checkpoints, numbers: Sequence[int], epochs: int = 9, fingerprint: str = "a"
) -> tuple[Rows | None, list[dict[str, Any]]]:
    """Return the rows, and the states that were loaded."""
    loaded: list[dict[str, Any]] = []
    return checkpoints.restore(fingerprint, numbers, epochs, loaded.append), loaded


@pytest.mark.parametrize(("epochs", "used"), [(2, False), (3, True), (4, True)])
@pytest.mark.parametrize("width", [1, 2])
def test_a_checkpoint_of_as_many_epochs_or_fewer_is_used(
    checkpoints: Checkpoints, width: int, epochs: int, used: bool
) -> None:
    """All of them: a trial that is repeated once its epochs are done trains nothing."""
    rows = [row[:width] for row in ROWS]
    checkpoints.save("a", 0, rows, STATE)
    result, loaded = restore_rows(checkpoints, range(width), epochs)
    assert result == (rows if used else None)
    assert len(loaded) == used
    for state in loaded:
        assert state.keys() == STATE.keys()
        assert all(torch.equal(state[name], value) for name, value in STATE.items())


def test_every_training_has_its_own_file(checkpoints: Checkpoints) -> None:
    saved = {(fingerprint, number): [[number / 10]] for fingerprint in "ab" for number in range(3)}
    for (fingerprint, number), rows in saved.items():
        checkpoints.save(fingerprint, number, rows, STATE)
    for (fingerprint, number), rows in saved.items():
        assert restore_rows(checkpoints, [number], fingerprint=fingerprint)[0] == rows
    checkpoints.discard("a", 2)
    remaining = {key for key in saved if restore_rows(checkpoints, [key[1]], fingerprint=key[0])[0]}
    assert remaining == {("a", 2), *(("b", number) for number in range(3))}
    checkpoints.discard("a", 3)  # also those that are not there


@pytest.mark.parametrize(("fingerprint", "number"), [("a", 1), ("b", 0)])
def test_a_file_under_the_name_of_another_training_is_not_used(
    checkpoints: Checkpoints, fingerprint: str, number: int
) -> None:
    checkpoints.save("a", 0, ROWS, STATE)
    (path,) = checkpoints.folder.iterdir()
    checkpoints.save(fingerprint, number, ROWS, STATE)
    (other,) = set(checkpoints.folder.iterdir()) - {path}
    path.replace(other)
    assert restore_rows(checkpoints, [number], fingerprint=fingerprint) == (None, [])


def test_without_a_file_a_training_begins(checkpoints: Checkpoints) -> None:
    assert restore_rows(checkpoints, [0]) == ([], [])


def test_a_state_that_does_not_fit_is_not_used(checkpoints: Checkpoints) -> None:
    def load(state: dict[str, Any]) -> None:
        raise KeyError("momentum")

    checkpoints.save("a", 0, ROWS, STATE)
    assert checkpoints.restore("a", [0, 1], 3, load) is None


def test_tensors_of_a_gpu_that_is_not_here_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch.serialization, "location_tag", lambda storage: "cuda:99")
        packed = pack(STATE)
    assert b"cuda:99" in packed
    assert torch.equal(unpack(packed)["weight"], STATE["weight"])
