"""Whether each optimizer did what its name says: who chose its trials, what failed, what repeated, what it cost.

What went wrong inside an optimizer is in the notes of its trials. NOTES is the one place that knows what they mean; a
note that no line of it fits is counted as unknown and reported, never guessed at.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from fmnas.comparison.ledger import SHARES
from fmnas.comparison.trials import HOW
from fmnas.search_spaces.records import INITIAL, MODEL, ORIGINS, PROMOTION, RANDOM

FAILED_FIT, FALLBACK, UNKNOWN = "failed fit", "fallback", "unknown"
NOTES = (
    (r"fit failed", FAILED_FIT),
    (r"the model failed and chance chose", FAILED_FIT),
    (r"fewer than two results to model", FALLBACK),
    (r"all results are equal", FALLBACK),
    (r"every candidate was tried before", FALLBACK),
    (r"none of .* feasible and chance chose", FALLBACK),
)
"""How a note begins, and what it tells: that a model could not be fitted, or that chance chose for another reason."""

CHANCE_BY_DESIGN = ("random", "random-search", "hyperband")
"""Optimizers whose new configurations are all drawn at random; for any other that would be a disguise."""
MOSTLY, MANY_DUPLICATES, DEAR = 0.5, 0.05, 0.1
"""From which share on a warning is given: of chance, of duplicates, of suggestions in the time."""


@dataclass(frozen=True)
class Honesty:
    """One optimizer over all its runs.

    trials: that ended or were cut off. shares: of them, by origin. model_share: of a model's.
    fallbacks: asks in which chance chose in place of a model or a mutation, failed fits among them.
    duplicates, isomorphic_duplicates: charged trials that repeat one of their run.
    suggest_seconds: mean per ask. suggest_share: suggestion / (suggestion + training); NaN where nothing took time.
    idle_seconds: of workers, while it thought. warnings: in words; none where all is well.
    """

    optimizer: str
    trials: int
    shares: Mapping[str, float]
    model_share: float
    fallbacks: int
    failed_fits: int
    duplicates: int
    isomorphic_duplicates: int
    suggest_seconds: float
    suggest_share: float
    idle_seconds: float
    warnings: tuple[str, ...]


def kind_of_note(note: str) -> str:
    """FAILED_FIT, FALLBACK or UNKNOWN."""
    return next((kind for pattern, kind in NOTES if re.match(pattern, note)), UNKNOWN)


def honesty(trials: pd.DataFrame, ledger: pd.DataFrame) -> list[Honesty]:
    """A record per optimizer, by name."""
    return [
        _record(str(name), trials[trials["optimizer"] == name], runs)
        for name, runs in ledger.groupby("optimizer", sort=True)
    ]


def _record(optimizer: str, trials: pd.DataFrame, runs: pd.DataFrame) -> Honesty:
    count, asks = int(runs["trials"].sum()), int((runs["trials"] + runs["pending"]).sum())
    weights = runs["trials"] / count
    shares = {origin: float((runs[of] * weights).sum()) for origin, of in zip(ORIGINS, SHARES, strict=True)}
    kinds = trials["note"][trials["note"] != ""].map(kind_of_note)
    failed_fits, fallbacks = int((kinds == FAILED_FIT).sum()), int(kinds.isin([FAILED_FIT, FALLBACK]).sum())
    thought, trained = float(runs["suggest_seconds"].sum()), float(runs["train_seconds"].sum())
    repeated = int(runs["duplicates"].sum()), int(runs["isomorphic_duplicates"].sum())
    charged = int((runs["finished"] + runs["failed"] + runs["timed_out"]).sum())
    share = thought / (thought + trained) if thought + trained > 0 else float("nan")
    warnings = [
        *_disguise(optimizer, trials["origin"]),
        *_failures(trials["note"], failed_fits, asks),
        *_repeats(sum(repeated), charged),
        *_mixed(trials[list(HOW)]),
        *([f"suggestions took {share:.0%} of its training and suggestion time"] if share > DEAR else []),
    ]
    idle = float(runs["idle_seconds"].sum())
    return Honesty(
        optimizer,
        count,
        shares,
        shares[MODEL],
        fallbacks,
        failed_fits,
        *repeated,
        thought / asks,
        share,
        idle,
        tuple(warnings),
    )


def _disguise(optimizer: str, origins: "pd.Series[str]") -> list[str]:
    """Where most of what an optimizer chose anew was chance. A promotion chooses nothing new."""
    chosen = origins[~origins.isin([INITIAL, PROMOTION])]
    by_chance = int((chosen == RANDOM).sum())
    if optimizer in CHANCE_BY_DESIGN or not len(chosen) or by_chance <= MOSTLY * len(chosen):
        return []
    start = "after the initial design " if (origins == INITIAL).any() else ""
    return [
        f"{start}chance chose {by_chance} of its {len(chosen)} new configurations: "
        f"{'all' if by_chance == len(chosen) else 'most'} of it was random search"
    ]


def _failures(notes: "pd.Series[str]", failed_fits: int, asks: int) -> list[str]:
    found = [f"its model could not be fitted in {failed_fits} of {asks} asks"] if failed_fits else []
    unknown = [note for note in notes[notes != ""] if kind_of_note(note) == UNKNOWN]
    if unknown:
        found.append(f"{len(unknown)} of its notes are of a kind that is not counted here, such as: {unknown[0]}")
    return found


def _repeats(repeated: int, charged: int) -> list[str]:
    if not charged or repeated <= MANY_DUPLICATES * charged:
        return []
    return [f"{repeated} of its {charged} charged trials ({repeated / charged:.0%}) repeat an earlier one of their run"]


def _mixed(how: pd.DataFrame) -> list[str]:
    """Where its trials were trained in more than one way: then what differs between them is not the trial alone."""
    ways = Counter(way for way in zip(*(how[name] for name in HOW), strict=True) if any(way))
    if len(ways) < 2:
        return []
    most_first = sorted(ways.items(), key=lambda way: (-way[1], way[0]))
    told = ", ".join(f"{count} {arrangement} on {device}" for (device, arrangement), count in most_first)
    return [f"its trials were trained in {len(ways)} ways, whose results differ by rounding: {told}"]
