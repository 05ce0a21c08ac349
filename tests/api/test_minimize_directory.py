"""The run directory of `minimize`: a search is resumed and extended from it, and no other one."""

from pathlib import Path
from typing import Any

import pytest
from search_of_bowl import SPACE, CountedBowl, bowl, raise_interrupt

from fmnas.api import load_run, minimize
from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError
from fmnas.search_spaces import Real

pytestmark = pytest.mark.slow


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The directory of a search that is done."""
    minimize(bowl, SPACE, 6, "random", out=tmp_path / "kept")
    return tmp_path / "kept"


def test_it_resumes_from_its_directory_with_the_same_suggestions(tmp_path: Path) -> None:
    whole = minimize(bowl, SPACE, 12, "regularized-evolution", population=4, tournament=2)
    assert "mutation" in set(whole.trials["origin"])
    first, second, third = CountedBowl(6, raise_interrupt), CountedBowl(), CountedBowl()
    same = {"evaluations": 12, "optimizer": "regularized-evolution", "population": 4, "tournament": 2}
    out = tmp_path / "moved on"
    with pytest.warns(UserWarning, match="interrupted"):
        minimize(first, SPACE, out=out, **same)
    result = minimize(second, SPACE, out=str(out), **same)
    assert (first.calls, second.calls) == (6, 7)  # the sixth is repeated
    assert result.trials["x"].tolist() == whole.trials["x"].tolist()
    assert not (out / "report").exists()
    again = minimize(third, SPACE, out=out, **same)
    assert third.calls == 0
    assert (again.best, again.objective) == (result.best, result.objective)


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"evaluations": 5}, r"evaluations = 5\b.*\b6"),
        ({"seed": 1}, r"seed = 1\b.*\b0"),
        ({"optimizer": "bo-fm"}, r"optimizer = bo-fm\b.*\brandom"),
        ({"function": lambda configuration: 0.0}, r"function = \S*lambda\b.*\bbowl"),
        ({"space": [Real("x", -5.0, 6.0), SPACE[1]]}, "space"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_another_search_cannot_resume_in_the_directory(other: dict[str, Any], named: str, kept: Path) -> None:
    before = (kept / "journal.jsonl").read_bytes()
    with pytest.raises(
        RunDirectoryError, match=rf"(?s){kept}.*\b{named}\b.*out=DIR|\b{named}\b.*{kept}.*out=DIR"
    ) as raised:
        minimize(**{"function": bowl, "space": SPACE, "evaluations": 6, "optimizer": "random", "out": kept, **other})
    assert str(raised.value).count("cannot change") <= 1, "no other argument is blamed"
    assert (kept / "journal.jsonl").read_bytes() == before


def test_more_evaluations_are_added_to_what_is_there(tmp_path: Path) -> None:
    same = {"space": SPACE, "optimizer": "random", "out": tmp_path / "growing"}
    begun, added, once_more = CountedBowl(), CountedBowl(), CountedBowl()
    minimize(begun, evaluations=6, **same)
    result = minimize(added, evaluations=10, **same)
    assert (added.calls, len(result.trials)) == (4, 10)
    again = minimize(once_more, evaluations=10, **same)
    assert (once_more.calls, again.best) == (0, result.best)
    with pytest.raises(RunDirectoryError, match=r"evaluations = 6\b.*\b10\b"):
        minimize(begun, evaluations=6, **same)


def test_different_evaluations_are_compared_if_the_random_points_are_as_many(tmp_path: Path) -> None:
    sizes = {"short": 6, "long": 12}
    for name, evaluations in sizes.items():
        minimize(bowl, SPACE, evaluations, "random", out=tmp_path / name)
        minimize(bowl, SPACE, evaluations, "tpe", out=tmp_path / f"{name}-tpe", initial_design=3)
    with pytest.raises(RunDirectoryError, match=r"(?s)long again.* initial_design=2\b"):
        load_run(tmp_path / "long", tmp_path / "short")
    minimize(bowl, SPACE, 12, "random", out=tmp_path / "again", initial_design=3)
    assert set(load_run(tmp_path / "again", tmp_path / "short-tpe").summary.optimizers) == {"random", "tpe"}
    for tpe in (tmp_path / f"{name}-tpe" for name in sizes):
        assert load_run(tpe).trials["origin"].tolist().count("initial") == 3


@pytest.mark.parametrize(("asked", "is_same"), [(None, True), (2, True), (3, False)])
def test_the_number_of_random_points_cannot_change(asked: int | None, is_same: bool, kept: Path) -> None:
    more = {"space": SPACE, "evaluations": 12, "optimizer": "random", "out": kept, "initial_design": asked}
    if is_same:
        assert len(minimize(bowl, **more).trials) == 12
    else:
        with pytest.raises(RunDirectoryError, match=r"initial_design = 3\b.*\b2"):
            minimize(bowl, **more)


def test_its_directory_can_be_read_but_not_resumed_without_the_function(
    kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(load_run(kept).trials) == 6
    assert main(["report", str(kept)]) == 0
    assert (kept / "report/index.html").is_file()
    assert main(["status", str(kept)]) == main(["replay", str(kept)]) == 0
    capsys.readouterr()
    before = (kept / "journal.jsonl").read_bytes()
    assert main(["resume", str(kept)]) == 2
    message = capsys.readouterr().err
    assert "bowl" in message
    assert "out=DIR" in message
    assert "restore" not in message, "that would not help"
    assert (kept / "journal.jsonl").read_bytes() == before


@pytest.mark.parametrize("text", ["", "{}"])
def test_a_damaged_problem_is_named(text: str, kept: Path) -> None:
    (kept / "problem.json").write_text(text)
    with pytest.raises(RunDirectoryError, match=r"kept/problem\.json .*restore"):
        load_run(kept)


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RunDirectoryError, match=r"is not empty.*out=DIR") as raised:
        minimize(bowl, SPACE, 6, "random", out=tmp_path)
    assert "delete" not in str(raised.value)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_that_cannot_be_accessed_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"nnn.*out=DIR"):
        minimize(bowl, SPACE, 6, "random", out=tmp_path / ("n" * 300))
