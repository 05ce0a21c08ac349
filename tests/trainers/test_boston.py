"""The Boston table: read from a file with its shape and statistics, refused otherwise. The files here are noise."""

from pathlib import Path

import numpy as np
import pytest

from fmnas.trainers import DataError
from fmnas.trainers.tables.support_vectors import boston_table

HEADER = ",".join(f'"c{i}"' for i in range(14))


def noise() -> np.ndarray:
    """Noise [506, 14] whose last column has the expected mean and standard deviation."""
    values = np.random.default_rng(0).normal(size=(506, 14))
    targets = values[:, -1]
    values[:, -1] = (targets - targets.mean()) / targets.std() * 9.188012 + 22.532806
    return values


def lines(values: np.ndarray) -> list[str]:
    return [",".join(repr(float(value)) for value in row) for row in values]


@pytest.mark.parametrize("before", [[], ["506,13,,,,,,,,,,,,", HEADER]])
def test_a_file_with_the_right_numbers_is_read(
    before: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, path = noise(), tmp_path / "b.csv"
    path.write_text("\n".join([*before, *lines(values)]))
    monkeypatch.setenv("FMNAS_BOSTON", str(path))
    for table in (boston_table(path), boston_table(None)):
        assert np.array_equal(table.features, values[:, :-1])
        assert np.array_equal(table.targets, values[:, -1])
        assert (table.name, table.place) == ("boston", str(path))


@pytest.mark.parametrize(
    "text",
    [
        [],
        lines(noise())[:-1],
        [*lines(noise())[:-1], "nan" + ",1" * 13],
        lines(noise() + 0.001),
        None,
        ["\udcff"],
    ],
)
def test_another_file_is_refused(text: list[str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "b.csv"
    if text is not None:
        path.write_bytes("\n".join(text).encode(errors="surrogateescape"))
    with pytest.raises(DataError, match=f"{path}.*FMNAS_BOSTON.*nusvr_diabetes"):
        boston_table(path)
    monkeypatch.setenv("FMNAS_BOSTON", "")
    with pytest.raises(DataError, match="FMNAS_BOSTON"):
        boston_table(None)
