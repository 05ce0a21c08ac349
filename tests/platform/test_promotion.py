"""Promoted trials that resume the trial they continue: what they give, what they share, what a resume refuses."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import events_of

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError, RunDirectoryError
from fmnas.platform.experiment.events import Asked, Finished
from fmnas.platform.experiment.experiment import build_experiment, derived_seed
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import load_state
from fmnas.platform.problems import problem
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.images.image_trainer import FinalTrainer, ImageTrainer
from fmnas.trainers.images.training import Learner
from fmnas.trainers.problem import DataSettings, Hardware, ProblemSettings

pytestmark = pytest.mark.slow

ON = ["checkpoints={every: 2, continue_promoted: true}"]
SETTINGS = ["optimizers=[bohb]", "seeds=2", "budget.evaluations=3", "fidelity.epochs=3", "workers.kind=in-process"]
SETTINGS += ["data={name: digits, train: 24, validation: 40}", "data.batch_size=8", "tracking.enabled=false"]
JOINT = {"name": "t", "problem": "joint", "optimizers": ["bohb"]}
JOINT |= {"budget": {"evaluations": 2}, "fidelity": {"epochs": 9}}

Evaluate = Callable[[ImageTrainer, Trial], Evaluation]
real = ImageTrainer.evaluate


def run(out: Path, evaluate: Evaluate | None, overrides: list[str]) -> int:
    """Run BOHB, each trial by way of `evaluate`: three of 1 epoch, the best of them with 3, and one of 3 more."""
    flags = [flag for override in (*SETTINGS, *overrides) for flag in ("-o", override)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ImageTrainer, "evaluate", evaluate or real)
        return main(["run", "quickstart", *flags, "--out", str(out)])


def trials(out: Path) -> list[Trial]:
    return [event.trial for event in events_of(out / "journal.jsonl", Asked)]


def curves(out: Path) -> list[tuple[float, ...]]:
    """The curve of every trial, then the objective; seconds are left out."""
    evaluations = {event.trial_id: event.evaluation for event in events_of(out / "journal.jsonl", Finished)}
    return [(*evaluations[number].curve, evaluations[number].objective) for number in sorted(evaluations)]


def epochs_charged(out: Path) -> int:
    state = load_state(RunDirectory(out))
    return state.ledger.runs["bohb/repeat-0"].budget.spent


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """A run that nothing disturbed, and the epochs that its learners trained."""
    out, trained = tmp_path_factory.mktemp("whole") / "run", []
    with pytest.MonkeyPatch.context() as patch:
        epoch = Learner.train_epoch
        patch.setattr(Learner, "train_epoch", lambda *given: trained.append(1) or epoch(*given))
        assert run(out, None, ON) == 0
    return out, len(trained)


def test_a_promoted_trial_trains_what_is_left_with_the_seed_of_the_first(whole: tuple[Path, int]) -> None:
    out, trained = whole
    asked = trials(out)
    assert [trial.epochs for trial in asked] == [1, 1, 1, 3, 3]
    assert [trial.origin == "promotion" for trial in asked] == [False, False, False, True, False]
    promoted = asked[3]
    assert promoted.parent is not None
    assert promoted.seed == asked[promoted.parent].seed
    assert len({trial.seed for trial in asked}) == 4
    assert curves(out)[3][0] == curves(out)[promoted.parent][0]
    assert trained == 2 * (1 + 1 + 1 + 2 + 3), "two seeds each"
    assert epochs_charged(out) == 9, "it is charged all its epochs"
    assert not (out / "checkpoints").exists()
    assert main(["replay", str(out)]) == 0


def test_without_the_files_of_shorter_trials_everything_is_the_same(whole: tuple[Path, int], tmp_path: Path) -> None:
    counts: list[int] = []

    def evaluate(trainer: ImageTrainer, trial: Trial) -> Evaluation:
        counts.append(len(list((tmp_path / "run" / "checkpoints").glob("*.pt"))))
        shutil.rmtree(tmp_path / "run" / "checkpoints", ignore_errors=True)
        return real(trainer, trial)

    assert run(tmp_path / "run", evaluate, ON) == 0
    assert counts == [0, 2, 2, 2, 0]
    assert trials(tmp_path / "run") == trials(whole[0])
    assert curves(tmp_path / "run") == curves(whole[0])
    assert epochs_charged(tmp_path / "run") == 9


def test_a_resume_changes_no_number(whole: tuple[Path, int], tmp_path: Path) -> None:
    """Interrupted in the middle of the promoted trial."""

    def evaluate(trainer: ImageTrainer, trial: Trial) -> Evaluation:
        def report(number: int, epochs: int, error: float) -> None:
            if trial.id == 3 and (number, epochs) == (1, 2):
                raise KeyboardInterrupt

        return real(trainer, trial, report)

    assert run(tmp_path / "run", evaluate, ON) == 130
    assert len(trials(tmp_path / "run")) == 4
    assert main(["resume", str(tmp_path / "run")]) == 0
    assert trials(tmp_path / "run") == trials(whole[0])
    assert curves(tmp_path / "run") == curves(whole[0])
    assert main(["replay", str(tmp_path / "run")]) == 0


def copy_with_config(run: Path, out: Path, old: str, new: str) -> RunDirectory:
    """A copy of a run directory whose configuration differs."""
    shutil.copytree(run, out)
    text = (out / "config.yaml").read_text()
    assert text.count(old) == 1
    (out / "config.yaml").write_text(text.replace(old, new))
    return RunDirectory(out)


def test_a_resume_may_change_the_rhythm_and_nothing_else(whole: tuple[Path, int], tmp_path: Path) -> None:
    state = load_state(copy_with_config(whole[0], tmp_path / "a", "every: 2", "every: 1"))
    assert state.experiment.config.checkpoints.every == 1
    off = copy_with_config(whole[0], tmp_path / "b", "continue_promoted: true", "continue_promoted: false")
    with pytest.raises(RunDirectoryError, match=r"checkpoints\.continue_promoted = false"):
        load_state(off)
    with pytest.raises(ConfigError, match=r"checkpoints\.continue_promoted = true: .*checkpoints\.every"):
        load_state(copy_with_config(whole[0], tmp_path / "c", "every: 2", "every: null"))


BOTH = {"every": 5, "continue_promoted": True}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"checkpoints": {"continue_promoted": True}}, ["checkpoints.continue_promoted = true", "checkpoints.every"]),
        (
            {"problem": "func2c", "checkpoints": BOTH},
            ["checkpoints.every = 5", "checkpoints.continue_promoted = true", "func2c"],
        ),
        ({"fidelity": {"epochs": 9, "schedule_epochs": 8}}, ["fidelity.schedule_epochs = 8", "fidelity.epochs, 9"]),
        (
            {"fidelity": {"epochs": 9, "schedule_epochs": 12}, "checkpoints": BOTH},
            ["fidelity.schedule_epochs = 12", "checkpoints.continue_promoted", "fidelity.epochs, 9"],
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(changes: dict[str, object], named: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config({**JOINT, **changes}, "here")
    assert all(word in str(caught.value) for word in named)


@pytest.mark.parametrize(
    ("fidelity", "checkpoints", "planned"),
    [({}, {}, None), ({"schedule_epochs": 12}, {"every": 5}, 12), ({}, BOTH, 9)],
)
def test_learning_rates_are_planned_for_what_is_set(
    fidelity: dict[str, int], checkpoints: dict[str, object], planned: int | None
) -> None:
    config = check_config({**JOINT, "fidelity": {"epochs": 9, **fidelity}, "checkpoints": checkpoints}, "here")
    assert config.problem_settings.schedule_epochs == planned
    assert config.fidelity.schedule_epochs == fidelity.get("schedule_epochs")


def test_planned_schedules_need_no_checkpoints(
    whole: tuple[Path, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The trials of one epoch are those of a search whose promoted trials go on; a promoted one has its own seed."""
    assert run(tmp_path / "run", None, ["fidelity.schedule_epochs=3"]) == 0
    assert curves(tmp_path / "run")[:3] == curves(whole[0])[:3]
    assert trials(tmp_path / "run")[3].seed != trials(whole[0])[3].seed
    capsys.readouterr()
    assert main(["report", str(whole[0]), str(tmp_path / "run"), "--out", str(tmp_path / "both")]) == 2
    assert "checkpoints.continue_promoted = true and false" in capsys.readouterr().err


