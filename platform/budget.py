"""What one run has spent and may still spend. The unit of cost is the epoch."""

from dataclasses import dataclass


@dataclass
class RunBudget:
    """A run's account: a hard cap over finished, failed and pending trials.

    epochs: what the run may spend. seconds: limit on training plus suggestion, or None.
    spent: epochs of trials that ended; lost work is the platform's and is not charged.
    committed: epochs of trials in flight.
    """

    epochs: int
    seconds: float | None = None
    spent: int = 0
    committed: int = 0
    seconds_spent: float = 0.0

    def affords(self, epochs: int, suggest_seconds: float = 0.0) -> bool:
        """Whether a trial of that many epochs may start whose suggestion took so long and is not yet on the account."""
        in_time = self.seconds is None or self.seconds_spent + suggest_seconds < self.seconds
        return in_time and self.spent + self.committed + epochs <= self.epochs

    @property
    def exhausted(self) -> bool:
        """Whether not even one epoch may start."""
        return not self.affords(1)

    def commit(self, epochs: int, suggest_seconds: float) -> None:
        """A trial was asked and will run."""
        self.committed += epochs
        self.seconds_spent += suggest_seconds

    def settle(self, epochs: int, train_seconds: float) -> None:
        """A trial in flight ended, and is charged."""
        self.committed -= epochs
        self.spent += epochs
        self.seconds_spent += train_seconds

    def release(self, epochs: int) -> None:
        """A trial in flight was lost for good, and is not charged."""
        self.committed -= epochs
