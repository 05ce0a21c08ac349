"""`fmnas doctor`: every check gives results, optional packages are never required, and no failure hides the rest."""

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch

from fmnas.platform import doctor
from fmnas.platform.cli import main
from fmnas.platform.doctor import CheckResult
from fmnas.search_spaces import Conditions
from fmnas.trainers import TrainerError
from fmnas.trainers.images.cuda_graph import CaptureError
from fmnas.trainers.images.problem import smoke_test_device

pytestmark = pytest.mark.slow

CHECKS = ("_check_packages", "_check_gpus", "_check_data", "_check_cluster", "_check_disk")


@pytest.mark.parametrize(
    ("installed", "name", "words"),
    [
        ({"xgboost": "3.1"}, "xgboost", {"3.1"}),
        ({"xgboost-cpu": "3.2"}, "xgboost", {"3.2"}),
        ({}, "xgboost", {"xgb_*", "xgboost-cpu"}),
        ({}, "optuna", {"tpe", "optuna"}),
        ({}, "smac", {"smac"}),
        ({"botorch": "9.1"}, "botorch", {"9.1"}),
    ],
)
def test_an_optional_package_is_never_missing(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], name: str, words: set[str]
) -> None:
    monkeypatch.setattr(doctor, "package_version", installed.get)
    (result,) = [result for result in doctor._check_packages() if result.name == name]
    assert result.passed
    assert all(word in result.detail for word in words)


def test_a_required_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = doctor.required_packages()
    assert {"torch", "jinja2", "ConfigSpace", "ray"} < set(names)
    assert not {"pytest-xdist", "xgboost-cpu", "optuna"} & set(names), "packages of extras are optional"
    monkeypatch.setattr(doctor, "package_version", {name: "1" for name in names if name != "ray"}.get)
    assert [result.name for result in doctor._check_packages() if not result.passed] == ["ray"]


@pytest.mark.parametrize(("free", "passed"), [(1.2, False), (3.0, True)])
def test_free_disk_space(monkeypatch: pytest.MonkeyPatch, free: float, passed: bool) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free * 1e9))
    (result,) = doctor._check_disk()
    assert result.passed == passed
    assert f"{free:.0f} GB" in result.detail


@pytest.mark.parametrize("broken", CHECKS)
@pytest.mark.parametrize("error", [ImportError("libcudart.so.12: cannot open"), RuntimeError("[/x] a\nb")])
def test_a_check_that_raises_is_one_line_and_hides_nothing(
    broken: str, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def passing(*_: object) -> list[CheckResult]:
        return [CheckResult("fine", True, "printed as [/red] written")]

    def raising(*_: object) -> list[CheckResult]:
        raise error

    for name in CHECKS:
        monkeypatch.setattr(doctor, name, raising if name == broken else passing)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHECKS)
    (failed,) = [line for line in lines if not line.endswith("printed as [/red] written")]
    assert " ".join(str(error).split()) in failed


def test_a_result_is_yielded_before_the_next_check_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_check() -> Iterator[CheckResult]:
        raise AssertionError

    monkeypatch.setattr(doctor, "_check_packages", lambda: [CheckResult("one", True, "")])
    monkeypatch.setattr(doctor, "_check_gpus", next_check)
    assert next(iter(doctor.run_checks(None))).name == "one"


def test_packages_that_do_not_import_are_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "hpbandster.core.dispatcher", None)
    results = [*doctor.guard("packages", doctor._check_packages), *doctor.guard("GPUs", doctor._check_gpus)]
    failed = {result.name: result.detail for result in results if not result.passed}
    assert "hpbandster" in failed["bohb"]
    assert "torch" in failed["GPUs"]


def test_every_gpu_trains_or_fails_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def train(device: str) -> Conditions:
        if device == "cuda:1":
            raise CaptureError("no kernel image is available")
        return Conditions("stacked", True, "A100", "2.11.0", 91002)

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: {"cuda:0": "A100", "cuda:1": "T4"}[device])
    monkeypatch.setattr("fmnas.trainers.images.problem.smoke_test_device", train)
    passed, failed = doctor._check_gpus()
    assert (passed.name, passed.passed, failed.name, failed.passed) == ("cuda:0", True, "cuda:1", False)
    assert all(word in passed.detail for word in ("A100", "stacked", "2.11.0", "91002"))
    assert all(word in failed.detail for word in ("T4", "no kernel image is available", "workers.arrangement: plain"))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    (none,) = doctor._check_gpus()
    assert none.passed


def test_a_device_is_tried_by_a_real_training() -> None:
    used = smoke_test_device("cpu")
    assert used is not None
    assert (used.way, used.device) == ("fast", "cpu")
    with pytest.raises(TrainerError, match="'moon'"):
        smoke_test_device("moon")
