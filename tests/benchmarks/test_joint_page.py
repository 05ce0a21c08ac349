"""docs/joint.md and the README say what the recorded trainings have."""

import re
from collections import defaultdict
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
from fidelity import describe_agreement, measure_spread, pair_errors

from fmnas.trainers.recorded_table import read_table

ROOT = Path(__file__).resolve().parent.parent.parent
RECORDED = ROOT / "benchmarks" / "results" / "recorded"
PAGE = (ROOT / "docs" / "joint.md").read_text()
REPORT = (ROOT / "docs" / "joint-comparison.html").read_text()
README = " ".join((ROOT / "README.md").read_text().split())
UNIFORM, WHOLE, FITTED = (
    RECORDED / f"{name}.npz" for name in ("uniform_800_images_3_epochs", "joint_comparison_60", "joint_comparison")
)
ON_GPU, LONGER = (
    RECORDED / f"{name}.npz" for name in ("uniform_800_images_3_epochs_h200", "uniform_2000_images_6_epochs")
)
EPOCHS, FULL = 180, 3


@pytest.fixture(scope="module")
def ends() -> dict[str, list[float]]:
    """The best objective of each run after EPOCHS, by optimizer."""
    table = read_table(WHOLE)
    columns = (table.arrays[name].tolist() for name in ("run", "trial", "epochs", "objective"))
    spent: dict[str, int] = defaultdict(int)
    best: dict[str, float] = defaultdict(lambda: np.inf)
    for run, _, epochs, objective in sorted(zip(*columns, strict=True)):
        spent[run] += epochs
        if spent[run] <= EPOCHS and epochs == FULL:
            best[run] = min(best[run], objective)
    values = defaultdict(list)
    for run, objective in best.items():
        values[run.split("/")[0]].append(objective)
    return values


def test_the_page_has_the_means(ends: dict[str, list[float]]) -> None:
    for name, objectives in ends.items():
        assert len(objectives) == 9
        mean, error = np.mean(objectives), np.std(objectives, ddof=1) / 3
        assert f"| {name} | {mean:.4f} ± {error:.4f} | {min(objectives):.4f} |" in PAGE
        row = (name, f"{mean:.4f}", f"{error:.4f}", "9", f"{min(objectives):.4f}")
        assert f"<tr><td>{'</td><td>'.join(row)}</td>" in REPORT


def test_the_page_has_the_test_errors_of_the_retrained_incumbents() -> None:
    with ZipFile(RECORDED / "joint_comparison.zip") as archive, archive.open("retrained.csv") as file:
        errors = pd.read_csv(file).groupby("optimizer")["test_error"]
    for name, values in errors:
        assert len(values) == 9
        shown = f"{values.mean():.4f} ± {values.std(ddof=1) / 3:.4f}"
        assert re.search(rf"^\| {name} \|.* {shown} \|$", PAGE, flags=re.MULTILINE)
        assert re.search(rf"<tr><td>{name}</td>.*<td>{shown}</td>", REPORT)


def test_the_readme_has_the_means(ends: dict[str, list[float]]) -> None:
    (text,) = re.findall(r"its mean objective is (.*?); no test shows", README)
    names = {
        "bo-fm": "",
        "regularized-evolution": "regularized evolution's ",
        "random": "random search's ",
        "bohb": "BOHB's ",
    }
    assert text == ", ".join(f"{names[name]}{np.mean(ends[name]):.3f}" for name in names)


def test_the_page_counts_what_was_recorded() -> None:
    tables = [read_table(path) for path in (UNIFORM, WHOLE)]
    epochs = np.concatenate([table.arrays["epochs"] for table in tables])
    hours = sum(float(table.arrays["seconds"].sum()) for table in tables) / 3600
    text = " ".join(PAGE.split())
    assert f"{len(epochs):,} evaluations of the joint problem, four trainings each" in text
    assert f"{(epochs == 1).sum()} of 1 epoch and {(epochs == FULL).sum():,} of 3" in text
    assert f"{hours:.1f} core-hours" in text


def test_what_the_surrogate_was_fitted_to_is_a_part_of_the_comparison() -> None:
    """Of each run, its first trials."""
    fitted, whole = (
        {
            (result.run, result.trial.id): (result.trial, result.evaluation)
            for result in map(table.result, range(len(table)))
        }
        for table in map(read_table, (FITTED, WHOLE))
    )
    assert fitted == {key: whole[key] for key in fitted}


def agreement_of(one: Path, other: Path) -> list[str]:
    """The numbers of `describe_agreement`."""
    return re.findall(r"[-+]?\d[\d.]*", describe_agreement(*pair_errors(read_table(one), read_table(other))))


def test_the_page_has_the_agreement_with_longer_trainings() -> None:
    count, tau, low, high, one, other, across, lower, least, most, *_ = agreement_of(ON_GPU, LONGER)
    page = " ".join(PAGE.split())
    assert f"The first {count} of these configurations" in page
    assert f"is {tau} (95% interval {low} to {high})" in page
    assert f"across the fidelities by {across}, with the other half at the same fidelity by {one} and {other}" in page
    assert f": {lower} less ({least} to {most})" in page
    errors = read_table(LONGER).arrays["errors"]
    spreads = [measure_spread(errors, share).noise for share in (1.0, 0.1)]
    assert "standard error of a mean is {:.4f}, in the best tenth {:.4f}".format(*spreads) in page


def test_the_page_has_the_agreement_of_the_devices() -> None:
    count, _, _, _, one, other, across, _, _, _, offset, low, high = agreement_of(UNIFORM, ON_GPU)
    page = " ".join(PAGE.split())
    assert f"The first {count} configurations were trained in both ways" in page
    assert f"the GPU's mean error differs by {offset} ({low} to {high})" in page
    assert f"agree across the devices by {across}, within each by {one} and {other}" in page


def test_the_page_has_the_ranks_of_every_optimizer() -> None:
    results = pd.read_csv(RECORDED / "every_optimizer.csv").set_index("optimizer")
    repeats = results[[f"repeat_{repeat}" for repeat in range(20)]]
    ranks = repeats.rank(axis=0).mean(axis=1)
    assert len(ranks) == 19
    rows = re.findall(r"^\| ([\w-]+) \| [\d.]+ \| ([\d.]+) \([\d.]+ to [\d.]+\) \| (.*?) \|", PAGE, flags=re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted(ranks.index)
    for name, rank, objective in rows:
        assert float(rank) == pytest.approx(ranks[name], abs=0.0501)
        values = repeats.loc[name]
        assert objective == f"{values.mean():.4f} ± {values.std(ddof=1) / 20**0.5:.4f}"
