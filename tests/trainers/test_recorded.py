"""Recorded problems: results come back as they were recorded, and nothing else does."""

import json
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.search_spaces import Conditions, Evaluation, Nominal, Ordinal, Real, Space, SpaceError, Trial
from fmnas.search_spaces.canonical import canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES, Cell, cell_variables
from fmnas.search_spaces.records import FAILED, FINISHED, TIMED_OUT
from fmnas.trainers.contract import DataError, NotRecordedError, RecordedFailureError
from fmnas.trainers.recorded import RecordedTrainer, identify, recorded_problem
from fmnas.trainers.recorded_table import RecordedResult, TableHeader, read_header, read_table, write_table

SPACE = Space([Nominal("kind", ["x", "y"]), Ordinal("size", [1, 2, 4]), Real("rate", 1e-3, 1.0, log=True)])
HEADER = TableHeader(SPACE, {"name": "grid", "penalty": 9.0, "epochs": 3, "minimum": 0.25}, {"seeds": 2}, [{"seed": 0}])


def result(number: int, kind: str, size: int, evaluation: Evaluation | None, **changes: object) -> RecordedResult:
    trial = Trial(number, {"kind": kind, "size": size, "rate": 0.1}, 3, "random", seed=2**32 - 1 - number)
    status, seconds = (FAILED, 7.5) if evaluation is None else (FINISHED, evaluation.seconds)
    first = RecordedResult(0, "random/repeat-0", trial, status, seconds, evaluation, "" if evaluation else "no")
    return replace(first, **changes)  # type: ignore[arg-type]


