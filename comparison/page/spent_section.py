"""What was spent, on what, and how honest each optimizer was."""

from collections.abc import Mapping
from typing import Any

from fmnas.comparison.numbers.notation import MISSING, count, counts, seconds, share
from fmnas.comparison.page.html_parts import Pictures, Section, filled, hint, joined, table, warnings
from fmnas.comparison.summary import Summary
from fmnas.search_spaces.records import ORIGINS

LEDGER_HEADER = (
    "run",
    "trials",
    "not finished",
    "diverged",
    "duplicates",
    "known cells",
    "full trainings",
    "epochs",
    "training",
    "suggestion",
    "wall-clock",
    "idle",
    "lost",
    "pending",
    "origins",
)
ALWAYS = (
    "run",
    "trials",
    "not finished",
    "diverged",
    "duplicates",
    "full trainings",
    "epochs",
    "training",
    "suggestion",
)
"""These columns stand there even when they are empty."""
_NOT_FINISHED = ("failed", "timed_out", "lost", "cancelled")


def ledger_section(summary: Summary, _: Pictures) -> Section | None:
    """A row per run."""
    runs = summary["ledger"]
    if not runs:
        return None
    rows = [_ledger_row(run) for run in runs]
    kept = [i for i, name in enumerate(LEDGER_HEADER) if name in ALWAYS or any(row[i] != MISSING for row in rows)]
    told = "Failed and timed-out trials are charged for their epochs; lost and cancelled ones are not."
    if any(run["duplicates"] for run in runs):
        told += " A duplicate repeats an earlier configuration of its run at the same epochs."
    if any(run["known_cells"] + run["isomorphic_cells"] for run in runs):
        told += " A known cell was trained before at the same epochs, whatever its schedule;"
        told += " isomorphic is the same network in another encoding."
    if any(run.get("idle_seconds") for run in runs):
        told += " Idle: worker time that waited for the optimizer's suggestions."
    if any(run.get("lost_seconds") for run in runs):
        told += (
            " Lost: worker time of attempts that were lost or cancelled, the platform's cost and not the optimizer's."
        )
    shown = table([LEDGER_HEADER[i] for i in kept], [[row[i] for i in kept] for row in rows], "wide")
    return Section("spent", "What was spent", joined(shown, hint(told)))


def _ledger_row(run: Mapping[str, Any]) -> tuple[str, ...]:
    """A row under LEDGER_HEADER."""
    return (
        run["run"],
        str(run["trials"]),
        counts({status.replace("_", " "): run[status] for status in _NOT_FINISHED}),
        str(run["diverged"]),
        counts({"exact": run["duplicates"], "isomorphic": run["isomorphic_duplicates"]}),
        counts({"exact": run["known_cells"], "isomorphic": run["isomorphic_cells"]}),
        str(run["full_evaluations"]),
        str(run["epochs"]),
        seconds(run["train_seconds"]),
        seconds(run["suggest_seconds"]),
        seconds(run.get("wall_seconds")),
        seconds(run.get("idle_seconds")),
        seconds(run.get("lost_seconds") or None),
        count(run.get("pending") or None),
        ", ".join(f"{o} {run[f'share_{o}']:.0%}" for o in ORIGINS if run[f"share_{o}"]),
    )


def honesty_section(summary: Summary, _: Pictures) -> Section | None:
    """Whether each optimizer did what its name says, with the warnings first."""
    rows = summary.get("honesty")
    if not rows:
        return None
    header = (
        "optimizer",
        "trials",
        "model-based",
        "fallbacks",
        "failed fits",
        "duplicates",
        "isomorphic",
        "per suggestion",
        "share of time",
        "idle",
        "origins",
    )
    told = (
        "Fallbacks: suggestions in which a model was to choose and chance did. Share of time: suggestion / "
        "(suggestion + training). Idle: worker time that waited for suggestions."
    )
    texts = [f"{row['optimizer']}: {text}" for row in rows for text in row["warnings"]]
    body = joined(warnings(texts), filled(header, [_honesty_row(row) for row in rows], "wide"), hint(told))
    return Section("honesty", "Was it what its name says?", body)


def _honesty_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["optimizer"],
        str(row["trials"]),
        share(row["model_share"] if row.get("has_model", True) else None),
        count(row["fallbacks"]),
        count(row["failed_fits"]),
        count(row["duplicates"]),
        count(row["isomorphic_duplicates"] or None),
        seconds(row["suggest_seconds"]),
        share(row["suggest_share"]),
        seconds(row["idle_seconds"]),
        ", ".join(f"{origin} {share(part)}" for origin, part in row["shares"].items() if part),
    )


def incidents_section(summary: Summary, _: Pictures) -> Section | None:
    """What went wrong or was noted, how often."""
    if not summary["incidents"]:
        return None
    rows = [(i["optimizer"], i["what"].replace("_", " "), str(i["trials"]), i["text"]) for i in summary["incidents"]]
    return Section("incidents", "Failures and notes", table(("optimizer", "what", "trials", "in words"), rows, "text"))
