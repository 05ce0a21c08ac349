"""Checkpoints of an experiment: a repeated trial resumes from its last ones, and nothing is left behind."""

import csv
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.search_spaces import Trial
from fmnas.trainers.images.image_trainer import ImageTrainer

pytestmark = pytest.mark.slow

PLAIN = {"name": "t", "problem": "joint", "optimizers": ["random"], "initial_design": 1}
PLAIN |= {"budget": {"evaluations": 2}, "fidelity": {"epochs": 1}}
EXPERIMENT = ["run", "quickstart", "-o", "optimizers=[random]", "-o", "initial_design=1", "-o", "seeds=2"]
EXPERIMENT += ["-o", "budget.evaluations=3", "-o", "fidelity.epochs=3", "-o", "tracking.enabled=false"]
EXPERIMENT += ["-o", "data={name: digits, train: 40, validation: 40}", "-o", "workers.kind=in-process"]


def test_they_are_off_unless_asked_for() -> None:
    assert check_config(PLAIN, "here").checkpoints.every is None
    assert check_config({**PLAIN, "checkpoints": {"every": 5}}, "here").checkpoints.every == 5
    with pytest.raises(ConfigError, match=r"checkpoints\.every = 0"):
        check_config({**PLAIN, "checkpoints": {"every": 0}}, "here")
    with pytest.raises(ConfigError, match=r"checkpoints\.every = 5: .*\bfunc2c\b"):
        check_config({**PLAIN, "problem": "func2c", "checkpoints": {"every": 5}}, "here")


def objectives(out: Path) -> list[str]:
    with (out / "trials.csv").open() as file:
        return [row["objective"] for row in csv.DictReader(file)]


def test_an_experiment_leaves_none_and_a_resume_may_keep_them_more_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted at its second trial's second epoch, resumed with checkpoints after every epoch."""
    assert main([*EXPERIMENT, "--out", str(tmp_path / "whole")]) == 0
    assert not (tmp_path / "whole" / "checkpoints").exists()

    out, real = tmp_path / "run", ImageTrainer.evaluate
    kept: dict[tuple[int, int, int], int] = {}  # trial, training and epochs -> files at that time

    def evaluate(self: ImageTrainer, trial: Trial) -> object:
        def report(number: int, epochs: int, error: float) -> None:
            is_first = (trial.id, number, epochs) not in kept
            kept[trial.id, number, epochs] = len(list((out / "checkpoints").glob("*.pt")))
            if (trial.id, number, epochs) == (1, 0, 3) and is_first:
                raise KeyboardInterrupt

        return real(self, trial, report)

    monkeypatch.setattr(ImageTrainer, "evaluate", evaluate)
    assert main([*EXPERIMENT, "-o", "checkpoints.every=2", "--out", str(out)]) == 130
    assert len(list((out / "checkpoints").glob("*.pt"))) == 1
    text = (out / "config.yaml").read_text()
    assert "every: 2" in text
    (out / "config.yaml").write_text(text.replace("every: 2", "every: 1"))
    assert main(["resume", str(out)]) == 0
    assert not (out / "checkpoints").exists()
    assert [kept[0, 0, epochs] for epochs in (1, 2, 3)] == [0, 1, 1]
    assert [kept[2, 0, epochs] for epochs in (1, 2, 3)] == [1, 1, 1]
    assert objectives(out) == objectives(tmp_path / "whole")