RESULTS = [
    result(0, "x", 1, Evaluation(0.5, epochs=3, seconds=2.0)),
    result(1, "x", 1, Evaluation(0.75, epochs=3, seconds=3.0)),
    result(2, "y", 2, None),
    result(3, "y", 1, None, status=TIMED_OUT),
    result(
        4,
        "y",
        4,
        Evaluation(
            1 / 3,
            epochs=3,
            errors=(0.1, 0.2),
            flops=123_456_789_012,
            flops_ratio=0.5,
            curve=(0.9, 0.4, 0.15),
            seconds=0.1 + 0.2,
            diverged=True,
            conditions=Conditions("fast", True, "cpu", "2.8"),
            seed_curves=((0.9, 0.3, 0.1), (0.9, 0.5, 0.2)),
        ),
    ),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_table(tmp_path / "table.npz", HEADER, RESULTS)
    return tmp_path / "table.npz"


def trainer_of(path: Path) -> RecordedTrainer:
    return RecordedTrainer(read_table(path))


def test_results_come_back_exactly(path: Path) -> None:
    table = read_table(path)
    assert [table.result(row) for row in range(len(table))] == RESULTS
    header = read_header(path)
    assert header.space.to_dict() == SPACE.to_dict()
    assert (header.problem, header.settings, header.sources) == (HEADER.problem, HEADER.settings, HEADER.sources)


def test_values_of_several_objectives_come_back(tmp_path: Path) -> None:
    two = result(0, "x", 2, Evaluation(3.0, epochs=3, seconds=2.0, values=(1.0, 2.0)))
    write_table(tmp_path / "two.npz", HEADER, [two, *RESULTS])
    table = read_table(tmp_path / "two.npz")
    assert [table.result(row) for row in range(len(table))] == [two, *RESULTS]


def test_numpy_alone_reads_the_file(path: Path) -> None:
    with np.load(path, allow_pickle=False) as file:
        assert json.loads(str(file["header"]))["problem"]["name"] == "grid"
        assert file["objective"].tolist()[:2] == [0.5, 0.75]
        assert file["variable.size"].tolist() == [0, 0, 1, 0, 2]
        assert file["seed_curves"].shape == (5, 2, 3)


def test_a_problem_is_as_it_was_recorded(path: Path) -> None:
    problem = recorded_problem(path)
    assert (problem.penalty, problem.epochs, problem.minimum) == (9.0, 3, 0.25)
    assert problem.space.to_dict() == SPACE.to_dict()


def test_an_evaluation_is_looked_up(path: Path) -> None:
    trainer = trainer_of(path)
    assert trainer.evaluate(replace(RESULTS[4].trial, seed=5, id=9)) == RESULTS[4].evaluation
    for recorded in RESULTS[:2]:
        assert trainer.evaluate(recorded.trial) == recorded.evaluation, "that of its seed"
    drawn = {trainer.evaluate(replace(RESULTS[0].trial, seed=seed)).objective for seed in range(10)}
    assert drawn == {0.5, 0.75}, "another seed draws one of them"


@pytest.mark.parametrize("row", [2, 3])
def test_a_failure_fails_again(path: Path, row: int) -> None:
    with pytest.raises(RecordedFailureError) as caught:
        trainer_of(path).evaluate(RESULTS[row].trial)
    assert caught.value.seconds == 7.5


def test_what_was_not_recorded_is_refused(path: Path) -> None:
    trainer, known = trainer_of(path), RESULTS[0].trial
    for trial in (
        replace(known, epochs=2),
        replace(known, configuration={**known.configuration, "size": 4}),
        replace(known, configuration={**known.configuration, "rate": np.nextafter(0.1, 1.0)}),
    ):
        with pytest.raises(NotRecordedError):
            trainer.evaluate(trial)
    with pytest.raises(SpaceError):
        trainer.evaluate(replace(known, configuration={**known.configuration, "size": 3}))


def test_another_encoding_of_the_same_network_is_the_same() -> None:
    space, rng = Space(cell_variables()), np.random.default_rng(0)
    cells = [space.sample(rng) for _ in range(300)]
    forms = [canonical_form(Cell.from_configuration(cell)) for cell in cells]
    names = [identify(cell) for cell in cells]
    for i, j in combinations(range(len(cells)), 2):
        assert (names[i] == names[j]) == (forms[i] == forms[j])
    assert identify({**cells[0], "rate": 0.1}) != identify({**cells[0], "rate": 0.2})
    part = {name: value for name, value in cells[0].items() if name != CELL_NAMES[0]}
    assert isinstance(identify(part), frozenset), "without all variables of a cell no network is described"
    assert identify(part) != identify({**part, "output": cells[0]["output"] % 3 + 1})


@pytest.mark.parametrize("cell", [{}, Space(cell_variables()).sample(np.random.default_rng(0))])
def test_a_boolean_is_not_its_number(cell: dict[str, Any]) -> None:
    first, whole, boolean = (identify({**cell, "n": value}) for value in (1, 1.0, True))
    assert first == whole != boolean


def test_a_file_that_is_something_else_is_refused(path: Path, tmp_path: Path) -> None:
    other, content = tmp_path / "other.npz", path.read_bytes()
    with pytest.raises(DataError):
        read_table(other)
    for wrong in (b"", b"text", content[:200], content[:-200]):
        other.write_bytes(wrong)
        for read in (read_header, read_table):
            with pytest.raises(DataError):
                read(other)
    with np.load(path) as file:
        arrays = dict(file)
    facts = json.loads(str(arrays["header"]))
    for changes in (
        {"header": np.array(json.dumps({**facts, "format": 99}))},
        {"header": np.array(json.dumps({"format": 1}))},
        {"header": np.array(json.dumps({**facts, "space": ["x"]}))},
        {"header": np.array(json.dumps([]))},
        {"objective": arrays["objective"][:-1]},
        {"objective": np.array([None] * 5)},
    ):
        np.savez(other, **{**arrays, **changes})
        with pytest.raises(DataError):
            read_table(other)
    np.savez(other, **{**arrays, "header": np.array(json.dumps({**facts, "problem": {}}))})
    with pytest.raises(DataError):
        recorded_problem(other)


def test_a_flipped_bit_is_refused_or_makes_no_difference(path: Path, tmp_path: Path) -> None:
    content, other = path.read_bytes(), tmp_path / "other.npz"
    header, arrays, refused = read_header(path), read_table(path).arrays, 0
    for position in np.random.default_rng(0).integers(len(content), size=150):
        flipped = bytearray(content)
        flipped[position] ^= 1 << int(position % 8)
        other.write_bytes(flipped)
        try:
            assert read_header(other) == header
            table = read_table(other)
            assert table.header == header
            for name, array in arrays.items():
                np.testing.assert_array_equal(table.arrays[name], array)
        except DataError:
            refused += 1
    assert 50 < refused < 150


def test_a_recorded_problem_needs_no_torch(path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from fmnas.trainers.recorded import recorded_problem; "
        f"recorded_problem(Path({str(path)!r})).load(); assert not {{'torch', 'ray', 'mlflow'}} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
