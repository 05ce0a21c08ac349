"""The contract of an optimizer, as pytest's tests: a method is a rule, and `fmnas check` prints a line for each."""

import json
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from math import inf, nan
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

from fmnas.optimizers.optimizer import OptimizerError, random_design
from fmnas.search_spaces import Evaluation, FmnasError, Space
from fmnas.search_spaces.records import INITIAL, MUTATION, PROMOTION, SUGGESTED
from fmnas.testing.subject import (
    CONSTRAINED,
    DESIGN,
    DESIGN_SEED,
    EPOCHS,
    SPACES,
    Subject,
    ask,
    ask_several,
    format_event,
    require,
    require_equal,
    restore,
    run_randomly,
    run_sequentially,
    toy_objective,
)

FEW_TRIALS = 5
"""Enough to show whether seeds and global random states matter."""

Suggestions = Mapping[str, Sequence[Mapping[str, Any]]]
"""Space -> trials as plain data."""
Note = Callable[[str, object], None]
"""pytest's record_property: what the author should know although the rule holds."""

on_each_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


class OptimizerContract:
    """Rules that every optimizer keeps, on any space. A subclass defines the fixture `subject`."""

    def test_it_can_be_built_asked_and_told(self, subject: Subject) -> None:
        run_sequentially(subject.build(SPACES["continuous"], 0), DESIGN + 2)

    @on_each_space
    def test_trials_are_valid(self, subject: Subject, space: Space, record_property: Note) -> None:
        """Configurations of the space, in its order and as plain JSON; known origins, parents and epochs."""
        is_full = subject.fidelities is not None and len(subject.fidelities) == 1
        trials = run_sequentially(subject.build(space, 0), 7 if is_full else 13)
        for trial in trials:
            space.validate(trial.configuration)
            shown, origins = format_event(trial), sorted(subject.origins)
            require(list(trial.configuration) == list(space.names), f"{shown}: the order must be {space.names}")
            again = json.loads(json.dumps(trial.to_dict()))
            require(again == trial.to_dict(), f"{shown}: JSON gives {again!r}; suggest Python's own numbers and texts")
            require(trial.origin in subject.origins <= {*SUGGESTED}, f"{shown}: the origin must be one of {origins}")
            has_parent = trial.parent is not None and trial.parent < trial.id
            require(
                has_parent if trial.origin in (MUTATION, PROMOTION) else trial.parent is None,
                f"{shown}: parent {trial.parent}; a mutation and a promotion have an earlier trial, others none",
            )
            require(1 <= trial.epochs <= EPOCHS, f"{shown}: the epochs must be from 1 to {EPOCHS}")
        epochs = {trial.epochs for trial in trials}
        require(subject.fidelities in (None, epochs), f"its trials have {sorted(epochs)} epochs")
        if shorter := sorted(epochs - {EPOCHS}):
            record_property("note", f"it also trains for {', '.join(map(str, shorter))} of {EPOCHS} epochs")

    @pytest.mark.parametrize("space", CONSTRAINED.values(), ids=CONSTRAINED)
    def test_constraints_are_met(self, subject: Subject, space: Space, record_property: Note) -> None:
        try:
            subject.build(space, 0)
        except FmnasError as error:
            record_property("note", f"it refuses spaces with constraints: {error}")
            return
        for seed in range(2):
            optimizer = subject.build(space, seed)
            for _ in range(16):
                trial = ask(optimizer)
                space.validate(trial.configuration)
                require(space.meets_constraints(trial.configuration), f"{format_event(trial)}: violates a constraint")
                total = float(space.encode(trial.configuration).sum())
                optimizer.tell(trial, 1 / (1 + total))  # positive, and infeasible would be better

    @on_each_space
    def test_the_initial_design_comes_first(self, subject: Subject, space: Space, record_property: Note) -> None:
        if not subject.takes_design:
            record_property("note", "it takes no initial design: it starts from other points than the rest")
            return
        optimizer = subject.build(space, 0)
        trials = ask_several(optimizer, DESIGN, subject)
        for trial, expected in zip(trials, random_design(space, DESIGN, DESIGN_SEED), strict=True):
            require(trial.configuration == expected, f"{format_event(trial)}: the initial design has {expected} here")
            is_initial = (trial.origin, trial.epochs) == (INITIAL, EPOCHS)
            require(is_initial, f"{format_event(trial)}: must be initial and full")
        for trial in list(optimizer.pending.values()):
            optimizer.tell(trial, toy_objective(space, trial))
        after = ask(optimizer)
        require(after.origin != INITIAL, f"{format_event(after)}: the initial design has only {DESIGN} points")

    @on_each_space
    def test_the_same_seed_gives_the_same_trials(self, subject: Subject, space: Space) -> None:
        one, other = (run_randomly(subject.build(space, 7), 10, 0, subject) for _ in range(2))
        require_equal(one, other, "with the same seed, its asks and results differ")

    @on_each_space
    def test_another_seed_gives_other_trials(self, subject: Subject, space: Space) -> None:
        """Two seeds may agree in a small space; four do not."""
        runs = (run_sequentially(subject.build(space, seed), FEW_TRIALS)[DESIGN:] for seed in range(4))
        choices = (json.dumps([trial.configuration for trial in run]) for run in runs)
        first = next(choices)
        differs = any(choice != first for choice in choices)  # the others are not built once one does
        require(differs, f"the seeds 0 to 3 all lead to {first}: repeats would be copies of each other")

    @on_each_space
    def test_global_random_state_is_untouched(self, subject: Subject, space: Space) -> None:
        import torch

        _seed_global_states(5)
        expected, threads = _draw_from_global_states(), torch.get_num_threads()
        _seed_global_states(5)
        optimizer = subject.build(space, 0)
        run_sequentially(optimizer, FEW_TRIALS)
        optimizer.forget(ask(optimizer))
        for name, draw in _draw_from_global_states().items():
            require(draw == expected[name], f"it draws from the global random state of {name}, or seeds it")
        require(torch.get_num_threads() == threads, f"torch had {threads} threads, and has {torch.get_num_threads()}")

    @on_each_space
    def test_results_may_come_in_any_order(self, subject: Subject, space: Space) -> None:
        """Several trials are pending meanwhile."""
        if not subject.is_parallel:
            pytest.skip("sequential: it waits for a result before it suggests the next trial")
        optimizer = subject.build(space, 0)
        for order in ((3, 2, 1, 0), (5, 4, 7, 6)):
            trials = {trial.id: trial for trial in (ask(optimizer) for _ in range(4))}
            require(list(trials) == sorted(order), f"the next four trials have the numbers {list(trials)}")
            require(list(optimizer.pending) == sorted(order), f"pending are {list(optimizer.pending)}")
            for number in order:
                optimizer.tell(trials[number], toy_objective(space, trials[number]))
            history = [trial.id for trial, _ in optimizer.history[-4:]]
            require(history == list(order), f"results came in the order {order}, its history has {history}")
        require(optimizer.pending == {}, f"all have results, and pending are {list(optimizer.pending)}")
        space.validate(ask(optimizer).configuration)

    @on_each_space
    def test_a_result_is_taken_once(self, subject: Subject, space: Space) -> None:
        optimizer = subject.build(space, 0)
        trial = ask(optimizer)
        optimizer.tell(trial, 0.5)
        with pytest.raises(OptimizerError, match=f"trial {trial.id}"):
            optimizer.tell(trial, 0.5)
        require(len(optimizer.history) == 1, f"one result came, its history has {len(optimizer.history)}")

    @on_each_space
    def test_an_objective_is_finite(self, subject: Subject, space: Space) -> None:
        """A refused objective leaves the trial pending."""
        for bad in (nan, inf, -inf):
            for result in (bad, Evaluation(bad), Evaluation(0.5, values=(0.5, bad))):
                optimizer = subject.build(space, 0)
                trial = ask(optimizer)
                with pytest.raises(OptimizerError, match=str(bad)):
                    optimizer.tell(trial, result)
                optimizer.tell(trial, 0.5)
                require(len(optimizer.history) == 1, f"one result came, its history has {len(optimizer.history)}")

    @on_each_space
    def test_a_forgotten_trial_is_gone(self, subject: Subject, space: Space) -> None:
        """Its number is not used again."""
        optimizer = subject.build(space, 0)
        trials = ask_several(optimizer, 5, subject)
        for trial in list(optimizer.pending.values())[:-1]:
            optimizer.tell(trial, toy_objective(space, trial))
        optimizer.forget(trials[4])
        require(optimizer.pending == {}, f"the last is forgotten, and pending are {list(optimizer.pending)}")
        with pytest.raises(OptimizerError, match="trial 4"):
            optimizer.tell(trials[4], 0.5)
        with pytest.raises(OptimizerError, match="trial 4"):
            optimizer.forget(trials[4])
        history = [trial.id for trial, _ in optimizer.history]
        require(history == [0, 1, 2, 3], f"0 to 3 have results, its history has {history}")
        numbers = [trial.id for trial in run_sequentially(optimizer, 3)]
        require(numbers == [5, 6, 7], f"after the forgotten trial 4, the trials have the numbers {numbers}")

    @on_each_space
    def test_restored_from_any_history_it_goes_on_the_same(self, subject: Subject, space: Space) -> None:
        for cut in (1, 5, 13):  # 0 is what the same seed gives
            check_restored(subject, space, cut, cut)

    def test_another_process_suggests_the_same(self, subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
        """The other process has another PYTHONHASHSEED."""
        monkeypatch.setenv("PYTHONHASHSEED", "4711")
        try:
            pickle.dumps(subject)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            pytest.skip(f"its build cannot be pickled: {error}")
        with ProcessPoolExecutor(1, get_context("spawn")) as another_process:
            elsewhere = another_process.submit(suggest_on_all_spaces, subject).result()
        require_same_suggestions(suggest_on_all_spaces(subject), elsewhere)


def check_restored(subject: Subject, space: Space, seed: int, cut: int) -> None:
    """Restored from a random history, it knows the same, and does the same for a while."""
    optimizer = subject.build(space, seed)
    events = run_randomly(optimizer, cut, seed, subject)
    copy = restore(subject.build(space, seed), events)
    require(copy.pending == optimizer.pending, f"seed {seed}, after {cut} events: other trials are pending")
    require(copy.history == optimizer.history, f"seed {seed}, after {cut} events: its history is different")
    one, other = (run_randomly(searcher, 8, seed + 1, subject) for searcher in (optimizer, copy))
    require_equal(one, other, f"seed {seed}: restored after {cut} events it continues differently")


def suggest_on_all_spaces(subject: Subject) -> Suggestions:
    """Its first trials on every space; none if it refuses constraints, or violates them."""
    suggestions: dict[str, Sequence[Mapping[str, Any]]] = {}
    for name, space in {**SPACES, **CONSTRAINED}.items():
        try:
            suggestions[name] = [trial.to_dict() for trial in run_sequentially(subject.build(space, 11), 6)]
        except FmnasError:
            if not space.constraints:
                raise
            suggestions[name] = []  # another test reports it
    return suggestions


def require_same_suggestions(here: Suggestions, elsewhere: Suggestions) -> None:
    """Raise AssertionError unless another process suggested the same."""
    for name, trials in here.items():
        require_equal(trials, elsewhere[name], f"{name}: another process suggests other trials")


def _seed_global_states(seed: int) -> None:
    import torch

    np.random.seed(seed)
    torch.manual_seed(seed)
    random.seed(seed)


def _draw_from_global_states() -> dict[str, tuple[float, float]]:
    import torch

    return {  # a normal draw first: generators keep the second of a pair
        "numpy": (np.random.standard_normal(), np.random.random()),
        "torch": (float(torch.randn(1)), float(torch.rand(1))),
        "random": (random.gauss(0.0, 1.0), random.random()),
    }
