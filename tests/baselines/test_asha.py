"""ASHA: every decision follows from the results so far, and none waits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines.asha import ASHA
from fmnas.search_spaces import Integer, Real, Space, Trial
from fmnas.search_spaces.records import PROMOTION, RANDOM

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 4)])


def ask(optimizer: ASHA) -> Trial:
    trial = optimizer.ask()
    assert trial is not None
    return trial


def ask_and_tell(optimizer: ASHA, objective: float) -> Trial:
    trial = ask(optimizer)
    optimizer.tell(trial, objective)
    return trial


def test_the_first_promotions_one_after_the_other() -> None:
    optimizer = ASHA(SPACE, epochs=9)
    objectives = [0.5, 0.3, 0.4, 0.35, 0.6, 0.7, 0.1, 0.2, 0.9, 0.8, 0.25, 0.15, 0.05]
    trials = [ask_and_tell(optimizer, objective) for objective in objectives]
    assert [t.epochs for t in trials] == [1, 1, 1, 3, 1, 1, 1, 3, 1, 1, 1, 3, 9]
    assert [t.parent for t in trials] == [*[None] * 3, 1, *[None] * 3, 6, *[None] * 3, 10, 11]
    for trial in trials:
        assert trial.origin == (RANDOM if trial.parent is None else PROMOTION)
        assert trial.parent is None or trial.configuration == trials[trial.parent].configuration


def test_it_never_waits() -> None:
    optimizer = ASHA(SPACE, epochs=9)
    trials = [ask(optimizer) for _ in range(20)]
    assert {(trial.epochs, trial.origin) for trial in trials} == {(1, RANDOM)}
    for trial in trials[:3]:
        optimizer.tell(trial, trial.id)
    assert ask(optimizer).parent == 0, "although 17 of its rung are pending"
    assert ask(optimizer).parent is None


def test_trials_without_a_result_are_in_no_rung() -> None:
    optimizer = ASHA(SPACE, epochs=9)
    for trial in [ask(optimizer) for _ in range(5)]:
        if trial.id < 2:
            optimizer.forget(trial)
        else:
            optimizer.tell(trial, trial.id)
    promoted = ask(optimizer)
    assert promoted.parent == 2
    optimizer.forget(promoted)
    assert ask(optimizer).parent is None, "its failure is not repeated"


def test_of_equal_results_the_first_asked_is_promoted() -> None:
    optimizer = ASHA(SPACE, epochs=3)
    for trial in reversed([ask(optimizer) for _ in range(3)]):
        optimizer.tell(trial, 0.5)
    assert ask(optimizer).parent == 0


@given(seed=st.integers(0, 2**20), eta=st.integers(2, 4))
def test_each_decision_is_that_of_the_papers_algorithm(seed: int, eta: int) -> None:
    """Any number of trials are pending, and results come in any order; some never come."""
    rng, optimizer = np.random.default_rng(seed), ASHA(SPACE, seed=seed, epochs=9, eta=eta)
    results: dict[int, float] = {}
    asked: list[Trial] = []
    for _ in range(60):
        pending = list(optimizer.pending.values())
        if pending and rng.random() < 0.5:
            trial = pending[int(rng.integers(len(pending)))]
            if rng.random() < 0.1:
                optimizer.forget(trial)
            else:
                results[trial.id] = float(rng.integers(20))
                optimizer.tell(trial, results[trial.id])
            continue
        promotable = []
        for epochs in optimizer.rungs[-2::-1]:
            rung = [trial for trial in asked if trial.epochs == epochs and trial.id in results]
            rung.sort(key=lambda trial: results[trial.id])
            best = rung[: len(rung) // eta]
            promotable += [trial.id for trial in best if all(trial.id != other.parent for other in asked)]
        asked.append(ask(optimizer))
        assert asked[-1].parent == (promotable[0] if promotable else None)
