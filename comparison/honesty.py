"""Whether each optimizer did what its name says: who chose its trials, what failed, what repeated, what it cost.

What went wrong inside an optimizer, its trials say themselves, by their `fallback`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from fmnas.comparison.ledger import SHARES
from fmnas.comparison.trials import HOW
from fmnas.search_spaces.records import FAILED_FIT, INITIAL, MODEL, MUTATION, ORIGINS, PROMOTION, RANDOM

WITHOUT_MODEL = {"random": RANDOM, "random-search": RANDOM, "hyperband": RANDOM, "regularized-evolution": MUTATION}
"""The methods that have no model, and what their new configurations are by design. Of any other, "all at random" would
be a disguise: it is taken to have a model."""
MOSTLY, MANY_DUPLICATES, DEAR = 0.5, 0.05, 0.1
"""From which share on a warning is given: of chance, of duplicates, of suggestions in the time."""


@dataclass(frozen=True)
class Honesty:
    """One optimizer over all its runs.

    trials: that ended or were cut off. shares: of them, by origin. model_share: of a model's. has_model: whether its
    method has one. model_unused: it has one, and all of its new configurations were drawn at random.
    fallbacks: asks in which chance chose in place of a model or a mutation, failed fits among them.
    duplicates, isomorphic_duplicates: charged trials that repeat one of their run.
    suggest_seconds: mean per ask. suggest_share: suggestion / (suggestion + training); NaN where nothing took time.
    idle_seconds: of workers, while it thought. warnings: in words; none where all is well.
    """

    optimizer: str
    trials: int
    shares: Mapping[str, float]
    model_share: float
    has_model: bool
    model_unused: bool
    fallbacks: int
    failed_fits: int
    duplicates: int
    isomorphic_duplicates: int
    suggest_seconds: float
    suggest_share: float
    idle_seconds: float
    warnings: tuple[str, ...]


def honesty(
    trials: pd.DataFrame, ledger: pd.DataFrame, methods: Mapping[str, str] = MappingProxyType({})
) -> list[Honesty]:
    """A record per optimizer, by name. methods: the method behind a name, where it is another."""
    return [
        _record(str(name), methods.get(str(name), str(name)), trials[trials["optimizer"] == name], runs)
        for name, runs in ledger.groupby("optimizer", sort=True)
    ]


def unused_models(records: Sequence[Honesty]) -> list[str]:
    """A sentence for each optimizer whose model chose nothing."""
    return [
        f"{record.optimizer} never used its model: all of its new configurations were drawn at random."
        for record in records
        if record.model_unused
    ]


def _record(optimizer: str, method: str, trials: pd.DataFrame, runs: pd.DataFrame) -> Honesty:
    count, asks = int(runs["trials"].sum()), int((runs["trials"] + runs["pending"]).sum())
    weights = runs["trials"] / count
    shares = {origin: float((runs[of] * weights).sum()) for origin, of in zip(ORIGINS, SHARES, strict=True)}
    failed_fits, fallbacks = int((trials["fallback"] == FAILED_FIT).sum()), int((trials["fallback"] != "").sum())
    thought, trained = float(runs["suggest_seconds"].sum()), float(runs["train_seconds"].sum())
    repeated = int(runs["duplicates"].sum()), int(runs["isomorphic_duplicates"].sum())
    charged = int((runs["finished"] + runs["failed"] + runs["timed_out"]).sum())
    share = thought / (thought + trained) if thought + trained > 0 else float("nan")
    new, by_chance = _drawn(trials["origin"])
    warnings = [
        *_disguise(method, trials["origin"]),
        *([f"its model could not be fitted in {failed_fits} of {asks} asks"] if failed_fits else []),
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
        method not in WITHOUT_MODEL,
        method not in WITHOUT_MODEL and by_chance == new > 0,
        fallbacks,
        failed_fits,
        *repeated,
        thought / asks,
        share,
        idle,
        tuple(warnings),
    )


def _drawn(origins: "pd.Series[str]") -> tuple[int, int]:
    """How many configurations were chosen anew, and how many of these by chance. A promotion chooses nothing new."""
    chosen = origins[~origins.isin([INITIAL, PROMOTION])]
    return len(chosen), int((chosen == RANDOM).sum())


def _disguise(method: str, origins: "pd.Series[str]") -> list[str]:
    """Where most of what an optimizer chose anew was chance."""
    new, by_chance = _drawn(origins)
    if WITHOUT_MODEL.get(method) == RANDOM or not new or by_chance <= MOSTLY * new:
        return []
    start = "after the initial design " if (origins == INITIAL).any() else ""
    return [
        f"{start}chance chose {by_chance} of its {new} new configurations: "
        f"{'all' if by_chance == new else 'most'} of it was random search"
    ]


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
