"""The fold of the journal: what each run has spent, its best, and what still runs."""

import pytest

from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.events import asked_record, driver_record, ended_record, extended_record, job_record
from fmnas.platform.experiment.journal import STARTED, DriverWork, Record
from fmnas.platform.experiment.ledger import Ledger, new_ledger
from fmnas.platform.experiment.trial_result import Job
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, FINISHED

CONFIG = {
    "optimizers": [{"name": "random"}, {"name": "bohb"}],
    "repeats": 2,
    "budget": {"evaluations": 5},
    "fidelity": {"epochs": 3},
}


def told(run: str, number: int, objective: float | None, epochs: int = 3) -> list[Record]:
    """A trial from its suggestion to its end."""
    trial = Trial(number, {"x": number}, epochs, "random")
    job = Job(run, trial)
    begun = [asked_record(run, trial, 0.5, 1.0), job_record(STARTED, job, "w", 2.0)]
    if objective is None:
        return [*begun, job_record(FAILED, job, "w", 5.0, reason="why")]
    evaluation = Evaluation(objective, epochs, seconds=2.5).to_dict()
    return [*begun, job_record(FINISHED, job, "w", 5.0, evaluation=evaluation)]


def ledger_of(*trials: list[Record]) -> Ledger:
    ledger = new_ledger(CONFIG)
    ledger.replay(record for trial in trials for record in trial)
    return ledger


def test_incumbents_are_the_best_full_trainings_and_the_first_of_equals() -> None:
    ledger = ledger_of(
        told("bohb/repeat-0", 0, 0.01, epochs=1),
        told("bohb/repeat-0", 1, 0.5),
        told("random/repeat-0", 0, None),
        told("random/repeat-0", 1, 0.3),
        told("random/repeat-0", 2, 0.2),
        told("random/repeat-0", 3, 0.2),
        told("bohb/repeat-1", 0, 0.01, epochs=1),
    )
    assert [(o.run, o.trial.id) for o in ledger.incumbents()] == [("random/repeat-0", 2), ("bohb/repeat-0", 1)]
    assert [account.incumbent for account in ledger.accounts.values()] == [0.2, 0.5, None, None]


def test_accounts_are_those_of_the_configuration_in_its_order() -> None:
    ledger = ledger_of()
    names = ["random/repeat-0", "bohb/repeat-0", "random/repeat-1", "bohb/repeat-1"]
    assert list(ledger.accounts) == names
    assert {account.budget.epochs for account in ledger.accounts.values()} == {15}


def test_a_standing_is_that_after_its_trial() -> None:
    ledger = ledger_of(
        told("random/repeat-0", 0, 0.3), told("random/repeat-0", 1, None), told("random/repeat-0", 2, 0.4)
    )
    standings = [outcome.standing for outcome in ledger.outcomes]
    assert [(each.epochs, each.evaluations, each.incumbent) for each in standings] == [
        (3, 1.0, 0.3),
        (6, 2.0, 0.3),
        (9, 3.0, 0.3),
    ]
    account = ledger.accounts["random/repeat-0"]
    assert (account.ended, account.without_result) == (3, 1)
    assert account.budget.seconds_spent == 3 * 0.5 + 2.5 + 3.0 + 2.5  # what a failure took is by the records' clock


def test_what_runs_is_what_this_driver_started() -> None:
    ledger = ledger_of(told("random/repeat-0", 0, 0.3), told("bohb/repeat-0", 0, 0.3)[:2])
    assert [(run, opened.trial.id, opened.worker) for run, opened in ledger.running(2.0)] == [("bohb/repeat-0", 0, "w")]
    assert not list(ledger.running(2.1))
    assert (ledger.in_flight("bohb/repeat-0"), ledger.in_flight("random/repeat-0")) == (1, 0)


def test_a_record_that_does_not_follow_is_named_by_its_line() -> None:
    with pytest.raises(RunDirectoryError, match=r"line 2 of the journal \(event 'finished', run 'random/repeat-0'"):
        ledger_of(told("random/repeat-0", 0, 0.3)[2:])


def test_a_pause_is_the_time_from_one_driver_of_the_experiment_to_the_next() -> None:
    """The first driver says that it ends, the second dies after its last record; a retraining is no work on trials."""

    def driver(work: DriverWork, at: float) -> Record:
        return driver_record(work, at, {})

    def trial(number: int, at: float) -> list[Record]:
        return [record | {"at": at + record["at"]} for record in told("random/repeat-0", number, 0.5)]

    ledger = ledger_of(
        [driver(DriverWork.EXPERIMENT, 0.0), *trial(0, 0.0), ended_record("interrupted", "", 8.0)],
        [driver(DriverWork.RETRAINING, 30.0)],
        [driver(DriverWork.EXPERIMENT, 100.0), *trial(1, 100.0)],
        [driver(DriverWork.EXTENSION, 200.0), extended_record({}, CONFIG, 201.0)],
        [driver(DriverWork.EXPERIMENT, 202.0), *trial(2, 202.0)],
    )
    assert ledger.pauses == [(8.0, 100.0), (105.0, 202.0)]