def test_a_retraining_is_planned_for_its_own_epochs() -> None:
    """It may train longer than the search did."""
    data = DataSettings(name="digits", train=10, validation=10, batch_size=8)
    task = problem("joint", ProblemSettings(data, seeds=1, schedule_epochs=3))
    assert task.load_final is not None
    searched, last = task.build(task.load(), Hardware()), task.build(task.load_final(10), Hardware())
    assert isinstance(searched, ImageTrainer)
    assert isinstance(last, FinalTrainer)
    assert (searched.settings.schedule_epochs, last.settings.schedule_epochs) == (3, None)


@pytest.mark.parametrize("on", [True, False])
def test_a_promotion_of_a_promotion_has_the_first_seed(on: bool) -> None:
    """Where promoted trials go on; else each trial has its own."""
    config = check_config({**JOINT, "checkpoints": {"every": 5, "continue_promoted": on}}, "here")
    experiment = build_experiment(config)
    first = next(iter(experiment.runs.values()))
    seeds: dict[int, int] = {}
    parents = [("random", None), ("model", None), ("promotion", 1), ("promotion", 2), ("mutation", 1)]
    for number, (origin, parent) in enumerate(parents):
        seeds[number] = experiment.trial_seed(first, Trial(number, {}, 1, origin, parent), seeds)
    own = [derived_seed(0, 0, number) for number in range(5)]
    assert list(seeds.values()) == ([*own[:2], own[1], own[1], own[4]] if on else own)
    assert check_config(JOINT, "here").checkpoints.continue_promoted is False
