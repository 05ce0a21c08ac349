"""What the doctor finds: a package that only some problems need is told of, and is not missing."""

import sys
from types import SimpleNamespace

import pytest
import torch

from fmnas.platform import doctor
from fmnas.platform.cli import main
from fmnas.search_spaces import Conditions
from fmnas.trainers import TrainerError
from fmnas.trainers.images.cuda_graph import CaptureError
from fmnas.trainers.images.problem import train_a_little


@pytest.mark.parametrize(
    ("installed", "detail"),
    [
        ({"xgboost": "3.1"}, "3.1"),
        ({"xgboost-cpu": "3.2"}, "3.2"),
        ({}, "not installed, and only xgb_* problems need it: pip install xgboost-cpu"),
    ],
)
def test_xgboost_is_optional(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], detail: str) -> None:
    monkeypatch.setattr(doctor, "package_version", installed.get)
    (found,) = [finding for finding in doctor._packages() if finding.what == "xgboost"]
    assert (found.good, found.detail) == (True, detail)


@pytest.mark.parametrize(("name", "optimizer"), [("optuna", "tpe"), ("smac", "smac"), ("botorch", "botorch")])
def test_a_package_of_one_optimizer_is_optional(monkeypatch: pytest.MonkeyPatch, name: str, optimizer: str) -> None:
    for version, detail in (
        ("9.1", "9.1"),
        (None, f"not installed, and only the optimizer {optimizer} needs it: pip install {name}"),
    ):
        monkeypatch.setattr(doctor, "package_version", {name: version}.get)
        (found,) = [finding for finding in doctor._packages() if finding.what == name]
        assert (found.good, found.detail) == (True, detail)


def test_a_package_that_everything_needs_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    names = doctor.required_packages()
    assert {"torch", "jinja2", "ConfigSpace", "ray"} < set(names)
    assert not {"pytest", "xgboost-cpu", "optuna"} & set(names), "those are of extras"
    monkeypatch.setattr(doctor, "package_version", {name: "1" for name in names if name != "ray"}.get)
    missing = [finding.detail for finding in doctor._packages() if not finding.good]
    assert missing == ["not installed: pip install ray"]


@pytest.mark.parametrize(
    ("free", "said"), [(1.2, "1 GB free here, and it takes 2: make room"), (3.0, "3 GB free here")]
)
def test_how_much_room_there_must_be_is_said(monkeypatch: pytest.MonkeyPatch, free: float, said: str) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free * 1e9))
    (found,) = doctor._disk()
    assert found.good == (free > doctor.FREE_GIGABYTES)
    assert found.detail.startswith(said)


CHECKS = ("_packages", "_devices", "_data", "_cluster", "_disk")


@pytest.mark.parametrize("broken", CHECKS)
@pytest.mark.parametrize(
    "error", [ImportError("libcudart.so.12: cannot open"), OSError(2, "No such file"), RuntimeError("[/x] a\nb")]
)
def test_what_breaks_down_is_a_line_and_hides_nothing_else(
    broken: str, error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fine(*_: object) -> list[doctor.Finding]:
        return [doctor.Finding("fine", True, "as [/red] it should be")]

    def breaks(*_: object) -> list[doctor.Finding]:
        raise error

    for name in CHECKS:
        monkeypatch.setattr(doctor, name, breaks if name == broken else fine)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHECKS)
    (missing,) = [line for line in lines if line.startswith("missing")]
    assert " ".join(str(error).split()) in missing
    assert sum(line.endswith("as [/red] it should be") for line in lines) == len(CHECKS) - 1


def test_a_finding_is_there_before_the_next_check_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begun(*_: object) -> list[doctor.Finding]:
        raise AssertionError("the next check has begun")

    for name in CHECKS[1:]:
        monkeypatch.setattr(doctor, name, begun)
    monkeypatch.setattr(doctor, "_packages", lambda: [doctor.Finding("one", True, "")])
    assert next(iter(doctor.examine(None))).what == "one"


def test_packages_that_do_not_import_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "hpbandster.core.dispatcher", None)
    found = [*doctor._looked("packages", doctor._packages), *doctor._looked("GPUs", doctor._devices)]
    missing = {finding.what: finding.detail for finding in found if not finding.good}
    assert "hpbandster does not import" in missing["bohb"]
    assert "torch" in missing["GPUs"]
    assert "install it as README.md says" in missing["GPUs"]


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: {"cuda:0": "A100", "cuda:1": "T4"}[device])


@pytest.mark.usefixtures("two_gpus")
def test_each_gpu_is_trained_on_and_one_that_cannot_is_told_of_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def try_device(device: str) -> Conditions:
        if device == "cuda:1":
            raise CaptureError("the step could not be captured as a CUDA graph: no kernel image is available")
        return Conditions("stacked", True, "A100", "2.11.0", 91002)

    monkeypatch.setattr("fmnas.trainers.images.problem.train_a_little", try_device)
    good, bad = doctor._devices()
    assert good == doctor.Finding("cuda:0", True, "A100 trains: stacked (captured), torch 2.11.0, cuDNN 91002")
    assert (bad.what, bad.good) == ("cuda:1", False)
    assert bad.detail.startswith("T4 cannot train: CaptureError: the step could not be captured")
    assert "no kernel image is available. Is its driver" in bad.detail
    assert "workers.arrangement: plain" in bad.detail


@pytest.mark.usefixtures("two_gpus")
def test_the_doctor_asks_the_trainers_themselves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []
    monkeypatch.setattr("fmnas.trainers.images.problem.train_a_little", tried.append)
    for name in CHECKS:
        if name != "_devices":
            monkeypatch.setattr(doctor, name, lambda *_: [])
    assert main(["doctor"]) == 0
    assert tried == ["cuda:0", "cuda:1"]
    assert "T4 trains" in capsys.readouterr().out


def test_without_a_gpu_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    tried: list[str] = []
    monkeypatch.setattr("fmnas.trainers.images.problem.train_a_little", tried.append)
    (finding,) = doctor._devices()
    assert (finding.good, finding.detail) == (True, "none: workers train on CPUs (workers.gpus: 0)")
    assert not tried


def test_a_device_is_tried_with_a_trial_like_any_other() -> None:
    how = train_a_little("cpu")
    assert how is not None
    assert (how.way, how.device) == ("fast", "cpu")
    with pytest.raises(TrainerError, match="device = 'moon'"):
        train_a_little("moon")
