"""Numbers, times and tables as the commands show them, and the estimate of the time left."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

if TYPE_CHECKING:
    from fmnas.platform.experiment.ledger import RunProgress

MAX_LISTED_TRIALS = 4
"""Running trials that a row of a table lists."""
EPOCHS, EVALUATIONS = "epochs", "evaluations"


def estimate_eta(work: Sequence[tuple[float, float]], seconds: float) -> float | None:
    """Return the seconds until concurrent runs are done; None while nothing is done.

    work: of each run (done, left), both in the same unit; seconds: how long the done part took. All runs together keep
    their pace, and no run ends sooner than at its own pace.
    """
    done, left = (sum(run[part] for run in work) for part in (0, 1))
    if done <= 0:
        return None
    return max(seconds / done * left, *(seconds / own * rest for own, rest in work if own > 0))


def budget_fields(runs: Collection["RunProgress"]) -> dict[str, Any]:
    """Return the epochs that all runs have spent together, their budget, and the spent share."""
    spent, budget = sum(run.budget.spent for run in runs), sum(run.budget.epochs for run in runs)
    return {"spent_epochs": spent, "budget_epochs": budget, "spent_share": round(spent / budget, 6)}


def budget_unit(full_epochs: int) -> str:
    """Return what budgets are shown in. full_epochs: of a trial at full fidelity; 1 for a problem without epochs."""
    return EPOCHS if full_epochs > 1 else EVALUATIONS


def format_duration(seconds: float | None) -> str:
    """Format seconds as e.g. 4:05 or 1:04:05; "-" if None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_epochs(epochs: float) -> str:
    """Format epochs, which are fractions after racing, e.g. 12 or 12.7."""
    return f"{round(epochs, 1):.1f}".removesuffix(".0")


def format_activity(trials: Sequence[tuple[int, int | None, int, float]]) -> str:
    """Format a run's running trials, e.g. "training 3 (epoch 7 of 25, 41 s), 4 (2 s)", the first few.

    trials: of each its id, the epochs done (None if unknown), its epochs, and for how many seconds it has been running.
    """
    texts = []
    for trial, epoch, epochs, seconds in trials[:MAX_LISTED_TRIALS]:
        done = "" if epoch is None else f"epoch {epoch} of {epochs}, "
        texts.append(f"{trial} ({done}{seconds:.0f} s)")
    return f"training {', '.join(texts)}" + f" and {len(trials) - len(texts)} more" * (len(trials) > len(texts))


def format_value(value: float | None) -> str:
    """Format an objective or error with four significant digits, as in the final table; "-" if None."""
    return "-" if value is None else f"{value:#.4g}".rstrip(".")


def plain_table(header: Sequence[str], rows: Iterable[Sequence[str]], text_columns: Collection[str]) -> Table:
    """Return a table without lines. text_columns: aligned left; numbers are aligned right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in header:
        table.add_column(name, justify="left" if name in text_columns else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
