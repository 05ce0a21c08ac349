import json

import numpy as np
import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, ReportError, write_report
from fmnas.comparison.retrained import read_retrained, retrained_summary


def row(optimizer, repeat, errors, **given):
    return {
        "run": f"{optimizer}/repeat-{repeat}",
        "optimizer": optimizer,
        "repeat": repeat,
        "trial": 7,
        "selected_objective": 0.07,
        "selected_error": 0.06,
        "test_error": float(np.mean(errors)),
        **{f"test_error_seed_{i}": error for i, error in enumerate(errors, start=1)},
        "epochs": 50,
        "images": 60_000,
        "test_images": 10_000,
        "train_seconds": 12.5,
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:00:13+00:00",
        "worker": "w0",
        **given,
    }


def write(folder, rows):
    pd.DataFrame(rows).to_csv(folder / "retrained.csv", index=False)
    return folder / "retrained.csv"


def test_by_hand(tmp_path):
    rows = [row("b", 0, [0.1, 0.3]), row("a", 0, [0.1, 0.1]), row("a", 1, [0.05, 0.1], selected_error=0.04)]
    found = retrained_summary(read_retrained(write(tmp_path, rows)))
    assert [found[name] for name in ("epochs", "images", "seeds", "test_images")] == [50, 60_000, 2, 10_000]
    first = found["rows"][0]
    assert (first["run"], first["trial"], first["errors"], first["seconds"]) == ("b/repeat-0", 7, [0.1, 0.3], 12.5)
    assert first["error"] == pytest.approx(0.2)
    assert first["standard_error"] == pytest.approx(0.1)
    a, b = found["means"]
    assert (a["optimizer"], b["optimizer"]) == ("a", "b")
    assert (a["error"], a["selected_error"]) == pytest.approx((0.0875, 0.05))
    assert a["standard_error"] == pytest.approx(0.0125)
    assert np.isnan(b["standard_error"])


def test_settings_that_differ_are_not_one(tmp_path):
    found = retrained_summary(read_retrained(write(tmp_path, [row("a", 0, [0.1]), row("a", 1, [0.1], epochs=25)])))
    assert (found["epochs"], found["images"]) == (None, 60_000)


def test_in_the_summary(make_table, tmp_path):
    trials = make_table({("a", 0): [1.0]})
    table = read_retrained(write(tmp_path, [row("a", 0, [0.1])]))
    context = ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=table)
    summary = write_report(trials, context, tmp_path / "report")
    json.dumps(summary, allow_nan=False)
    assert summary["retrained"]["means"] == [
        {"optimizer": "a", "selected_error": 0.06, "error": 0.1, "standard_error": None}
    ]
    without = write_report(trials, ReportContext("n", "joint", Budget(1, 25), {}, ""), tmp_path / "report")
    assert without["retrained"] is None


def test_none():
    assert retrained_summary(None) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="test_error"), "column 'test_error' is missing"),
        (lambda t: t.assign(images="many"), "column 'images' does not parse"),
        (lambda t: t.assign(test_error_seed_1="x"), "column 'test_error_seed_1' does not parse"),
    ],
)
def test_errors_name_file_and_column(tmp_path, change, message):
    path = write(tmp_path, change(pd.DataFrame([row("a", 0, [0.1])])))
    with pytest.raises(ReportError, match=rf"retrained\.csv: {message}"):
        read_retrained(path)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "retrained.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match="cannot read"):
        read_retrained(tmp_path / "retrained.csv")
    (tmp_path / "retrained.csv").write_bytes(b"")
    with pytest.raises(ReportError, match="cannot read"):
        read_retrained(tmp_path / "retrained.csv")
