"""The first run on a GPU, as far as a CPU can tell: all of it is rehearsed, faults are found, and nothing stops it."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier, BrokenBarrierError, Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from fmnas.search_spaces import Cell
from fmnas.trainers.images.multi_seed import StackedLearner

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu_first_run.py"
ALL = ("machine", "equality", "failure", "captures", "steps", "convolutions", "whole", "shared")


@pytest.fixture(scope="module")
def scripts() -> Iterator[SimpleNamespace]:
    """The scripts as modules; benchmarks/ is no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPT.parent))
        import gpu_checks
        import gpu_subjects
        import training_gpu

        yield SimpleNamespace(checks=gpu_checks, subjects=gpu_subjects, timing=training_gpu)


def run(*options: str, paths: Path = ROOT / "nowhere") -> "subprocess.CompletedProcess[str]":
    """The command, from elsewhere; paths: where Python looks first."""
    environment, command = {**os.environ, "PYTHONPATH": str(paths)}, [sys.executable, str(SCRIPT), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd="/")


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, Any]]:
    """Where nothing but torch and numpy can be imported, and what is installed as fmnas is broken."""
    place = tmp_path_factory.mktemp("gpu")
    for name in ("ray", "mlflow", "pandas", "pydantic", "scipy", "sklearn", "gpytorch", "matplotlib", "torchvision"):
        (place / f"{name}.py").write_text("raise ImportError(__name__)")
    for room in ("trainers", "search_spaces"):
        (place / "fmnas" / room).mkdir(parents=True)
        (place / "fmnas" / room / "__init__.py").write_text("raise ImportError(__name__)")
    done = run("--dry", "--json", str(place / "found.json"), paths=place)
    return done, json.loads((place / "found.json").read_text())


def test_every_part_is_rehearsed_on_the_cpu(rehearsal: tuple[Any, dict[str, Any]]) -> None:
    done, found = rehearsal
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("wrong or broken: nothing\n")
    assert tuple(found["parts"]) == ALL
    for name, part in found["parts"].items():
        assert part["rows"], name
        assert part["left_out"] == []
        assert not any("error" in row for row in part["rows"].values())


