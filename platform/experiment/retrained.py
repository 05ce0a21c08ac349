"""retrained.csv: one row per run with the test error of its retrained incumbent, exported from the journal.

Its columns are those of `fmnas.comparison.analysis.retrained`.
"""

import pandas as pd

from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory, write_text
from fmnas.platform.experiment.trial_result import utc_timestamp


def retrained_table(ledger: Ledger) -> pd.DataFrame | None:
    """Return the table of the incumbents that were retrained with the latest settings; None if there are none."""
    retrained, settings = ledger.current_retrained(), ledger.retraining
    if settings is None or not retrained:
        return None
    rows = []
    for name, event in retrained.items():
        run = ledger.runs[name]
        best = run.best
        assert best is not None, "only incumbents are retrained"
        row = {
            "run": name,
            "optimizer": run.optimizer,
            "repeat": run.repeat,
            "trial": event.trial_id,
            "selected_objective": best.objective,
            "selected_error": best.error,
            "test_error": sum(event.errors) / len(event.errors),
            **{f"test_error_seed_{i}": error for i, error in enumerate(event.errors, start=1)},
            "epochs": settings.epochs,
            "images": settings.images,
            "test_images": event.test_images,
            "train_seconds": round(event.train_seconds, 6),
            "started_at": utc_timestamp(event.started_at),
            "finished_at": utc_timestamp(event.at),
            "worker": event.worker,
        }
        rows.append(row)
    return pd.DataFrame(rows)


def write_retrained(directory: RunDirectory, ledger: Ledger) -> None:
    """Write retrained.csv, unless no incumbent was retrained. Raises ExperimentFailed if the disk does not take it."""
    table = retrained_table(ledger)
    if table is not None:
        write_text(directory.retrained, table.to_csv(index=False))
