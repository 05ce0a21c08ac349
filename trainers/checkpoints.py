"""Checkpoints of trainings: a retried trial goes on where it was cut off, and ends with the same numbers.

A checkpoint holds what the next epochs depend on: weights, BatchNorm statistics, momentum, the streams' states, and the
errors so far. It belongs to one training: its fingerprint is made of all that decides the training's numbers. One file
per training, written in full or not at all, with a checksum, read without running code from it, removed when the
evaluation is done; where longer trials go on from shorter ones, when the longest is.
"""

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

from fmnas.search_spaces.files import write_aside
from fmnas.trainers.contract import TrainerError

logger = logging.getLogger(__name__)

Rows = list[list[float]]
"""The validation errors of each epoch: one, or one of each training in one program."""


class Checkpoints:
    """Checkpoints in a folder, which is made when the first is written; the folder that it lies in must exist.

    Several processes may use it, each for trainings of its own or for the same.
    Raises TrainerError for an `every` below 1.
    """

    def __init__(self, folder: Path, every: int = 5) -> None:
        """every: how many epochs between two checkpoints of a training."""
        if every < 1:
            raise TrainerError(f"checkpoints every {every} epochs: it must be at least 1")
        self.folder = folder
        self.every = every

    def due(self, epochs: int) -> bool:
        """Whether a checkpoint is written after so many epochs."""
        return epochs % self.every == 0

    def save(self, fingerprint: str, number: int, rows: Rows, learner: dict[str, Any]) -> None:
        """Keep the errors and the learner's state of training `number`, in the place of those before. Raises OSError.

        Trainings in one program are cut off together, and kept under the number of the first.
        """
        self.folder.mkdir(exist_ok=True)
        errors = [error for row in rows for error in row]
        content = {"fingerprint": fingerprint, "number": number, "errors": errors, "learner": learner}
        write_aside(self._path(fingerprint, number), pack(content))

    def load(self, fingerprint: str, number: int, width: int) -> tuple[Rows, dict[str, Any]] | None:
        """What was kept of training `number`, or of `width` trainings in one program; None if nothing was.

        A file that cannot be read, or that is another training's, is worth a warning and no more: the training then
        starts anew, which costs time and changes no number.
        """
        path = self._path(fingerprint, number)
        if not path.exists():
            return None
        try:
            content = unpack(path.read_bytes())
            owner, learner = (content["fingerprint"], content["number"]), content["learner"]
            errors = list(content["errors"])
        except Exception as error:  # what a damaged file raises depends on where it is damaged
            self.refuse(fingerprint, number, f"it cannot be read ({type(error).__name__})")
            return None
        if owner != (fingerprint, number):
            self.refuse(fingerprint, number, "it is another training's")
            return None
        return [errors[i : i + width] for i in range(0, len(errors), width)], learner

    def refuse(self, fingerprint: str, number: int, reason: str) -> None:
        """Say in the log why a checkpoint is not used."""
        path = self._path(fingerprint, number)
        logger.warning("checkpoint %s is not used, %s: the training starts anew", path, reason)

    def discard(self, fingerprint: str, count: int) -> None:
        """Remove the checkpoints of trainings 0 to count - 1."""
        for number in range(count):
            self._path(fingerprint, number).unlink(missing_ok=True)

    def _path(self, fingerprint: str, number: int) -> Path:
        return self.folder / f"{fingerprint[:32]}-{number}.pt"


def pack(content: dict[str, Any]) -> bytes:
    """Tensors and plain values as bytes that begin with their checksum: torch itself does not see a changed number."""
    import torch  # which takes a second to load: only who trains should wait for it

    file = io.BytesIO()
    torch.save(content, file)
    return hashlib.sha256(file.getbuffer()).digest() + file.getvalue()


def unpack(packed: bytes) -> dict[str, Any]:
    """The inverse of `pack`, on the CPU; raises an exception of some kind for anything else."""
    import torch

    checksum, content = packed[: hashlib.sha256().digest_size], packed[hashlib.sha256().digest_size :]
    if hashlib.sha256(content).digest() != checksum:
        raise TrainerError("its checksum is another one")
    loaded: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return loaded
