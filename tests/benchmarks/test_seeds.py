"""Where a benchmark's seeds come from: they can be fresh, and repeated."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import seeds

from fmnas.trainers.functions.synthetic import FUNC2C
from fmnas.trainers.problem import authors_points


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    seeds.add_arguments(parser, 20)
    return parser.parse_args(list(words))


@pytest.mark.parametrize(
    ("words", "expected"),
    [((), range(20)), (("--seeds", "3"), range(3)), (("--first-seed", "60", "--seeds", "2"), (60, 61))],
)
def test_seeds_are_consecutive_unless_others_are_asked_for(words: tuple[str, ...], expected: range) -> None:
    assert seeds.chosen(parsed(*words)).values == tuple(expected)


def test_fresh_seeds_are_what_the_operating_system_draws_each_once() -> None:
    draws = iter([7, 2**32 - 1, 7, 0])
    asked = []

    def draw(bits: int) -> int:
        asked.append(bits)
        return next(draws)

    assert seeds.chosen(parsed("--fresh", "--seeds", "3"), draw).values == (7, 2**32 - 1, 0)
    assert set(asked) == {32}


def test_two_fresh_draws_differ() -> None:
    assert seeds.chosen(parsed("--fresh")).values != seeds.chosen(parsed("--fresh")).values


def test_the_largest_seed_that_may_be_drawn_has_an_initial_design() -> None:
    assert len(authors_points(FUNC2C.space, 2**seeds.BITS - 1)) == 10
    assert np.random.default_rng([2**seeds.BITS - 1, 1]).random() < 1.0


def test_a_file_repeats_its_seeds_and_says_where_they_are_from(tmp_path: Path) -> None:
    path, drawn = tmp_path / "results.json", seeds.chosen(parsed("--fresh", "--seeds", "4"))
    path.write_text(json.dumps({"seeds": drawn.kept()}))
    assert seeds.chosen(parsed("--seeds-from", str(path))) == drawn
    assert seeds.chosen(parsed("--seeds-from", str(path), "--seeds", "2")).values == drawn.values[:2]


@pytest.mark.parametrize(
    ("text", "words"),
    [("{}", ()), ("nothing", ()), ('{"seeds": {"origin": "here", "values": [1, 2]}}', ("--seeds", "3"))],
)
def test_a_file_without_the_seeds_is_named(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(SystemExit, match=str(path)):
        seeds.chosen(parsed("--seeds-from", str(path), *words))


@pytest.mark.parametrize(
    "words",
    [
        ("--fresh", "--first-seed", "3"),
        ("--fresh", "--seeds-from", "x.json"),
        ("--first-seed", str(2**32)),
        ("--seeds", "0"),
    ],
)
def test_seeds_that_contradict_each_other_or_do_not_exist_are_refused(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert words[-2].strip("-") in capsys.readouterr().err
