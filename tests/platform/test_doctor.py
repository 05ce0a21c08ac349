"""`fmnas doctor`: every check gives results, optional packages are never required, and no failure hides the rest."""

from types import SimpleNamespace

import pytest
import torch

from fmnas.platform import doctor
from fmnas.platform.cli import main
from fmnas.platform.environment import required_packages
from fmnas.platform.errors import CheckResult
from fmnas.search_spaces import Conditions
from fmnas.trainers.images.cuda_graph import CaptureError

pytestmark = pytest.mark.slow

CHECKS = ("_check_packages", "_check_gpus", "_check_data", "_check_cluster", "_check_disk")


def test_packages_are_required_or_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    names = required_packages()
    assert {"torch", "jinja2", "ConfigSpace", "ray"} < set(names)
    assert not {"hpbandster", "pytest-xdist", "xgboost-cpu", "optuna"} & set(names), "packages of extras are optional"
    monkeypatch.setattr(doctor, "package_version", {name: "1" for name in names if name != "ray"}.get)
    monkeypatch.setattr(doctor, "find_spec", {"optuna": "a spec"}.get)
    required, optional = doctor._check_packages()
    assert (required.passed, required.detail) == (False, "not installed: pip install ray")
    assert optional.passed
    commands = ("pip install --no-deps hpbandster", "pip install xgboost-cpu", "pip install smac")
    assert all(command in optional.detail for command in commands)
    assert "optuna" not in optional.detail


@pytest.mark.parametrize(("free", "passed"), [(1.2, False), (3.0, True)])
def test_free_disk_space(monkeypatch: pytest.MonkeyPatch, free: float, passed: bool) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free * 1e9))
    (result,) = doctor._check_disk()
    assert result.passed == passed
    assert f"{free:.0f} GB" in result.detail


@pytest.mark.parametrize("broken", CHECKS)
def test_a_check_that_raises_is_one_line_and_hides_nothing(
    broken: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def passing(*_: object) -> list[CheckResult]:
        return [CheckResult("fine", True, "printed as [/red] written")]

    def raising(*_: object) -> list[CheckResult]:
        raise RuntimeError("[/x] a\nb")

    for name in CHECKS:
        monkeypatch.setattr(doctor, name, raising if name == broken else passing)
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(CHECKS)
    (failed,) = [line for line in lines if not line.endswith("printed as [/red] written")]
    assert "RuntimeError: [/x] a b" in failed


def test_data_and_cluster_are_named_and_the_cluster_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[str] = []
    ray = SimpleNamespace(
        cluster_resources=lambda: {"CPU": 6.0}, nodes=lambda: [1, 2], shutdown=lambda: left.append("Ray")
    )
    monkeypatch.setattr("fmnas.platform.workers.cluster.connect", lambda address: ray)
    monkeypatch.setattr(
        "fmnas.trainers.images.data.fashion_mnist_set", lambda: SimpleNamespace(place="/data/FashionMNIST")
    )
    (data,), (cluster,) = doctor._check_data(), doctor._check_cluster("host:1")
    assert (data.passed, data.detail) == (True, "/data/FashionMNIST")
    assert cluster.passed
    assert all(word in cluster.detail for word in ("host:1", "2 node", "6 CPUs", "0 GPUs"))
    assert left == ["Ray"]


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
