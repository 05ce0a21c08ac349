"""A run's account."""

from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.experiment.ledger import RunAccount, RunBudget


@given(st.integers(1, 60), st.lists(st.tuples(st.integers(1, 9), st.sampled_from(["settle", "release", "leave"]))))
def test_spent_and_committed_never_exceed_the_budget(epochs: int, steps: list[tuple[int, str]]) -> None:
    budget = RunBudget(epochs)
    spent = committed = 0
    for cost, fate in steps:
        if not budget.affords(cost):
            assert spent + committed + cost > epochs
            continue
        budget.commit(cost, 0.0)
        committed += cost
        if fate != "leave":
            committed -= cost
            if fate == "settle":
                budget.settle(cost, 1.0)
                spent += cost
            else:
                budget.release(cost)
        assert (budget.spent, budget.committed) == (spent, committed)
        assert spent + committed <= epochs


def test_no_trial_starts_once_the_seconds_are_spent() -> None:
    budget = RunBudget(100, seconds=5.0)
    budget.commit(1, suggest_seconds=2.0)
    assert budget.affords(1)
    assert budget.affords(1, suggest_seconds=2.9)
    assert not budget.affords(1, suggest_seconds=3.0)  # it came too late
    budget.settle(1, train_seconds=3.0)
    assert not budget.affords(1)
    assert RunAccount("a", 0, budget).done
