"""A package that is not there is one to install; one that is there and broken says what is wrong with it."""

from pathlib import Path

import pytest

from fmnas.search_spaces import SpaceError
from fmnas.search_spaces.errors import optional_module


def test_a_package_that_is_missing_is_one_to_install() -> None:
    with pytest.raises(SpaceError) as refused:
        optional_module("no_such_package.part", "the test", SpaceError)
    assert str(refused.value) == "the test needs no_such_package, which is not installed: pip install no_such_package"


def test_a_package_that_is_broken_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_package.py").write_text("import no_such_package")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        SpaceError, match=r"the test needs broken_package, .*cannot be imported: No module named"
    ) as raised:
        optional_module("broken_package", "the test", SpaceError)
    assert isinstance(raised.value.__cause__, ModuleNotFoundError)
