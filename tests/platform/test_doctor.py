"""What the doctor finds: a package that only some problems need is told of, and is not missing."""

import sys

import pytest

from fmnas.platform import doctor
from fmnas.platform.cli import main


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


def test_a_package_that_everything_needs_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "package_version", {name: "1" for name in doctor.REQUIRED if name != "ray"}.get)
    missing = [finding.detail for finding in doctor._packages() if not finding.good]
    assert missing == ["not installed: pip install ray"]


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


def test_packages_that_do_not_import_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "hpbandster.core.dispatcher", None)
    found = [*doctor._looked("packages", doctor._packages), *doctor._looked("GPUs", doctor._devices)]
    missing = {finding.what: finding.detail for finding in found if not finding.good}
    assert "hpbandster does not import" in missing["bohb"]
    assert "torch" in missing["GPUs"]
    assert "install it as README.md says" in missing["GPUs"]
