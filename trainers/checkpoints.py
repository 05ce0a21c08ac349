"""Checkpoints of trainings: a retried trial resumes from one and ends with the same numbers.

A checkpoint holds all that the next epochs depend on: weights, BatchNorm statistics, momentum, the states of the random
generators, and the errors so far. It belongs to one training, by a fingerprint of everything that affects its numbers.
There is one file per training, written atomically, with a checksum, and read without executing code from it. It is
removed when the evaluation is done or, if longer trials continue shorter ones, when the longest is.
"""

import hashlib
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fmnas.search_spaces.files import write_aside
from fmnas.trainers.contract import TrainerError

logger = logging.getLogger(__name__)

Rows = list[list[float]]
"""The validation errors of each epoch: one per training of a program."""

LoadState = Callable[[dict[str, Any]], None]


class Checkpoints:
    """Checkpoints in a folder, whose parent must exist; several processes may use it at the same time."""

    def __init__(self, folder: Path, every: int = 5, continue_promoted: bool = False) -> None:
        """every: epochs between two checkpoints of a training, at least 1.

        continue_promoted: whether those of a finished trial are kept, for a longer one of the same training.
        """
        self.folder, self.every, self.continue_promoted = folder, every, continue_promoted

    def save(self, fingerprint: str, number: int, rows: Rows, learner: dict[str, Any]) -> None:
        """Replace the checkpoint of training `number` by these errors and this learner's state.

        Trainings in one program share a checkpoint, under the number of the first. If it cannot be written, a warning
        is logged, and the previous one is kept.
        """
        errors = [error for row in rows for error in row]
        content = {"fingerprint": fingerprint, "number": number, "errors": errors, "learner": learner}
        try:
            self.folder.mkdir(exist_ok=True)
            write_aside(self._path(fingerprint, number), pack(content))
        except OSError as error:
            logger.warning(
                "no checkpoint in %s (%s): training continues without it. Check that this machine has the run "
                "directory, and free space",
                self.folder,
                error.strerror or error,
            )

    def restore(self, fingerprint: str, numbers: Sequence[int], epochs: int, load: LoadState) -> Rows | None:
        """Load the state of the trainings `numbers`, of one program. Return their errors so far; empty without a file.

        A file that is damaged, belongs to a different training, or has more than `epochs` epochs is ignored with a
        warning. Then the result is None: a new learner must restart from scratch, and ends with the same numbers.
        """
        path = self._path(fingerprint, numbers[0])
        if not path.exists():
            return []
        try:
            content = unpack(path.read_bytes())
            errors, width = list(content["errors"]), len(numbers)
            if (content["fingerprint"], content["number"]) != (fingerprint, numbers[0]):
                raise TrainerError("it belongs to a different training")
            if len(errors) > epochs * width:  # by a longer trial; its state is of a later epoch
                raise TrainerError(f"it has {len(errors) // width} epochs, not {epochs}")
            load(content["learner"])
        except Exception as error:  # the type depends on where the file is damaged, or which version wrote it
            reason = f"{type(error).__name__}: {error}"
            logger.warning("checkpoint %s is not used (%s): the training restarts from scratch", path, reason)
            return None
        return [errors[i : i + width] for i in range(0, len(errors), width)]

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
