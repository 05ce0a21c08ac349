"""What the doctor finds: a package that only some problems need is told of, and is not missing."""

import pytest

from fmnas.platform import doctor


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
