"""The Boston table: read from a file with its shape and statistics, refused otherwise. The files here are noise."""

from pathlib import Path

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.tables.boston import boston_table

HEADER = ",".join(f'"c{i}"' for i in range(14))


def stand_in() -> np.ndarray:
    """Noise [506, 14] whose last column has the mean and the standard deviation that are looked for."""
    values = np.random.default_rng(0).normal(size=(506, 14))
    targets = values[:, -1]
    values[:, -1] = (targets - targets.mean()) / targets.std() * 9.188012 + 22.532806
    return values


def lines(values: np.ndarray) -> list[str]:
    return [",".join(repr(float(value)) for value in row) for row in values]


def write(path: Path, text: list[str]) -> Path:
    path.write_text("\n".join(text) + "\n")
    return path


@pytest.mark.parametrize("before", [[], [HEADER], ["506,13,,,,,,,,,,,,", HEADER], ["", HEADER, ""]])
def test_a_file_with_the_right_numbers_is_taken(before: list[str], tmp_path: Path) -> None:
    values = stand_in()
    path = write(tmp_path / "b.csv", [*before, *lines(values)])
    table = boston_table(path)
    assert np.array_equal(table.features, values[:, :-1])
    assert np.array_equal(table.targets, values[:, -1])
    assert (table.name, table.place) == ("boston", str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([], "holds 0 rows of 14 numbers"),
        ([HEADER], "holds 0 rows of 14 numbers"),
        (lines(stand_in())[:-1], "holds 505 rows"),
        ([*lines(stand_in()), "1" + ",1" * 13], "holds 507 rows"),
        ([*lines(stand_in())[:100], HEADER, *lines(stand_in())[100:]], "not 506 in a row"),
        (lines(stand_in()[:, 1:]), "holds 0 rows"),
        ([*lines(stand_in())[:-1], "nan" + ",1" * 13], "holds 505 rows"),
        (lines(stand_in() + 0.001), r"has mean 22\.533806 and standard deviation 9\.188012"),
        (lines(stand_in()[:, ::-1]), "its last column is not the median value"),
    ],
)
def test_a_file_with_other_numbers_is_refused(text: list[str], message: str, tmp_path: Path) -> None:
    path = write(tmp_path / "b.csv", text)
    with pytest.raises(DataError, match=message) as caught:
        boston_table(path)
    for word in (str(path), "506 rows and 14 numeric columns", "22.532806", "FMNAS_BOSTON", "nusvr_diabetes"):
        assert word in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "nowhere.csv", tmp_path, tmp_path / "binary.csv"):
        with pytest.raises(DataError, match="cannot be read") as caught:
            boston_table(path)
        assert str(path) in str(caught.value)


def test_without_a_file_it_says_what_is_needed() -> None:
    with pytest.raises(DataError, match=r"no file given.*not shipped.*data.root or FMNAS_BOSTON"):
        boston_table(None)


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FMNAS_BOSTON", str(write(tmp_path / "b.csv", lines(stand_in()))))
    assert boston_table(None).place == str(tmp_path / "b.csv")
    monkeypatch.setenv("FMNAS_BOSTON", "")
    with pytest.raises(DataError, match="no file given"):
        boston_table(None)
