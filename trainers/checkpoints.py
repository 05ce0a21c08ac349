"""Checkpoints of trainings: a retried trial resumes from one and ends with the same numbers.

A checkpoint holds all that the next epochs depend on: weights, BatchNorm statistics, momentum, the states of the random
generators, and the errors so far. It belongs to one training, by a fingerprint of everything that affects its numbers.
There is one file per training, written atomically, with a checksum, and read without executing code from it. It is
removed when the evaluation is done or, if longer trials continue shorter ones, when the longest is.
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
"""The validation errors of each epoch: one per training of a program."""


class Checkpoints:
    """Checkpoints in a folder, whose parent must exist; several processes may use it at the same time."""

    def __init__(self, folder: Path, every: int = 5) -> None:
        """every: epochs between two checkpoints of a training, at least 1; TrainerError otherwise."""
        if every < 1:
            raise TrainerError(f"checkpoints.every = {every}: it must be at least 1")
        self.folder = folder
        self.every = every

    def due(self, epochs: int) -> bool:
        """Whether a checkpoint is written after this number of epochs."""
        return epochs % self.every == 0

    def save(self, fingerprint: str, number: int, rows: Rows, learner: dict[str, Any]) -> None:
        """Replace the checkpoint of training `number` by these errors and this learner's state. Raises OSError.

        Trainings in one program share a checkpoint, under the number of the first.
        """
        self.folder.mkdir(exist_ok=True)
        errors = [error for row in rows for error in row]
        content = {"fingerprint": fingerprint, "number": number, "errors": errors, "learner": learner}
        write_aside(self._path(fingerprint, number), pack(content))

    def load(self, fingerprint: str, number: int, width: int) -> tuple[Rows, dict[str, Any]] | None:
        """The checkpoint of training `number`, or of `width` trainings in one program; None without a file.

        A file that is damaged or belongs to a different training is ignored with a warning: the training then restarts
        from scratch, with the same numbers.
        """
        path = self._path(fingerprint, number)
        if not path.exists():
            return None
        try:
            content = unpack(path.read_bytes())
            owner, learner = (content["fingerprint"], content["number"]), content["learner"]
            errors = list(content["errors"])
        except Exception as error:  # the type depends on where the file is damaged
            self.log_unusable(fingerprint, number, f"it cannot be read ({type(error).__name__})")
            return None
        if owner != (fingerprint, number):
            self.log_unusable(fingerprint, number, "it belongs to a different training")
            return None
        return [errors[i : i + width] for i in range(0, len(errors), width)], learner

    def log_unusable(self, fingerprint: str, number: int, reason: str) -> None:
        """Log a warning that a checkpoint is not used, and why."""
        path = self._path(fingerprint, number)
        logger.warning("checkpoint %s is not used, %s: the training restarts from scratch", path, reason)

    def discard(self, fingerprint: str, count: int) -> None:
        """Remove the checkpoints of trainings 0 to count - 1."""
        for number in range(count):
            self._path(fingerprint, number).unlink(missing_ok=True)

    def _path(self, fingerprint: str, number: int) -> Path:
        return self.folder / f"{fingerprint[:32]}-{number}.pt"


def pack(content: dict[str, Any]) -> bytes:
    """Tensors and plain values as bytes, after their SHA-256: torch itself does not detect a changed number."""
    import torch  # slow to import, so only for those who train

    file = io.BytesIO()
    torch.save(content, file)
    return hashlib.sha256(file.getbuffer()).digest() + file.getvalue()


def unpack(packed: bytes) -> dict[str, Any]:
    """The inverse of `pack`, on the CPU; raises an exception of some type for anything else."""
    import torch

    checksum, content = packed[: hashlib.sha256().digest_size], packed[hashlib.sha256().digest_size :]
    if hashlib.sha256(content).digest() != checksum:
        raise TrainerError("wrong checksum")
    loaded: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return loaded
