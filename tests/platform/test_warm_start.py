"""Optimizers with trials of an earlier experiment: what they receive, what it costs, and every way to resume."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.optimizers import Optimizer, Suggestion
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.comparability import warm_start_notes
from fmnas.platform.experiment.configuration import check_extension
from fmnas.platform.experiment.events import DriverWork, Extended
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.provenance import driver_started
from fmnas.platform.experiment.replay import Mismatch, replay
from fmnas.platform.experiment.warm_start import WarmStartData, WarmStartTrial
from fmnas.platform.problems import problem
from fmnas.platform.report.setup_section import setup_statements
from fmnas.search_spaces import Evaluation, Subspace, Trial
from fmnas.search_spaces.records import WARM_START

Drive = Callable[..., Any]
Configured = Callable[..., Config]
Asks = Callable[[Path], list[tuple[str, str]]]
Results = Callable[[Path], dict[tuple[str, int], Any]]

KNOWN = 4
WARM = {"warm_start": "runs/earlier"}
EVOLUTION = {"name": "regularized-evolution", "population": 4, "tournament": 2, **WARM}
QUICK: dict[str, dict[str, Any]] = {"bo-fm": {"name": "bo-fm", **WARM}, "regularized-evolution": EVOLUTION}


def knowledge_for(config: Config, repeats: int = 3, count: int = KNOWN) -> dict[str, WarmStartData]:
    """Of each optimizer with a warm_start: random trials, numbered from 10, each of which took 7 seconds."""
    task = problem(config.problem, config.problem_settings)
    subspace, epochs = Subspace(task.space, config.fixed), config.fidelity.epochs
    rng = np.random.default_rng(1)
    trials = []
    for repeat in range(repeats):
        some = [Trial(i, subspace.add_fixed(subspace.free.sample(rng)), epochs, "random") for i in range(count)]
        evaluated = [(trial, task.trainer.evaluate(trial)) for trial in some]
        trials.append(
            tuple(
                WarmStartTrial(
                    10 + t.id,
                    t.configuration,
                    epochs,
                    100 * repeat + t.id,
                    Evaluation(e.objective, epochs, seconds=7.0),
                )
                for t, e in evaluated
            )
        )
    known = WarmStartData("runs/earlier", "random", "an id", "", False, tuple(trials))
    return {entry.label: known for entry in config.optimizers if entry.warm_start is not None}


def differences(journal: Path, known: Mapping[str, WarmStartData], *stages: Config) -> list[Mismatch]:
    """What a replay of a journal finds."""
    experiments = [build_experiment(config, known, False) for config in stages]
    return replay(read_journal(journal), experiments)[1]


@pytest.mark.parametrize(("name", "fixed"), [("bo-fm", {"h1": 2}), ("regularized-evolution", {})])
def test_it_begins_with_what_is_known_and_no_worker_sees_that(
    tmp_path: Path, drive: Drive, configured: Configured, name: str, fixed: dict[str, Any]
) -> None:
    config = configured(optimizers=[QUICK[name], "bohb"], fixed=fixed, budget={"evaluations": 6}, repeats=2)
    known = knowledge_for(config)
    evaluated: list[tuple[str, int]] = []

    def fate(job: Any) -> str:
        evaluated.append((job.run, job.trial.id))
        return "finish"

    status, state, _ = drive(config, tmp_path / "j", fate=fate, warm_starts=known)
    assert status == Ending.FINISHED
    for repeat in (0, 1):
        run = f"{name}/repeat-{repeat}"
        outcomes = [outcome for outcome in state.ledger.results if outcome.run == run]
        for outcome, given_ in zip(outcomes[:KNOWN], known[name].trials[repeat], strict=True):
            trial = outcome.trial
            assert (trial.configuration, trial.seed, trial.origin) == (given_.configuration, given_.seed, WARM_START)
            assert trial.note == f"trial {given_.number} of random/repeat-{repeat} in runs/earlier"
            assert outcome.evaluation == given_.evaluation
            assert (outcome.worker, outcome.started_at) == ("", outcome.finished_at)
        assert [outcome.trial.origin == WARM_START for outcome in outcomes[KNOWN:]] == [False] * 2
        assert [number for ran, number in evaluated if ran == run] == [KNOWN, KNOWN + 1]
        evaluations = [evaluation for _, evaluation in state.experiment.runs[run].optimizer.history]
        assert evaluations[:KNOWN] == [trial.evaluation for trial in known[name].trials[repeat]]
        budget = state.ledger.runs[run].budget
        assert (budget.spent, budget.committed) == (18, 0)
        assert budget.seconds_spent >= 7.0 * KNOWN
    assert differences(tmp_path / "j", known, config) == []


@pytest.mark.parametrize("concurrency", [1, 3])
def test_it_is_resumed_after_any_record(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks, results: Results, concurrency: int
) -> None:
    """In the middle of what is known as well: asked for and not yet answered."""
    entries = [{**EVOLUTION, "concurrency": concurrency}, {"name": "random", "concurrency": concurrency}]
    config = configured(optimizers=entries, budget={"evaluations": 8})
    known, journal = knowledge_for(config), tmp_path / "whole"
    drive(config, journal, capacity=concurrency, warm_starts=known)
    whole, objectives, lines = asks(journal), results(journal), journal.read_bytes().splitlines(keepends=True)
    assert len(objectives) == 16
    for cut in range(0, len(lines), 3):
        again = tmp_path / f"cut-{cut}"
        again.write_bytes(b"".join(lines[:cut]))
        evaluated: list[tuple[str, int]] = []

        def fate(job: Any, evaluated: list[tuple[str, int]] = evaluated) -> str:
            evaluated.append((job.run, job.trial.id))
            return "finish"

        status, state, _ = drive(config, again, capacity=concurrency, fate=fate, warm_starts=known)
        assert status == Ending.FINISHED
        assert not [number for run, number in evaluated if run.startswith("reg") and number < KNOWN]
        assert all(run.budget.spent == 24 and not run.budget.committed for run in state.ledger.runs.values())
        if concurrency == 1:
            assert sorted(asks(again)) == sorted(whole)
            assert results(again) == objectives
        if cut % 7 == 0:
            assert differences(again, known, config) == []


def test_an_extension_brings_what_is_known_to_those_it_adds(
    tmp_path: Path, drive: Drive, configured: Configured
) -> None:
    before = configured(optimizers=["random", EVOLUTION])
    after = configured(optimizers=["random", EVOLUTION, QUICK["bo-fm"]], repeats=2, budget={"evaluations": 6})
    known, journal = knowledge_for(after), tmp_path / "j"
    drive(before, journal, warm_starts=known)
    with Journal(journal) as log:
        log.append(driver_started(after, DriverWork.EXPERIMENT, 0.0))
        plain = after.model_dump(mode="json")
        log.append(Extended(check_extension(before, after, journal.parent), plain, 0.0, {"bo-fm": known["bo-fm"]}))
    _, state, _ = drive(after, journal, warm_starts=known)
    origins = dict.fromkeys(state.ledger.runs, 0)
    for outcome in state.ledger.results:
        origins[outcome.run] += outcome.trial.origin == WARM_START
    assert origins == {run: 0 if run.startswith("random") else KNOWN for run in state.ledger.runs}
    assert differences(journal, known, before, after) == []


class Stubborn(Optimizer):
    """Takes an initial design, and does as it likes."""

    def __init__(self, space: Any, *, seed: int = 0, epochs: int = 1, initial_design: Any = ()) -> None:
        super().__init__(space, seed=seed, epochs=epochs)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), "random")


def test_one_that_does_not_begin_with_it_ends_the_experiment(
    tmp_path: Path, drive: Drive, configured: Configured
) -> None:
    config = configured(optimizers=[{"name": "mine", "use": f"{__file__}:Stubborn", **WARM}])
    with pytest.raises(ExperimentFailed, match=r"warm_start must suggest its initial design"):
        drive(config, tmp_path / "j", warm_starts=knowledge_for(config))


def test_it_is_said_of_whom_it_concerns(configured: Configured) -> None:
    config = configured(optimizers=["bo-fm", "bohb", EVOLUTION], repeats=2, budget={"evaluations": 20})
    known = knowledge_for(config)["regularized-evolution"]
    uneven = WarmStartData("runs/earlier", "random", "i", "", True, (known.trials[0], known.trials[1][:3]))
    (note,) = warm_start_notes(config, {"regularized-evolution": uneven})
    facts = ("regularized-evolution", "3-4 trials", "runs/earlier (random)", "3-4 of 20 evaluations", "different there")
    assert all(fact in note for fact in facts)
    (note,) = warm_start_notes(config, {"e": replace(uneven, trials=(known.trials[0][:1],))})
    assert "1 trials" not in note
    setup = setup_statements(config, problem(config.problem, config.problem_settings))
    assert any("3 random points" in text and "bo-fm" in text for text in setup)
