"""Checkpoints of an experiment: a repeated trial goes on from its last ones, and nothing is left behind."""

import csv
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fmnas.platform.cli import main
from fmnas.platform.config.config import WorkersConfig, check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import problem
from fmnas.platform.workers.cluster import connect
from fmnas.platform.workers.pool import Event, Finished, Job, Lost, Pool
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.platform.workers.ray_worker import build_trainer
from fmnas.search_spaces import Trial
from fmnas.trainers.images.checkpoints import Checkpoints, pack, unpack
from fmnas.trainers.images.image_trainer import ImageTrainer
from fmnas.trainers.problem import DataSettings, Hardware, ProblemSettings

PLAIN = {"name": "t", "problem": "joint", "optimizers": ["random"], "initial_design": 1}
PLAIN |= {"budget": {"evaluations": 2}, "fidelity": {"epochs": 1}}
SETTINGS = ProblemSettings(DataSettings(name="digits", train=64, validation=64), seeds=2)
TASK = problem("joint", SETTINGS)
EXPERIMENT = ["run", "quickstart", "-o", "optimizers=[random]", "-o", "initial_design=1", "-o", "seeds=2"]
EXPERIMENT += ["-o", "budget.evaluations=3", "-o", "fidelity.epochs=3", "-o", "tracking.enabled=false"]
EXPERIMENT += ["-o", "data={name: digits, train: 40, validation: 40}", "-o", "workers.kind=in-process"]
Give = Callable[[Pool, Job], None]
Wait = Callable[[Pool], Event]


def test_they_are_off_unless_asked_for() -> None:
    assert check_config(PLAIN, "here").checkpoints.every is None
    assert check_config({**PLAIN, "checkpoints": {"every": 5}}, "here").checkpoints.every == 5
    with pytest.raises(ConfigError, match=r"checkpoints\.every = 0"):
        check_config({**PLAIN, "checkpoints": {"every": 0}}, "here")
    with pytest.raises(ConfigError, match=r"checkpoints\.every = 5: func2c keeps no checkpoints \(joint does\)"):
        check_config({**PLAIN, "problem": "func2c", "checkpoints": {"every": 5}}, "here")


def job(number: int, epochs: int) -> Job:
    configuration = TASK.space.sample(np.random.default_rng(number))
    return Job("random/repeat-0", Trial(number, {**configuration, "momentum": 0.9}, epochs, "random", seed=7))


def until(met: Callable[[], object]) -> None:
    for _ in range(6000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


def test_a_lost_trial_goes_on_where_its_worker_died(tmp_path: Path, give: Give, wait: Wait) -> None:
    ray, folder = connect(None), tmp_path / "checkpoints"
    expected = TASK.trainer.evaluate(job(1, 40).trial)
    settings = replace(SETTINGS, checkpoints=Checkpoints(folder, every=1))
    try:
        pool = RayPool(ray, partial(build_trainer, "joint", settings, Hardware()), TASK.load(), WorkersConfig(), 1)
        give(pool, job(0, 1))
        first = wait(pool)
        give(pool, job(1, 40))
        until(lambda: folder.exists() and list(folder.glob("*-0.pt")))
        os.kill(int(first.worker.rpartition(":")[2]), signal.SIGKILL)
        assert isinstance(wait(pool), Lost)
        (path,) = folder.glob("*-0.pt")
        content = unpack(path.read_bytes())
        assert tuple(content["errors"]) != ()
        content["errors"][0] += 1.0  # to be found again in the result: it is not trained anew
        path.write_bytes(pack(content))
        give(pool, replace(job(1, 40), attempt=2))
        event = wait(pool)
        assert isinstance(event, Finished)
        pool.close()
    finally:
        ray.shutdown()
    assert event.evaluation.curve[0] == pytest.approx(expected.curve[0] + 0.5)
    assert event.evaluation.curve[1:] == expected.curve[1:]
    assert event.evaluation.errors == expected.errors
    assert not list(folder.iterdir())


def objectives(out: Path) -> list[str]:
    with (out / "trials.csv").open() as file:
        return [row["objective"] for row in csv.DictReader(file)]


def test_an_experiment_leaves_none_and_a_resume_may_begin_to_keep_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed at its second trial's second epoch, resumed with checkpoints after every epoch."""
    assert main([*EXPERIMENT, "--out", str(tmp_path / "whole")]) == 0
    assert not (tmp_path / "whole" / "checkpoints").exists()

    class Killed(BaseException):
        """Nothing catches it."""

    out, real, kept = tmp_path / "run", ImageTrainer.evaluate, []

    def evaluate(self: ImageTrainer, trial: Trial) -> object:
        def report(number: int, epochs: int, error: float) -> None:
            kept.append(len(list((out / "checkpoints").glob("*.pt"))))
            if trial.id == 1 and (number, epochs) == (0, 3) and len(kept) < 12:
                raise Killed

        return real(self, trial, report)

    monkeypatch.setattr(ImageTrainer, "evaluate", evaluate)
    with pytest.raises(Killed):
        main([*EXPERIMENT, "-o", "checkpoints.every=2", "--out", str(out)])
    assert len(list((out / "checkpoints").glob("*.pt"))) == 1
    text = (out / "config.yaml").read_text()
    assert "every: 2" in text
    (out / "config.yaml").write_text(text.replace("every: 2", "every: 1"))
    assert main(["resume", str(out)]) == 0
    assert not (out / "checkpoints").exists()
    assert max(kept) >= 1
    assert objectives(out) == objectives(tmp_path / "whole")
