"""The measurement of BO-FM's results: what is kept, what goes on, what the table says."""

import json
from pathlib import Path

import numpy as np
import pytest
import sample_efficiency
from results import Results, Row, line, markdown
from seeds import Seeds

from fmnas.baselines import RandomSearch

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "bo-fm.md").read_text().splitlines()
PUBLISHED = sorted((Path(__file__).resolve().parents[2] / "benchmarks" / "results").glob("*.json"))


def measure(path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Results:
    """Results of random search on Func2C; a word may overrule what is said of it here."""
    command = ["sample_efficiency.py", "--json", str(path), "--methods", "random", "--problems", "func2c", *words]
    monkeypatch.setattr("sys.argv", command)
    sample_efficiency.main()
    return Results.read(path)


def test_a_row_has_the_standard_error_of_the_mean() -> None:
    row = Row("ackley5c", "modlap", 100, 0.0, [0, 1, 2], [0.0, 0.05, 0.4])
    assert row.mean == pytest.approx(0.15)
    assert row.standard_error == pytest.approx(np.std([0.0, 0.05, 0.4], ddof=1) / np.sqrt(3))
    assert row.at_optimum == 2
    assert Row("ackley5c", "modlap", 100, 0.0, [0], [0.3]).standard_error is None


def test_a_measurement_that_was_cut_off_goes_on_with_its_own_fresh_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    whole = measure(path, monkeypatch, "--fresh", "--seeds", "3")
    cut = json.loads(path.read_text())
    for name in ("seeds", "values"):
        cut["rows"][0][name] = [-1, -2] if name == "seeds" else [5.0, 6.0]  # nothing would come to these
    path.write_text(json.dumps(cut))
    again = measure(path, monkeypatch, "--fresh")
    assert again.seeds == whole.seeds
    assert again.rows[0].seeds == [-1, -2, whole.seeds.values[2]]
    assert again.rows[0].values == [5.0, 6.0, whole.rows[0].values[2]]


def test_every_run_is_kept_as_soon_as_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, run = tmp_path / "results.json", sample_efficiency.run

    def interrupted(trainer: object, optimizer: object, seed: int, *budget: object) -> tuple[float, float]:
        if seed == 2:
            raise KeyboardInterrupt
        return run(trainer, optimizer, seed, *budget)  # type: ignore[arg-type]

    monkeypatch.setattr(sample_efficiency, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(path, monkeypatch, "--seeds", "4")
    assert Results.read(path).rows[0].seeds == [0, 1]


def test_the_same_seeds_give_the_same_values_and_others_are_rows_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    found = measure(first, monkeypatch, "--first-seed", "60", "--seeds", "2")
    assert measure(second, monkeypatch, "--seeds-from", str(first)).rows == [
        Row("func2c", "random", 100, 0.0, list(found.seeds.values), found.rows[0].values, pytest.approx(0, abs=1))
    ]
    noisy = measure(first, monkeypatch, "--noise", "0.5")
    assert [row.noise for row in noisy.rows] == [0.0, 0.5]
    assert np.mean(noisy.rows[1].values) > np.mean(noisy.rows[0].values)  # what only looks best is not


def test_other_seeds_need_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    measure(path, monkeypatch, "--seeds", "2")
    for words in (["--first-seed", "60"], ["--seeds", "3"]):
        with pytest.raises(SystemExit, match=str(path)):
            measure(path, monkeypatch, *words)


def test_a_file_that_is_not_there_cannot_be_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = str(tmp_path / "missing.json")
    monkeypatch.setattr("sys.argv", ["sample_efficiency.py", "--resume", missing])
    with pytest.raises(SystemExit, match=missing):
        sample_efficiency.main()


@pytest.mark.parametrize("problem", [*sample_efficiency.DESIGNED_ON, *sample_efficiency.OTHERS])
def test_all_methods_begin_with_the_same_points(problem: str) -> None:
    space = sample_efficiency.problem_of(problem).space
    methods = ["modlap", "paper", "regularized-evolution", "random"]
    built = {method: sample_efficiency.build_optimizer(problem, space, method, 2**32 - 1) for method in methods}
    designs = [built[method].initial_design for method in methods]
    assert all(design == designs[0] for design in designs)
    assert isinstance(built["random"], RandomSearch)


def test_the_tables_have_errors_and_compare_seed_by_seed() -> None:
    rows = [
        Row("func2c", "modlap", 100, 0.0, [0, 1], [-0.20632, -0.20630]),
        Row("ackley53c", "random", 100, 0.0, [0, 1], [2.0, 2.5]),
        Row("ackley53c", "modlap", 100, 0.0, [0, 1, 2], [1.0, 3.0, 5.0]),
    ]
    solved, others = markdown(Results(Seeds((0, 1, 2), "0 to 2"), rows)).strip().split("\n\n")
    assert solved.splitlines()[2:] == [
        "| Func2C | ModLap | -0.20631 ± 0.00001 | 2 of 2 |  |",
    ]
    assert others.splitlines()[2:] == [
        "| Ackley53C | ModLap | 3.0 ± 1.2 | 3 |  |",
        "|  | random search | 2.25 ± 0.25 | 2 | 1, 1 of 2 |",
    ]
    assert "modlap" in line(rows[0])


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_results_can_be_read_and_gone_on_with(path: Path) -> None:
    results = Results.read(path)
    assert "+changes" not in "".join(results.commits)
    for row in results.rows:
        assert row.values
        assert row.seeds == list(results.seeds.values[: len(row.seeds)])
        assert len(row.values) == len(row.seeds)
    lines = markdown(results).splitlines()
    missing = [line for line in lines if line and line not in DOCUMENT]
    assert not missing, f"docs/bo-fm.md: put in what --table {path} prints"
