"""Sanity checks per optimizer: how its trials were chosen, what failed, what was repeated, what it cost.

They find optimizers whose name promises more than they did, such as a model-based one whose suggestions were random.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pandas as pd

from fmnas.comparison.analysis.trials import EXTRAPOLATED
from fmnas.search_spaces.records import FAILED_FIT, INITIAL, MODEL, MUTATION, ORIGINS, PROMOTION, RANDOM, WARM_START

MOSTLY_RANDOM, MANY_DUPLICATES = 0.5, 0.05
"""A warning is given above these shares: of random choices, of duplicates."""
MANY_FAILURES, MANY_REPEATED = 0.05, 0.25
"""A caution next to the result is given above these shares of failures and of duplicates."""
LOST_TRIALS_NOTE = (
    "A lost trial's configuration probably killed every worker that ran it (workers.attempts of them). Its optimizer "
    "is not notified, and may suggest it again."
)


@dataclass(frozen=True)
class SanityChecks:
    """The checks of one optimizer over all its runs.

    trials: that ended or were cancelled. shares: by origin. model_share: the model's share.
    method_share: the share of its model or its mutations; NaN for an optimizer that is random by design.
    method_unused: it has a model, or mutates, and all of its new configurations were drawn at random.
    charged: trials that cost budget. unfinished: charged trials that failed or timed out.
    fallbacks: suggestions drawn at random in place of the model or a mutation; failed_fits: those after a failed fit.
    extrapolated: the share of its trials that a surrogate predicted far from all that it was fitted to.
    duplicates, isomorphic_duplicates: charged trials that repeat one of their run.
    suggest_seconds: mean per suggestion. suggest_share: suggestion / (suggestion + training) time; NaN for no time.
    warnings: sentences; empty when all is well.
    """

    optimizer: str
    trials: int
    shares: Mapping[str, float]
    model_share: float
    method_share: float
    method_unused: bool
    charged: int
    unfinished: int
    fallbacks: int
    failed_fits: int
    extrapolated: float
    duplicates: int
    isomorphic_duplicates: int
    suggest_seconds: float
    suggest_share: float
    warnings: tuple[str, ...]


def check_optimizers(
    trials: pd.DataFrame, ledger: pd.DataFrame, by_design: Mapping[str, str] = MappingProxyType({})
) -> list[SanityChecks]:
    """The checks of every optimizer, by name.

    by_design: how an optimizer chooses new configurations, RANDOM, MUTATION or MODEL, by its name; a model by default,
    as this gives the most warnings.
    """
    return [
        _check_optimizer(str(name), by_design.get(str(name), MODEL), trials[trials["optimizer"] == name], runs)
        for name, runs in ledger.groupby("optimizer", sort=True)
    ]


def unused_method_warnings(checks: Sequence[SanityChecks]) -> list[str]:
    """A sentence for each optimizer that never used its model or its mutations."""
    return [
        f"{row.optimizer} never used its own method: all of its new configurations were drawn at random."
        for row in checks
        if row.method_unused
    ]


def failure_warnings(checks: Sequence[SanityChecks]) -> list[str]:
    """A sentence for each optimizer with many failed trials, or many duplicates."""
    return [
        f"{row.optimizer}: {count} of its {row.charged} charged trials {what}."
        for row in checks
        for count, limit, what in (
            (row.unfinished, MANY_FAILURES, "failed or timed out"),
            (row.duplicates + row.isomorphic_duplicates, MANY_REPEATED, "repeat an earlier trial of their run"),
        )
        if count > limit * row.charged
    ]


def lost_trial_warnings(ledger: pd.DataFrame) -> list[str]:
    """A sentence for each optimizer with lost trials, and one on the likely cause."""
    counts = ledger.groupby("optimizer", sort=True)[["lost", "trials"]].sum()
    warnings = [
        f"{optimizer}: {lost} of its {total} trials {'was' if lost == 1 else 'were'} lost and not charged."
        for optimizer, lost, total in counts.itertuples()
        if lost
    ]
    return [*warnings, LOST_TRIALS_NOTE] if warnings else []


def _check_optimizer(optimizer: str, design: str, trials: pd.DataFrame, runs: pd.DataFrame) -> SanityChecks:
    count, asks = int(runs["trials"].sum()), int((runs["trials"] + runs["pending"]).sum())
    weights = runs["trials"] / count
    shares = {origin: float((runs[f"share_{origin}"] * weights).sum()) for origin in ORIGINS}
    suggesting, training = float(runs["suggest_seconds"].sum()), float(runs["train_seconds"].sum())
    charged = int((runs["finished"] + runs["failed"] + runs["timed_out"]).sum())
    origins = trials["origin"]
    chosen = origins[~origins.isin([INITIAL, PROMOTION, WARM_START])]  # the new configurations
    unused = len(chosen) > 0 and bool((chosen == RANDOM).all())
    checks = SanityChecks(
        optimizer=optimizer,
        trials=count,
        shares=shares,
        model_share=shares[MODEL],
        method_share=float("nan") if design == RANDOM else shares[MODEL] + shares[MUTATION],
        method_unused=design != RANDOM and unused,
        charged=charged,
        unfinished=charged - int(runs["finished"].sum()),
        fallbacks=int((trials["fallback"] != "").sum()),
        failed_fits=int((trials["fallback"] == FAILED_FIT).sum()),
        extrapolated=float(trials[EXTRAPOLATED].mean()),
        duplicates=int(runs["duplicates"].sum()),
        isomorphic_duplicates=int(runs["isomorphic_duplicates"].sum()),
        suggest_seconds=suggesting / asks,
        suggest_share=suggesting / (suggesting + training) if suggesting + training > 0 else float("nan"),
        warnings=(),
    )
    random = "" if design == RANDOM else _random_search_warning(chosen)
    repeated, failed = checks.duplicates + checks.isomorphic_duplicates, checks.failed_fits
    warnings = (
        random,
        f"its model could not be fitted in {failed} of {asks} suggestions" if failed else "",
        f"{repeated} of its {charged} charged trials ({repeated / charged:.0%}) repeat an earlier one of their run"
        if repeated > MANY_DUPLICATES * charged
        else "",
    )
    return replace(checks, warnings=tuple(filter(None, warnings)))


def _random_search_warning(chosen: "pd.Series[str]") -> str:
    """For an optimizer that drew most of its new configurations at random. chosen: the origins of these."""
    new, random = len(chosen), int((chosen == RANDOM).sum())
    if random <= MOSTLY_RANDOM * new:
        return ""
    part = "all" if random == new else "most"
    return f"{random} of its {new} new configurations were random: {part} of it was random search"
