"""Record the table of the problem xgb_table: trainings of random configurations by xgboost, on one thread.

    OMP_NUM_THREADS=1 python benchmarks/record_xgb_table.py --out trainers/tables    # six minutes
    OMP_NUM_THREADS=1 python benchmarks/record_xgb_table.py --quick                  # 20 configurations, not written

It writes xgb_table.csv.gz and, next to it, xgb_table.json with the command, the versions and the date. Each error is
that of a stratified 3-fold cross-validation on scikit-learn's breast_cancer.
"""

import argparse
import csv
import gzip
import io
import json
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import StratifiedKFold

from fmnas.search_spaces import Configuration
from fmnas.trainers.tables.boosting_table import ERROR, FILE, SPACE

FOLDS = 3
DIGITS = 6
"""Of a continuous value, which is trained as it is written."""
QUICK = 20
TREES_ONLY = ("max_depth", "min_child_weight", "colsample_bylevel", "colsample_bytree", "subsample")
Fold = tuple[xgboost.DMatrix, xgboost.DMatrix]
"""Training rows and test rows."""


def make_folds() -> list[Fold]:
    """Return the folds of the data."""
    features, labels = load_breast_cancer(return_X_y=True)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(features, labels)

    def matrix(rows: np.ndarray) -> xgboost.DMatrix:
        return xgboost.DMatrix(features[rows], labels[rows], nthread=1)

    return [(matrix(train), matrix(test)) for train, test in folds]


def draw(rng: np.random.Generator) -> Configuration:
    """Return a random configuration with values of few digits."""
    configuration = SPACE.sample(rng)
    for variable in SPACE.continuous:
        value = float(f"{configuration[variable.name]:.{DIGITS}g}")
        configuration[variable.name] = min(max(value, variable.low), variable.high)
    return configuration


def cross_validate(configuration: Mapping[str, Any], folds: Sequence[Fold]) -> float:
    """Return the share of rows that are classified wrongly by the training without them."""
    parameters = dict(configuration)
    rounds = parameters.pop("nrounds")
    if configuration["booster"] == "gblinear":
        kept = {name: value for name, value in parameters.items() if name not in TREES_ONLY}
        parameters = {**kept, "updater": "coord_descent"}  # the default one depends on the threads' timing
    else:
        parameters["tree_method"] = "hist"
    parameters |= {"objective": "binary:logistic", "seed": 0, "nthread": 1, "verbosity": 0}
    wrong = count = 0
    for train, test in folds:
        predicted = xgboost.train(parameters, train, rounds).predict(test) > 0.5
        wrong += int((predicted != test.get_label()).sum())
        count += test.num_row()
    return wrong / count


def write_table(folder: Path, rows: Sequence[tuple[Configuration, float]], about: Mapping[str, Any]) -> None:
    """Write the two files."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*SPACE.names, ERROR])
    writer.writerows([*configuration.values(), error] for configuration, error in rows)
    (folder / FILE.name).write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    name = FILE.name.partition(".")[0]
    (folder / f"{name}.json").write_text(json.dumps(about, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} configurations")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="where to write; without it, only the summary is printed"
    )
    arguments = parser.parse_args()
    folds, rng, rows = make_folds(), np.random.default_rng(arguments.seed), []
    start = time.process_time()
    for number in range(1, (QUICK if arguments.quick else arguments.rows) + 1):
        configuration = draw(rng)
        rows.append((configuration, cross_validate(configuration, folds)))
        if number % 100 == 0:
            print(f"{number} configurations, {time.process_time() - start:.0f} CPU-seconds", flush=True)
    print("least, quartiles, largest:", np.quantile([error for _, error in rows], [0, 0.25, 0.5, 0.75, 1]).round(4))
    if arguments.out:
        about = {
            "command": " ".join(["OMP_NUM_THREADS=1 python", *sys.argv]),
            "date": datetime.now(UTC).date().isoformat(),
            "data": f"scikit-learn's breast_cancer, stratified {FOLDS}-fold cross-validation",
            "rows": len(rows),
            "cpu_seconds": round(time.process_time() - start),
            "versions": {
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scikit-learn": sklearn.__version__,
                "xgboost": xgboost.__version__,
            },
        }
        write_table(arguments.out, rows, about)


if __name__ == "__main__":
    main()