def test_the_rehearsal_judges_and_measures(rehearsal: tuple[Any, dict[str, Any]]) -> None:
    rows = {name: part["rows"] for name, part in rehearsal[1]["parts"].items()}
    assert rows["equality"]["identity"]["ok"] is True
    assert 0 < rows["equality"]["identity"]["losses_apart"] < 1e-4, "two ways, not the same one twice"
    assert rows["failure"]["a capture that fails"]["ok"] is True
    assert "could not be captured" in rows["failure"]["a capture that fails"]["told"]
    assert rows["steps"]["largest"]["step_us"] > 0
    assert len(rows["steps"]["kernels of largest"]["top"]) == 15
    (found,) = rows["convolutions"].values()
    both = {
        name[:-9]: us + found["ways"][f"{name[:-9]}, backward"]
        for name, us in found["ways"].items()
        if name[-7:] == "forward"
    }
    assert (len(both), both["as trained, NCHW"]) == (9, found["us_as_trained"])
    assert (
        found["us_best"] == both[found["best"]] == min(us for name, us in both.items() if name.startswith("searched"))
    )
    (evaluation,) = rows["whole"].values()
    assert evaluation["epochs"] == 2
    assert rows["shared"]["1 processes"]["evaluations_per_minute"] > 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_can_be_done() -> None:
    done = run("--only", "machine", "--seconds", "60")
    assert (done.returncode, done.stdout) == (2, "")
    assert "device = 'cuda'" in done.stderr
    assert "--dry rehearses on the CPU" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_options_are_told_before_anything_is_done(tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    wrong = {"--seconds": "30", "--data": str(nowhere), "--json": str(nowhere / "found.json"), "--only": "speed"}
    for option, value in wrong.items():
        done = run(option, value)
        assert done.returncode == 2
        assert option in done.stderr.splitlines()[-1]
        assert value in done.stderr.splitlines()[-1]


def plan_of(scripts: SimpleNamespace, seconds: float = 1e6) -> Any:
    return scripts.subjects.DRY.until(time.monotonic() + seconds, None)


def test_a_job_that_fails_lets_the_others_go_on_and_time_that_is_over_leaves_them_out(scripts: SimpleNamespace) -> None:
    def fails() -> dict[str, Any]:
        raise RuntimeError("out of luck")

    jobs = {"a": fails, "b": lambda: {"us": 1.0}}
    first, second = scripts.subjects.jobs_done("p", jobs, plan_of(scripts))
    assert first["found"]["error"] == "RuntimeError: out of luck"
    assert "in fails" in first["found"]["at"]
    assert second == {"part": "p", "row": "b", "found": {"us": 1.0}}
    assert list(scripts.subjects.jobs_done("p", jobs, plan_of(scripts, 0.0))) == [{"part": "p", "left_out": ["a", "b"]}]


def test_a_device_that_answers_no_more_ends_its_part(scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scripts.subjects, "answers", lambda device: False)
    jobs = {"good": lambda: {"us": 1.0}, "bad": lambda: 1 // 0, "never": lambda: {"us": 2.0}}
    rows = list(scripts.subjects.jobs_done("p", jobs, plan_of(scripts)))
    assert [row["row"] for row in rows] == ["good", "bad", "device"]
    assert "answers no more" in rows[-1]["found"]["error"]


def faster(self: StackedLearner, gradient: Tensor, losses: Tensor) -> None:
    """Twice the learning rate."""
    REAL(self, gradient * 2, losses)


def noisy(self: StackedLearner, gradient: Tensor, losses: Tensor) -> None:
    """Never the same twice, in the sixth digit."""
    REAL(self, gradient * (1 + 1e-6 * torch.rand_like(gradient)), losses)


def mixing(self: StackedLearner, gradient: Tensor, losses: Tensor) -> None:
    """What is not finite reaches all."""
    REAL(self, gradient + 0 * losses.sum(), losses)


REAL = StackedLearner._update
FAULTS = {faster: "losses_apart", noisy: "same_twice", mixing: "alone beside nan"}


@pytest.mark.parametrize("fault", [None, *FAULTS], ids=lambda fault: fault.__name__ if fault else "none")
def test_a_step_that_is_not_right_is_found(
    scripts: SimpleNamespace, fault: Callable[..., None] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if fault:
        monkeypatch.setattr(StackedLearner, "_update", fault)
    cell: Cell = scripts.subjects.cells_of_each()["identity"]
    found = scripts.checks.check_cell(cell, scripts.timing.noise(14), plan_of(scripts))
    assert found["ok"] == (fault is None)
    if fault:
        value = found[FAULTS[fault]]
        assert value is False or value > scripts.checks.LOSS_BOUND


class FakeEvent:
    """Two of them are 8 milliseconds apart."""

    def __init__(self, enable_timing: bool) -> None: ...
    def record(self) -> None: ...
    def synchronize(self) -> None: ...
    def elapsed_time(self, end: "FakeEvent") -> float:
        return 8.0


def gpu_plan(scripts: SimpleNamespace) -> Any:
    return scripts.subjects.FULL.until(time.monotonic() + 1e6, None)


def test_the_time_of_an_operation_is_its_part_of_a_graphs(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a graph that is none, of an operation that takes a millisecond by the host's clock: 300 runs, 10 replays."""
    runs: list[int] = []

    def captured(step: Callable[[], object], first_step: Callable[[], object], state: list[Tensor]) -> Any:
        assert state == []
        first_step()
        return step

    monkeypatch.setattr(scripts.subjects, "captured", captured)
    monkeypatch.setattr(scripts.subjects, "median_seconds", lambda run, times, device: 1e-3)
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    found = scripts.subjects.replayed_seconds(lambda: runs.append(1), gpu_plan(scripts))
    assert found == pytest.approx(8e-3 / 30)
    assert len(runs) == 1 + 1 + 300


@pytest.mark.parametrize("leak", [0.0, 40.0])
def test_captures_that_leak_are_found(scripts: SimpleNamespace, leak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the first round takes for good."""
    made: list[str] = []

    def learner_of(cell: Cell, split: Any, plan: Any) -> Any:
        made.append("one")
        return SimpleNamespace(train=lambda rates: None)

    def memory() -> tuple[int, int]:
        first = scripts.checks.named_cells().keys() | scripts.checks.cells_of_each().keys()
        return int(1e11 - 5e6 * min(len(made), len(first)) - 1e6 * leak * len(made)), int(1e11)

    monkeypatch.setattr(scripts.checks, "learner_of", learner_of)
    monkeypatch.setattr(scripts.checks, "deterministic_float32", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "mem_get_info", memory)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 0)
    found = scripts.checks.captures(gpu_plan(scripts))["memory"]()
    assert found["ok"] == (leak == 0.0)
    assert found["grown_mb_per_capture"] == pytest.approx(leak)
    assert found["captures"] == len(made) == len(found["rows"])


def test_processes_that_fail_together_are_told_by_the_first_failure(scripts: SimpleNamespace) -> None:
    summary, fine = scripts.timing.summary, {"evaluation": 30.0, "ready": 1.0}
    assert summary([fine, {"evaluation": 60.0, "ready": 3.0}], [0, 0], 9.0) == {
        "evaluation": 45.0,
        "ready": 2.0,
        "evaluations_per_minute": 3.0,
    }
    broken = {"error": BrokenBarrierError.__name__, "aborted": True}
    assert summary([broken, {"error": "memory", "aborted": False}], [0, 0], 9.0) == {"error": "memory"}
    assert "codes [-9]" in summary([broken], [0, -9], 9.0)["error"]
    assert "only 1 of 2" in summary([fine], [0, None], 9.0)["error"]


def test_one_that_fails_does_not_keep_the_others_waiting(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, they would wait a minute for it."""

    def measured(plan: str, cell: None, begun: float, ends: float, barrier: Barrier) -> dict[str, Any]:
        if plan == "fails":
            raise MemoryError("no room")
        barrier.wait(60)
        return {}

    monkeypatch.setattr(scripts.timing, "measured", measured)
    barrier, found = Barrier(2), SimpleQueue[dict[str, Any]]()
    members = [
        Thread(target=scripts.timing.process, args=(p, None, 0.0, 0.0, barrier, found)) for p in ("waits", "fails")
    ]
    for member in members:
        member.start()
    rows = [found.get(timeout=30) for _ in members]
    for member in members:
        member.join()
    assert scripts.timing.summary(rows, [0, 0], 9.0) == {"error": "MemoryError: no room"}
    assert [row["aborted"] for row in rows] == [False, True]


def test_a_process_that_cannot_begin_says_so(scripts: SimpleNamespace) -> None:
    """It has a device that is none."""
    plan = scripts.timing.Plan("nonsense", 32, epochs=2)
    found = scripts.timing.share(plan, scripts.subjects.cells_of_each()["identity"], 1, 120.0)
    assert "nonsense" in found["error"]


def test_processes_that_take_too_long_are_ended_and_not_blamed(scripts: SimpleNamespace) -> None:
    """They have no time to begin."""
    cell = scripts.subjects.cells_of_each()["identity"]
    found = scripts.timing.share(scripts.timing.Plan("cpu", 32, epochs=2), cell, 2, 0.3)
    assert found == {"error": "only 0 of 2 processes were done after 0 s"}


def test_timings_are_kept_one_by_one_and_end_with_their_seconds(
    scripts: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def alone(cell: str, *rest: object) -> dict[str, float]:
        if cell == "the largest":
            raise MemoryError("too large")
        return {"stacked": 1.0}

    timing, kept = scripts.timing, []
    monkeypatch.setattr(timing, "alone", alone)
    monkeypatch.setattr(timing, "share", lambda plan, cell, count, seconds: {"evaluation": seconds})
    cells = {"largest": "the largest", "random 1": "a random one"}
    found = timing.measure_gpu(cells, timing.Plan("cpu", processes=(1, 2)), lambda so_far: kept.append(repr(so_far)))
    assert found["alone"] == {"largest": {"error": "MemoryError: too large"}, "random 1": {"stacked": 1.0}}
    assert found["shared"][2]["evaluation"] == pytest.approx(540.0, abs=30.0)
    assert len(kept) == len(set(kept)) == 4
    found = timing.measure_gpu(cells, timing.Plan("cpu", processes=(1,), seconds=0.0), lambda so_far: None)
    assert (found["alone"], found["shared"], len(found["left_out"])) == ({}, {}, 3)
    assert "there is no time left" in capsys.readouterr().out


def test_the_options_that_the_page_on_clusters_names_exist() -> None:
    page, known = (ROOT / "docs" / "cluster.md").read_text(), run("--help").stdout
    commands = re.findall(r"python benchmarks/gpu_first_run\.py([^`\n]*)", page)
    options = {option for rest in commands for option in re.findall(r"--[a-z]+", rest)}
    assert options >= {"--json", "--only", "--seconds"}
    assert all(option in known for option in options)
    assert all(part in known for rest in commands for part in re.findall(r"--only (\w+)", rest))
    assert set(re.findall(r"`(\w+)` part", page)) <= set(ALL)
