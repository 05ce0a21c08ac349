"""What a trial uses of the machine is measured beside it, kept with its result, and shown in MLflow."""

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from fmnas.platform.cli import main
from fmnas.platform.workers import system_metrics
from fmnas.platform.workers.evaluation import evaluate_trial
from fmnas.platform.workers.pool import FailedEvaluation
from fmnas.platform.workers.system_metrics import SystemMonitor
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers import TrainerError

TRIAL = Trial(0, {}, 1, "random")
NAMES = {
    "cpu_utilization_percentage",
    "process_cpu_utilization_percentage",
    "system_memory_usage_megabytes",
    "process_memory_usage_megabytes",
}


class Trainer:
    """Computes for some seconds."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self._seconds, self._error = seconds, error

    def evaluate(self, trial: Trial) -> Evaluation:
        until = time.process_time() + self._seconds
        while time.process_time() < until:
            pass
        if self._error:
            raise self._error
        return Evaluation(0.5)


def measure(trainer: Trainer, device: str = "cpu") -> dict[str, float]:
    evaluation = evaluate_trial(trainer, TRIAL, lambda epochs: None, lambda: None, monitor=SystemMonitor(device))
    assert isinstance(evaluation, Evaluation)
    return dict(evaluation.system_metrics)


def test_a_trial_that_computes_uses_its_processor() -> None:
    metrics = measure(Trainer(0.3))
    assert set(metrics) == NAMES
    assert metrics["process_cpu_utilization_percentage"] > 1
    assert 0 < metrics["cpu_utilization_percentage"] <= 100


def test_memory_is_the_largest_that_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([3e6, 9e6, *[5e6] * 1000])
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(used=next(used)))
    monkeypatch.setattr(system_metrics, "INTERVAL", 0.01)
    metrics = measure(Trainer(0.1))
    assert metrics["system_memory_usage_megabytes"] == 9.0
    assert metrics["process_memory_usage_megabytes"] > 10


def test_without_a_monitor_nothing_is_measured() -> None:
    evaluation = evaluate_trial(Trainer(0.0), TRIAL, lambda epochs: None, lambda: None)
    assert isinstance(evaluation, Evaluation)
    assert evaluation.system_metrics == {}


def test_a_gpu_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    readings = iter([10, 30, *[20] * 1000])
    gpu = SimpleNamespace(utilization=lambda: next(readings), device_memory_used=lambda: 5_000_000)
    monkeypatch.setitem(sys.modules, "pynvml", SimpleNamespace())
    monkeypatch.setattr("torch.cuda.utilization", gpu.utilization)
    monkeypatch.setattr("torch.cuda.device_memory_used", gpu.device_memory_used)
    monkeypatch.setattr(system_metrics, "INTERVAL", 0.01)
    metrics = measure(Trainer(0.1), "cuda")
    assert metrics["gpu_0_utilization_percentage"] == pytest.approx(20, abs=5)
    assert metrics["gpu_0_memory_usage_megabytes"] == 5.0


@pytest.mark.parametrize(("module", "device"), [("psutil", "cpu"), ("pynvml", "cuda")])
def test_a_missing_package_is_named(module: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TrainerError, match=r"pip install"):
        SystemMonitor(device)


def test_what_cannot_be_measured_does_not_fail_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: 1 / 0)
    assert measure(Trainer(0.0)) == {}


def test_a_trial_that_fails_has_failed() -> None:
    monitor = SystemMonitor("cpu")
    trainer = Trainer(0.0, error=ValueError("no"))
    result = evaluate_trial(trainer, TRIAL, lambda epochs: None, lambda: None, monitor=monitor)
    assert isinstance(result, FailedEvaluation)


@pytest.mark.slow
@pytest.mark.usefixtures("quick_stores")
def test_mlflow_shows_what_the_journal_keeps(tmp_path: Path) -> None:
    """On Ray, a test of the whole command line looks at them."""
    out = tmp_path / "run"
    overrides = ["optimizers=[random]", "repeats=1", "budget.evaluations=2", "workers.system_metrics=true"]
    flags = [flag for override in (*overrides, "workers.kind=in-process") for flag in ("-o", override)]
    assert main(["run", "smoke", *flags, "--out", str(out)]) == 0
    journal = (out / "journal.jsonl").read_text()
    assert journal.count('"process_memory_usage_megabytes"') == 2
    client = MlflowClient(f"sqlite:///{out}/mlflow.db")
    (experiment,) = (candidate for candidate in client.search_experiments() if candidate.name != "Default")
    trials = client.search_runs([experiment.experiment_id], "tags.`fmnas.kind` = 'trial'")
    assert len(trials) == 2
    for trial in trials:
        assert {name for name in trial.data.metrics if name.startswith("system/")} == {
            f"system/{name}" for name in NAMES
        }


def test_simulated_workers_measure_nothing_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "smoke", "-o", "workers.kind=simulated", "-o", "workers.system_metrics=true"]) == 0
    assert "without effect: workers.system_metrics" in capsys.readouterr().out
