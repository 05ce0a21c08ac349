"""What a surrogate expects is the average of what it draws; a kernel surrogate goes through what it was fitted to."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed: pip install scikit-learn")
from expected_objective import expected_objective, lines_of_optimizers, lines_of_table, lines_of_two
from second_surrogate import RIDGE, WIDTH, KernelRidge

from fmnas.search_spaces import Trial, joint_space
from fmnas.trainers.surrogate.model import read_surrogate
from fmnas.trainers.surrogate.problem import FILE


@pytest.mark.parametrize("number", range(5))
def test_the_expected_objective_is_the_mean_of_draws(number: int) -> None:
    surrogate = read_surrogate(FILE)
    trial = Trial(0, joint_space().sample(np.random.default_rng(number)), 3, "random")
    drawn = np.array([surrogate.draw(replace(trial, seed=seed)).objective for seed in range(300)])
    error = drawn.std(ddof=1) / np.sqrt(len(drawn))
    assert expected_objective(surrogate, trial) == pytest.approx(drawn.mean(), abs=4 * error + 1e-3)


def test_kernel_ridge_regression_is_its_formula() -> None:
    """mean + k (K + RIDGE I)^-1 (y - mean), with K on standardised logarithms."""
    rng = np.random.default_rng(0)
    X, y, new = rng.random((30, 4)).astype(np.float32), rng.random(30), rng.random(4).astype(np.float32)
    logs = np.log1p(X.astype(float) / (np.median(X, axis=0) + 1e-9))
    z = np.log1p(new.astype(float) / (np.median(X, axis=0) + 1e-9))
    Z, z = (logs - logs.mean(0)) / logs.std(0), (z - logs.mean(0)) / logs.std(0)
    K = np.exp(-WIDTH * np.abs(Z[:, None] - Z).sum(2))
    k = np.exp(-WIDTH * np.abs(Z - z).sum(1))
    expected = y.mean() + k @ np.linalg.inv(K + RIDGE * np.eye(30)) @ (y - y.mean())
    assert KernelRidge(X, y).predict(new) == pytest.approx(expected, rel=1e-6)


def test_differences_are_paired_by_repeat() -> None:
    values = {"bo-fm": {0: 0.1, 1: 0.2, 2: 0.3}, "random": {0: 0.2, 1: 0.2, 2: 0.2}}
    rows = list(lines_of_optimizers(values, "bo-fm"))[2:]
    assert [row.split("|")[1].strip() for row in rows] == ["bo-fm", "random"]
    assert "1, 1, 1" in rows[1]
    (row,) = list(lines_of_two({"a": values["random"]}, {"a": values["bo-fm"]}))[2:]
    assert "1, 1, 1" in row
    assert "0.2000 ± 0.0000 | 0.2000 ± 0.0577" in row


def test_directories_are_one_table_where_no_optimizer_is_in_two() -> None:
    one, other, third = ({name: {0: 0.1, 1: 0.2 + i}} for i, name in enumerate(("bo-fm", "random", "tpe")))
    for values in ([one], [one, other], [one, other, third]):
        together = {name: value for of_folder in values for name, value in of_folder.items()}
        assert list(lines_of_table(values, "bo-fm")) == list(lines_of_optimizers(together, "bo-fm"))
    assert list(lines_of_table([one, one], "bo-fm")) == list(lines_of_two(one, one))
    with pytest.raises(SystemExit, match="bo-fm"):
        lines_of_table([one, other, one], "bo-fm")
