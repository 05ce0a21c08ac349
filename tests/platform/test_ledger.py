"""The ledger: what each run has spent, its best, what is running, what was lost, and when nobody worked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison import Budget, ledger_table
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.platform.environment import current_software
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.events import (
    FORMAT,
    Asked,
    Begun,
    Cancelled,
    DriverStarted,
    DriverWork,
    Ended,
    Event,
    Extended,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    Started,
)
from fmnas.platform.experiment.ledger import Ledger, RetrainSettings, RunBudget, RunProgress, fold
from fmnas.platform.experiment.trial_result import trials_table
from fmnas.search_spaces import Evaluation, Trial

CONFIG: dict[str, Any] = {
    "optimizers": [{"name": "random"}, {"name": "bohb"}],
    "repeats": 2,
    "budget": {"evaluations": 5},
    "fidelity": {"epochs": 3},
}
RUN = "random/repeat-0"


def trial_of(run: str, number: int, objective: float | None, epochs: int = 3, at: float = 0.0) -> list[Event]:
    """A trial from its suggestion to its end; without an objective it failed."""
    key = (run, number, 1, "w")
    begun: list[Event] = [ask_event(number, at + 1.0, run, epochs), Started(*key, at + 2.0)]
    if objective is None:
        return [*begun, Failed(*key, "why", 3.0, at + 5.0)]
    return [*begun, Finished(*key, Evaluation(objective, epochs, seconds=2.5), at + 5.0)]


def ask_event(number: int, at: float, run: str = RUN, epochs: int = 3) -> Asked:
    return Asked(run, Trial(number, {"x": number}, epochs, "random"), 0.5, at)


def start(number: int, attempt: int, at: float) -> Started:
    return Started(RUN, number, attempt, "w", at)


def finish(number: int, attempt: int, at: float) -> Finished:
    return Finished(RUN, number, attempt, "w", Evaluation(1.0, 3, seconds=2.0), at)


def driver(work: DriverWork, at: float) -> DriverStarted:
    return DriverStarted(work, current_software(), at)


DRIVER = driver(DriverWork.EXPERIMENT, 999.0)


def ledger_of(*events: Event | list[Event]) -> Ledger:
    flat = [event for pending in events for event in (pending if isinstance(pending, list) else [pending])]
    return fold([Begun("id", FORMAT, CONFIG, 0.0), *flat])


@given(st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["finish", "lose", "leave"]))))
def test_spent_and_committed_never_exceed_the_budget(steps: list[tuple[int, str]]) -> None:
    ledger, spent, committed = ledger_of(), 0, 0
    budget = ledger.runs[RUN].budget
    for number, (cost, fate) in enumerate(steps):
        if not budget.affords(cost):
            assert spent + committed + cost > budget.epochs
            continue
        ledger.apply(ask_event(number, 1.0, epochs=cost))
        if fate == "finish":
            ledger.apply(finish(number, 1, 2.0))
        elif fate == "lose":
            ledger.apply(Lost(RUN, number, 1, "w", "gone", True, 2.0))
        spent += cost if fate == "finish" else 0
        committed += cost if fate == "leave" else 0
        assert (budget.spent, budget.committed) == (spent, committed)
        assert spent + committed <= budget.epochs


def test_no_trial_starts_once_the_seconds_are_spent() -> None:
    budget = RunBudget(100, seconds=5.0, seconds_spent=2.0)
    assert budget.affords(1)
    assert budget.affords(1, suggest_seconds=2.9)
    assert not budget.affords(1, suggest_seconds=3.0)
    budget.seconds_spent += 3.0
    assert not budget.affords(1)
    assert RunProgress("a", 0, budget).is_done


def test_incumbents_are_the_best_full_trainings_and_the_first_of_equals() -> None:
    ledger = ledger_of(
        trial_of("bohb/repeat-0", 0, 0.01, epochs=1),
        trial_of("bohb/repeat-0", 1, 0.5),
        trial_of(RUN, 0, None),
        *(trial_of(RUN, i, objective) for i, objective in enumerate((0.3, 0.2, 0.2), start=1)),
        trial_of("bohb/repeat-1", 0, 0.01, epochs=1),
    )
    assert [(o.run, o.trial.id) for o in ledger.incumbents()] == [(RUN, 2), ("bohb/repeat-0", 1)]
    assert [run.incumbent for run in ledger.runs.values()] == [0.2, 0.5, None, None]


def test_runs_are_those_of_the_configuration_in_its_order_and_grow_with_it() -> None:
    names = [RUN, "bohb/repeat-0", "random/repeat-1", "bohb/repeat-1"]
    ledger = ledger_of(trial_of(RUN, 0, 0.5))
    assert list(ledger.runs) == names
    assert {run.budget.epochs for run in ledger.runs.values()} == {15}
    grown = {**CONFIG, "optimizers": [*CONFIG["optimizers"], {"name": "tpe"}], "budget": {"evaluations": 6}}
    ledger.apply(Extended({}, grown, 9.0))
    assert list(ledger.runs) == [*names[:2], "tpe/repeat-0", *names[2:], "tpe/repeat-1"]
    assert {run.budget.epochs for run in ledger.runs.values()} == {18}
    assert ledger.runs[RUN].budget.spent == 3
    assert [count for _, count in ledger.extensions] == [1]


def test_results_and_failures_are_charged_with_their_seconds() -> None:
    ledger = ledger_of(trial_of(RUN, 0, 0.3), trial_of(RUN, 1, None), trial_of(RUN, 2, 0.4))
    run = ledger.runs[RUN]
    assert (run.ended, run.without_result) == (3, 1)
    assert run.budget.seconds_spent == 3 * 0.5 + 2.5 + 3.0 + 2.5


INVALID: list[Event] = [
    trial_of(RUN, 0, 0.3)[2],
    ask_event(0, 1.0, "nobody/repeat-0"),
    Started(RUN, 5, 1, "w", 1.0),
    Ended("invented", 1.0),
    Retrained(RUN, 0, 1, "w", (0.1,), 5, 1.0, 0.0, 1.0),
]


@pytest.mark.parametrize("event", INVALID, ids=lambda event: type(event).__name__)
def test_an_event_that_does_not_follow_is_named_by_its_line(event: Event) -> None:
    with pytest.raises(RunDirectoryError, match=f"line 2 .*{type(event).__name__}.*the version of fmnas that wrote it"):
        ledger_of(event)


def test_a_pause_is_the_time_from_one_driver_of_the_experiment_to_the_next() -> None:
    """Until its first suggestion: its start is not work. The first one says that it ends, the second crashes."""
    ledger = ledger_of(
        [driver(DriverWork.EXPERIMENT, 0.0), *trial_of(RUN, 0, 0.5), Ended("interrupted", 8.0)],
        [driver(DriverWork.RETRAINING, 30.0), RetrainingBegun(3, 10, 2, (), 31.0)],
        [driver(DriverWork.EXPERIMENT, 100.0), *trial_of(RUN, 1, 0.5, at=130.0)],
        [driver(DriverWork.EXPERIMENT, 202.0), Extended({}, CONFIG, 202.0), *trial_of(RUN, 2, 0.5, at=240.0)],
    )
    assert ledger.pauses == [(8.0, 130.5), (135.0, 240.5)]


def test_the_status_is_that_of_the_last_driver_of_the_experiment() -> None:
    ledger = ledger_of(driver(DriverWork.EXPERIMENT, 0.0))
    expected = [
        (Ended("interrupted", 1.0), "interrupted"),
        (driver(DriverWork.EXPERIMENT, 2.0), ""),
        (Ended("finished", 3.0), "finished"),
        (driver(DriverWork.RETRAINING, 4.0), "finished"),
        (RetrainingBegun(3, 10, 2, (), 5.0), "finished"),
        (Extended({}, CONFIG, 6.0), ""),
    ]
    for event, status in expected:
        ledger.apply(event)
        assert ledger.status == status


def test_retrainings_count_for_the_incumbent_and_the_latest_settings() -> None:
    def retrained_event(number: int, error: float) -> Retrained:
        return Retrained(RUN, number, 1, "w", (error,), 5, 1.0, 0.0, 9.0)

    ledger = ledger_of(trial_of(RUN, 0, 0.5), RetrainingBegun(3, 10, 1, (RUN,), 6.0), retrained_event(0, 0.25))
    assert ledger.current_retrained() == {RUN: retrained_event(0, 0.25)}
    ledger.apply(RetrainingBegun(9, 10, 1, (RUN,), 10.0))
    assert ledger.current_retrained() == {}
    ledger.apply(RetrainingBegun(3, 10, 1, (), 11.0))
    assert ledger.current_retrained() == {RUN: retrained_event(0, 0.25)}
    for event in trial_of(RUN, 1, 0.4):
        ledger.apply(event)
    assert ledger.current_retrained() == {}
    assert ledger.retrained[RetrainSettings(3, 10, 1)] == {RUN: retrained_event(0, 0.25)}


def lost_seconds(ledger: Ledger) -> dict[int, float]:
    return {pending.trial.id: pending.lost_seconds for pending in (*ledger.results, *ledger.cancelled_results())}


def test_attempts_on_lost_workers_are_not_charged() -> None:
    ledger = ledger_of(
        *(ask_event(0, 9), start(0, 1, 10), Lost(RUN, 0, 1, "w", "killed", False, 14)),
        *(start(0, 2, 20), Lost(RUN, 0, 2, "w", "killed", False, 21)),
        *(start(0, 3, 30), finish(0, 3, 33), ask_event(1, 33), start(1, 1, 34), finish(1, 1, 36)),
    )
    assert lost_seconds(ledger) == {0: 5.0, 1: 0.0}
    trials = typed_trials(trials_table(ledger.results, 0), "a test")
    (run,) = ledger_table(trials, Budget(5, 3)).to_dict("records")
    assert (run["lost_seconds"], run["train_seconds"], run["epochs"]) == (5.0, 4.0, 6)


def test_a_stop_cuts_an_attempt_off_and_a_resume_repeats_it() -> None:
    before = (ask_event(0, 9), start(0, 1, 10), Cancelled(RUN, 0, 1, "w", "stopped", 13))
    assert lost_seconds(ledger_of(*before)) == {0: 0.0}  # the last attempt is described by its start and end
    assert lost_seconds(ledger_of(*before, start(0, 2, 1000), finish(0, 2, 1002))) == {0: 3.0}


def test_what_ran_when_a_driver_crashed_is_lost_up_to_its_last_event() -> None:
    """Trials 0 and 1 ran; the last event is the start of 1. A new driver repeats both, much later."""
    ledger = ledger_of(
        *(ask_event(0, 9), start(0, 1, 10), ask_event(1, 11), start(1, 1, 16)),
        *(DRIVER, start(0, 2, 1000), start(1, 2, 1001), finish(0, 2, 1003), finish(1, 2, 1004)),
    )
    assert lost_seconds(ledger) == {0: 6.0, 1: 0.0}


def test_a_new_driver_ends_no_attempt_of_its_own() -> None:
    """At the crash, trial 0 waited for another worker and trial 1 ran."""
    ledger = ledger_of(
        *(ask_event(0, 9), start(0, 1, 10), Lost(RUN, 0, 1, "w", "killed", False, 12), ask_event(1, 13)),
        *(start(1, 1, 14), DRIVER, start(0, 2, 1000), start(1, 2, 1001)),
    )
    running = {trial: pending.is_running for (_, trial), pending in ledger.pending.items()}
    assert running == {0: True, 1: True}


def test_unfinished_trials_are_those_asked_and_not_ended() -> None:
    events: list[Event] = [event for n in range(3) for event in (ask_event(n, 10 * n), start(n, 1, 10 * n + 1))]
    unfinished = ledger_of(events, finish(1, 1, 50)).unfinished_trials()
    assert [(run, pending.trial.id, pending.suggest_seconds) for run, pending in unfinished] == [
        (RUN, 0, 0.5),
        (RUN, 2, 0.5),
    ]


def test_a_failure_is_charged_by_a_monotonic_clock() -> None:
    """However far the wall clock jumped meanwhile."""
    ledger = ledger_of(ask_event(0, 9), start(0, 1, 10), Failed(RUN, 0, 1, "w", "ValueError", 4.0, 18_010))
    (row,) = trials_table(ledger.results, 0).to_dict("records")
    assert (row["train_seconds"], ledger.runs[RUN].budget.seconds_spent) == (4.0, 4.5)
