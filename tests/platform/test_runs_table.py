"""The table of runs on narrow, wide, low and high terminals."""

import io

import pytest
from rich.console import Console

from fmnas.comparison.analysis.formatting import format_number
from fmnas.platform.display.runs_table import BESIDE, Doing, RunRow, RunsTable, as_number, folded

NAMES = ("bo-fm", "regularized-evolution", "bohb", "random")


def rows(repeats: int) -> list[RunRow]:
    doing = (Doing.TRAINING, Doing.SUGGESTING, Doing.DONE, Doing.WAITING)
    now = ("training 7 (epoch 7 of 25, 41 s)", *doing[1:])
    return [
        RunRow(f"{name}/repeat-{r}", name, 30 + r, 60, 3, 0.28375 + r / 1000, doing[i], now[i], 100.0 * (r + 1))
        for r in range(repeats)
        for i, name in enumerate(NAMES)
    ]


def drawn(width: int, height: int, repeats: int) -> str:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, color_system=None)
    console.print(RunsTable("an experiment; lower is better", rows(repeats), "2 of 2 workers busy"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("repeats", [1, 5])
def test_nothing_is_wider_or_higher_and_what_matters_is_whole(width: int, repeats: int) -> None:
    text = drawn(width, 24, repeats)
    lines = text.rstrip("\n").split("\n")
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24
    assert text.count("0.2838") == len(NAMES)  # the best of five, or the one there is
    assert "50%" in text if repeats == 1 else "53%" in text
    assert ("epochs" in lines[1]) == (width >= 100)
    assert ("8:20" in text) == (repeats == 5)  # the slowest of five


def test_a_row_per_run_where_there_is_room() -> None:
    assert "bo-fm/repeat-4" in drawn(120, 20 + BESIDE, 5)
    assert "bo-fm x 5" in drawn(120, 19 + BESIDE, 5)


def test_runs_of_an_optimizer_as_one() -> None:
    whole, *others = folded(
        [*rows(2), RunRow("bo-fm/repeat-2", "bo-fm", 0, 60, 3, None, Doing.WAITING, "waiting", None)]
    )
    assert whole == RunRow("bo-fm x 3", "bo-fm", 61, 180, 3, 0.28375, None, "2 training, 1 waiting", None)
    assert [row.name for row in others] == [f"{name} x 2" for name in NAMES[1:]]
    assert [row.left for row in others] == [200.0] * 3


def test_the_bar_goes_before_anything_is_cut() -> None:
    wide, narrow = drawn(140, 24, 1), drawn(110, 24, 1)
    assert "budget" in wide
    assert "budget" not in narrow
    assert "training 7 (epoch 7 of 25, 41 s)" in narrow
    assert "regularized-evolution/repeat-0" in narrow


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0.28375, "0.2838"),
        (0.0, "0.000"),
        (1e-300, "1.000e-300"),
        (1e300, "1.000e+300"),
        (12345.6, "1.235e+04"),
        (2.5, "2.500"),
        (1234.0, "1234"),
    ],
)
def test_numbers_have_four_significant_digits_as_in_the_final_table(value: float | None, text: str) -> None:
    assert as_number(value) == text
    assert value is None or text == format_number(value)
