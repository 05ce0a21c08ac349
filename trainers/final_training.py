"""The last word on a cell: it is trained again with fresh seeds, on all its images, and measured on others.

The best validation error of a search is too good: of many noisy numbers it is the lowest. The error of new trainings on
images that no search has seen is not. They are measured once, after the last epoch.
"""

from dataclasses import dataclass, replace

from fmnas.search_spaces import Schedule
from fmnas.trainers.data import Split, check_part
from fmnas.trainers.idx import Bytes
from fmnas.trainers.image_trainer import GUESSING_ERROR, ImageTrainer, TrainingSettings
from fmnas.trainers.tasks import Task, Training, named_failure


@dataclass(frozen=True, eq=False)
class FinalSplit:
    """Images [n, 28, 28] and labels [n] (0 to 9), uint8, to train and to test on. Raises DataError if they are not.

    name: of the data set. place: where it was found, for the record.
    """

    train_images: Bytes
    train_labels: Bytes
    test_images: Bytes
    test_labels: Bytes
    name: str
    place: str

    def __post_init__(self) -> None:
        check_part(f"{self.name}, training part", self.train_images, self.train_labels)
        check_part(f"{self.name}, test part", self.test_images, self.test_labels)


class FinalTrainer(ImageTrainer):
    """As an ImageTrainer, but `errors` are test errors, and `curve` is their mean alone.

    A training that diverges, or whose logits on the test images are not finite, has the error of guessing.
    """

    def __init__(self, split: FinalSplit, settings: TrainingSettings | None = None) -> None:
        """Raises TrainerError when the device cannot be used, or not with the arrangement."""
        if settings is not None:
            settings = replace(settings, early_validation=None)  # there is no early validation
        parts = (split.train_images, split.train_labels, split.test_images, split.test_labels)
        super().__init__(Split(*parts, split.name, split.place), settings)

    def _train(self, task: Task) -> list[Training]:
        """The trainings of a task; reports once, at their end."""
        schedule, epochs = Schedule.from_configuration(task.trial.configuration), task.trial.epochs
        planned = self._planned(task.trial)
        with named_failure(task, self._device):
            learner = self._learner(task, schedule)
            measured = learner.train(schedule.learning_rate_at(epoch, planned) for epoch in range(epochs))
        errors = [GUESSING_ERROR if error is None else error for error in measured]
        task.tell(epochs - 1, errors)
        return [Training((error,), diverged=found is None) for error, found in zip(errors, measured, strict=True)]
