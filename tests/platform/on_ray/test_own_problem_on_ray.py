"""A user-defined problem on Ray: its file is sent to workers, and what its function does harms no other trial."""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.problems import problem
from fmnas.platform.references import SourceFile
from fmnas.platform.workers.cluster import session_directory
from fmnas.platform.workers.factory import _ship_source
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Pool
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.platform.workers.ray_worker import build_trainer
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, FINISHED, LOST, TIMED_OUT
from fmnas.trainers.problem import Hardware, ProblemSettings

pytestmark = pytest.mark.slow

MINE = """
import asyncio
import os
import sys
import time
from dataclasses import dataclass, replace
from fmnas.search_spaces import Nominal
from fmnas.trainers import objective

class OddError(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")

def raises():
    raise OddError(1, 2)

def cancels():
    raise asyncio.CancelledError("by whom")

def prints():
    for _ in range(30_000):
        print("x" * 1000)
    return 0.25

def hangs():
    time.sleep(600)

DEEDS = {"fine": lambda: 0.5, "raise": raises, "exit": sys.exit, "kill": lambda: os._exit(1), "print": prints,
         "hang": hangs, "cancel": cancels}

@objective([Nominal("deed", list(DEEDS))])
def does(configuration):
    return DEEDS[configuration["deed"]]()

@dataclass
class Table:
    place: str
    value: float

    def doubled(self):
        return 2 * self.value

def load():
    return Table("made up", 21.0)

def build(data, hardware):
    assert isinstance(data.doubled(), float)
    return objective(does.space)(lambda configuration: data.doubled()).trainer

PLAIN = replace(does, load=load, build=build)
"""

Answer = Callable[[Pool, Job], JobEnded]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


def pool(ray: Any, name: str, file: SourceFile | None, data: Any = None, failures: int = 5) -> RayPool:
    build = partial(build_trainer, name, ProblemSettings(), Hardware(), file=file)
    return RayPool(ray, build, data, WorkersConfig(failures=failures), 1, trial_seconds=3.0)


def job(deed: str) -> Job:
    return Job("random/repeat-0", Trial(0, {"deed": deed}, 1, "random"))


def test_a_worker_has_it_without_the_file_and_outlives_what_it_does(
    ray: Any, mine: Path, answer: Answer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.platform.workers.ray_pool.GRACE_SECONDS", 0.5)
    name = f"{mine}:does"
    file = _ship_source(ray, name)
    shutil.rmtree(mine.parent)  # as on a node that lacks it
    workers = pool(ray, name, file)
    events = {deed: answer(workers, job(deed)) for deed in ("raise", "exit", "cancel", "print", "hang", "kill", "fine")}
    time.sleep(1.0)  # Ray's own message of a dead worker would have come by then
    workers.close()
    assert "raylet" not in "".join(capfd.readouterr())
    results = {deed: event.result for deed, event in events.items()}
    kinds = {
        deed: result.status if isinstance(result, FailedEvaluation) else FINISHED for deed, result in results.items()
    }
    assert kinds == {
        "raise": FAILED,
        "exit": FAILED,
        "cancel": FAILED,
        "print": FINISHED,
        "hang": TIMED_OUT,
        "kill": LOST,
        "fine": FINISHED,
    }
    assert results["fine"] == Evaluation(0.5, epochs=1, seconds=results["fine"].seconds)
    reasons = {deed: result.reason for deed, result in results.items() if isinstance(result, FailedEvaluation)}
    assert reasons["raise"] == "OddError: 1 and 2 (mine.py, line 15)"
    assert reasons["cancel"] == "CancelledError: by whom (mine.py, line 18)"
    assert reasons["exit"] == "SystemExit (mine.py, line 33)"
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    assert logs.is_relative_to(session_directory())
    written = [path.stat().st_size for path in logs.glob("worker-*.out*")]
    assert 0 < sum(written) < 12 * 1024**2  # of 30 MB


def test_the_class_of_its_data_is_sent_as_well(ray: Any, mine: Path, answer: Answer) -> None:
    name = f"{mine}:PLAIN"
    file, data = _ship_source(ray, name), problem(name).load()
    shutil.rmtree(mine.parent)
    workers = pool(ray, name, file, data)
    event = answer(workers, job("fine"))
    workers.close()
    assert isinstance(event.result, Evaluation)
    assert event.result.objective == 42.0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("/nowhere/of_own.py:does", b"import no_such_package", "of_own.py cannot be imported: ModuleNotFoundError"),
        ("/nowhere/of_own.py:does", None, "/nowhere/of_own.py"),
        ("no_such_module:does", None, "no_such_module"),
    ],
)
def test_a_worker_that_cannot_build_it_says_where_and_why(
    ray: Any, name: str, text: bytes | None, words: str, answer: Answer
) -> None:
    file = None if text is None else SourceFile(name.partition(":")[0], text)
    workers = pool(ray, name, file, failures=1)
    with pytest.raises(ExperimentFailed) as caught:
        answer(workers, job("fine"))
    workers.close()
    said = str(caught.value)
    assert words in said
    assert f"on {gethostname()}:" in said
    assert "\n" not in said
    assert "Traceback" not in said
