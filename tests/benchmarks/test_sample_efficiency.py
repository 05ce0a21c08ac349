"""The measurement of BO-FM's results: seeds, what is stored, how a run is resumed, what the tables show."""

import argparse
import json
from pathlib import Path

import numpy as np
import pytest
import sample_efficiency
import seeds
from results import Results, Row, markdown

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "bo-fm-measurements.md").read_text().splitlines()
PUBLISHED = sorted((Path(__file__).resolve().parents[2] / "benchmarks" / "results").glob("*.json"))


def parse(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    seeds.add_arguments(parser, 20)
    return parser.parse_args(list(arguments))


def measure(path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Results:
    """Results of random search on Func2C."""
    command = ["sample_efficiency.py", "--json", str(path), "--methods", "random", "--problems", "func2c", *arguments]
    monkeypatch.setattr("sys.argv", command)
    sample_efficiency.main()
    return Results.load(path)


def test_seeds_are_consecutive_or_fresh_or_of_a_file(tmp_path: Path) -> None:
    assert seeds.choose_seeds(parse()).values == tuple(range(20))
    assert seeds.choose_seeds(parse("--first-seed", "60", "--seeds", "2")).values == (60, 61)
    fresh, other = (seeds.choose_seeds(parse("--fresh", "--seeds", "3")) for _ in range(2))
    assert len({*fresh.values, *other.values}) == 6
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"seeds": fresh.to_dict()}))
    assert seeds.choose_seeds(parse("--seeds-from", str(path))) == fresh
    with pytest.raises(SystemExit, match=str(path)):
        seeds.choose_seeds(parse("--seeds-from", str(path), "--seeds", "4"))


@pytest.mark.parametrize("arguments", [("--fresh", "--first-seed", "3"), ("--first-seed", str(2**32))])
def test_invalid_seeds_are_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        parse(*arguments)


def test_a_row_has_the_standard_error_of_the_mean() -> None:
    row = Row("ackley5c", "modlap", 100, 0.0, [0, 1, 2], [0.0, 0.05, 0.4])
    assert row.mean == pytest.approx(0.15)
    assert row.standard_error == pytest.approx(np.std([0.0, 0.05, 0.4], ddof=1) / np.sqrt(3))
    assert row.at_optimum == 2
    assert Row("ackley5c", "modlap", 100, 0.0, [0], [0.3]).standard_error is None


def test_an_interrupted_measurement_resumes_with_its_own_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    full = measure(path, monkeypatch, "--fresh", "--seeds", "3")
    stored = json.loads(path.read_text())
    stored["rows"][0] |= {"seeds": [-1, -2], "values": [5.0, 6.0]}  # no run has these
    path.write_text(json.dumps(stored))
    resumed = measure(path, monkeypatch, "--fresh")
    assert resumed.seeds == full.seeds
    assert resumed.rows[0].seeds == [-1, -2, full.seeds.values[2]]
    assert resumed.rows[0].values == [5.0, 6.0, full.rows[0].values[2]]


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.name)
def test_published_results_are_those_of_the_page(path: Path) -> None:
    results = Results.load(path)
    assert "+changes" not in "".join(results.commits)
    for row in results.rows:
        assert row.seeds == list(results.seeds.values[: len(row.values)])
    missing = [line for line in markdown(results).splitlines() if line and line not in DOCUMENT]
    assert not missing, f"add to docs/bo-fm-measurements.md what --table {path} prints"
