"""The joint problem without training: evaluations are drawn from a surrogate of recorded trainings.

`joint_recorded.npz` holds the surrogate; docs/joint.md says what was recorded, how well it predicts, and what it cannot
tell. Neither Ray, MLflow nor torch is needed.
"""

from pathlib import Path

from fmnas.search_spaces import Evaluation, Trial, joint_space
from fmnas.trainers.contract import NotRecordedError, Report, Stop, check_trial, never_stop, no_report
from fmnas.trainers.problem import Problem
from fmnas.trainers.recorded import problem_of_facts, race
from fmnas.trainers.surrogate.model import Surrogate, read_surrogate

FILE = Path(__file__).with_name("joint_recorded.npz")


class SurrogateTrainer:
    """Evaluates trials of the joint space by a surrogate."""

    def __init__(self, surrogate: Surrogate) -> None:
        self.space, self._surrogate = joint_space(), surrogate

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Return the evaluation that a trial's seed draws; nothing is trained, so nothing is reported.

        Raises SpaceError outside the space, NotRecordedError for longer trainings than those that were recorded.
        """
        check_trial(trial, self.space)
        if trial.epochs > (most := self._surrogate.facts.epochs):
            raise NotRecordedError(f"trial {trial.id}: epochs = {trial.epochs}; the recorded trainings have {most}")
        return race(self._surrogate.draw(trial), trial)


def surrogate_problem(path: Path) -> Problem:
    """Return the problem of a surrogate's file."""
    return problem_of_facts(
        read_surrogate(path).facts.problem,
        space=joint_space(),
        build=lambda surrogate, hardware: SurrogateTrainer(surrogate),
        load=lambda: read_surrogate(path),
    )


JOINT_RECORDED = surrogate_problem(FILE)
