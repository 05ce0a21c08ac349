"""Whether each optimizer did what its name says: who chose its trials, what failed, what repeated, what it cost.

What went wrong inside an optimizer, its trials say themselves, by their `fallback`.

And whether the clocks that stamped the trials can be believed, and whether an experiment stood still. A trial's
training is measured by a clock that cannot be set; its start and finish are times of day, which can be. Where the two
differ widely, or no trial ran for hours, wall-clock times hold more, or less, than work. It is said, and nothing is
corrected: what the time was, nobody knows any more.
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import pandas as pd

from fmnas.comparison.analysis.formatting import duration
from fmnas.comparison.analysis.trials import SOURCE, WAY_COLUMNS, ReportError
from fmnas.search_spaces.records import FAILED_FIT, INITIAL, MODEL, MUTATION, ORIGINS, PROMOTION, RANDOM, WARM_START

DESIGNS = (RANDOM, MUTATION, MODEL)
"""What may choose an optimizer's new configurations by its design."""
MOSTLY, MANY_DUPLICATES, DEAR = 0.5, 0.05, 0.1
"""From which share on a warning is given: of chance, of duplicates, of suggestions in the time."""
MANY_FAILURES, STUCK = 0.05, 0.25
"""From which share of failures, and of duplicates, on a caution stands beside the result."""
LOST_CAUSE = (
    "Of a lost trial, a configuration that killed all workers.attempts workers is likely the cause; its optimizer, "
    "which hears nothing of it, may try it again."
)
SLACK = 60.0
"""Seconds by which start and finish may disagree with what was measured: messages and busy machines take time."""
SLOW_START, SLOW_SECONDS = 3.0, 1.0
"""A worker's first trial is slow from so many times its others' median on, and so many seconds above it."""
STILL = 3600.0
"""Seconds without any trial or suggestion that are worth a word."""


@dataclass(frozen=True)
class Honesty:
    """One optimizer over all its runs.

    trials: that ended or were cut off. shares: of them, by origin. model_share: of a model's.
    method_share: of a model's and of mutations; NaN where chance chooses by design.
    has_model: whether it has one by design. model_unused, method_unused: it has one, or mutates, and all of its new
    configurations were drawn at random.
    charged: trials that cost budget. unfinished: those of them that failed or took too long.
    fallbacks: asks in which chance chose in place of a model or a mutation, failed fits among them.
    duplicates, isomorphic_duplicates: charged trials that repeat one of their run.
    suggest_seconds: mean per ask. suggest_share: suggestion / (suggestion + training); NaN where nothing took time.
    idle_seconds: of workers, while it thought. warnings: in words; none where all is well.
    """

    optimizer: str
    trials: int
    shares: Mapping[str, float]
    model_share: float
    method_share: float
    has_model: bool
    model_unused: bool
    method_unused: bool
    charged: int
    unfinished: int
    fallbacks: int
    failed_fits: int
    duplicates: int
    isomorphic_duplicates: int
    suggest_seconds: float
    suggest_share: float
    idle_seconds: float
    warnings: tuple[str, ...]


def honesty(
    trials: pd.DataFrame, ledger: pd.DataFrame, by_design: Mapping[str, str] = MappingProxyType({})
) -> list[Honesty]:
    """A record per optimizer, by name.

    by_design: what chooses an optimizer's new configurations, one of DESIGNS, by its name. One that is missing is taken
    to have a model: "all at random" would be a disguise of it. Raises ReportError for another design.
    """
    for name, design in by_design.items():
        if design not in DESIGNS:
            raise ReportError(f"by_design: {name!r} has {design!r}; an optimizer chooses by {', '.join(DESIGNS)}")
    slow = slow_starts(trials)
    return [
        _record(str(name), by_design.get(str(name), MODEL), trials[trials["optimizer"] == name], runs, slow)
        for name, runs in ledger.groupby("optimizer", sort=True)
    ]


def slow_starts(trials: pd.DataFrame) -> "pd.Series[float]":
    """Of each trial that is the first of its worker and slow (SLOW_START, SLOW_SECONDS): how much longer it took, in
    seconds, than the median of the worker's other trials of as many epochs.
    """
    timed = trials[trials["train_seconds"].notna() & trials["started_at"].notna() & (trials["worker"] != "")]
    extra: dict[Hashable, float] = {}
    for _, worked in timed.sort_values("started_at", kind="stable").groupby([SOURCE, "worker"], sort=False):
        first = worked.index[0]
        others = worked.loc[worked["epochs"] == worked.loc[first, "epochs"], "train_seconds"].iloc[1:]
        took, usual = float(worked.loc[first, "train_seconds"]), float(others.median())
        if len(others) > 1 and took > SLOW_START * usual and took >= usual + SLOW_SECONDS:
            extra[first] = took - usual
    return pd.Series(extra, dtype="float64")


def unused_methods(records: Sequence[Honesty]) -> list[str]:
    """A sentence for each optimizer whose model, or whose mutations, chose nothing."""
    return [
        f"{record.optimizer} never {'used its model' if record.has_model else 'mutated'}: all of its new "
        "configurations were drawn at random."
        for record in records
        if record.method_unused
    ]


def spoilt_trials(records: Sequence[Honesty]) -> list[str]:
    """A sentence for each optimizer of whose trials many failed, or repeat others."""
    return [
        f"{record.optimizer}: {count} of its {record.charged} charged trials {what}."
        for record in records
        for count, many, what in (
            (record.unfinished, MANY_FAILURES, "failed or took too long"),
            (record.duplicates + record.isomorphic_duplicates, STUCK, "repeat an earlier one of their run"),
        )
        if count > many * record.charged
    ]


def lost_trials(ledger: pd.DataFrame) -> list[str]:
    """A sentence for each optimizer of whose trials some were lost, and one on what is likely the cause."""
    counts = ledger.groupby("optimizer", sort=True)[["lost", "trials"]].sum()
    told = [
        f"{optimizer}: {lost} of its {total} trials {'was' if lost == 1 else 'were'} lost, and charged to nobody."
        for optimizer, lost, total in counts.itertuples()
        if lost
    ]
    return [*told, LOST_CAUSE] if told else []


def _record(optimizer: str, design: str, trials: pd.DataFrame, runs: pd.DataFrame, slow: "pd.Series[float]") -> Honesty:
    count, asks = int(runs["trials"].sum()), int((runs["trials"] + runs["pending"]).sum())
    weights = runs["trials"] / count
    shares = {origin: float((runs[f"share_{origin}"] * weights).sum()) for origin in ORIGINS}
    failed_fits, fallbacks = int((trials["fallback"] == FAILED_FIT).sum()), int((trials["fallback"] != "").sum())
    thought, trained = float(runs["suggest_seconds"].sum()), float(runs["train_seconds"].sum())
    exact, isomorphic = int(runs["duplicates"].sum()), int(runs["isomorphic_duplicates"].sum())
    repeated = exact + isomorphic
    charged = int((runs["finished"] + runs["failed"] + runs["timed_out"]).sum())
    share = thought / (thought + trained) if thought + trained > 0 else float("nan")
    origins = trials["origin"]
    chosen = origins[~origins.isin([INITIAL, PROMOTION, WARM_START])]  # anew: not promoted or known before
    new, by_chance = len(chosen), int((chosen == RANDOM).sum())
    part = f"{repeated} of its {charged} charged trials ({repeated / (charged or 1):.0%})"
    warnings = [
        *([_disguise(origins, new, by_chance)] if design != RANDOM and by_chance > MOSTLY * new else []),
        *([f"its model could not be fitted in {failed_fits} of {asks} asks"] if failed_fits else []),
        *([f"{part} repeat an earlier one of their run"] if repeated > MANY_DUPLICATES * charged else []),
        *_mixed(trials[list(WAY_COLUMNS)]),
        *_slow(slow[slow.index.isin(trials.index)]),
        *([f"suggestions took {share:.0%} of its training and suggestion time"] if share > DEAR else []),
    ]
    unused = new > 0 and by_chance == new
    return Honesty(
        optimizer=optimizer,
        trials=count,
        shares=shares,
        model_share=shares[MODEL],
        method_share=float("nan") if design == RANDOM else shares[MODEL] + shares[MUTATION],
        has_model=design == MODEL,
        model_unused=design == MODEL and unused,
        method_unused=design != RANDOM and unused,
        charged=charged,
        unfinished=charged - int(runs["finished"].sum()),
        fallbacks=fallbacks,
        failed_fits=failed_fits,
        duplicates=exact,
        isomorphic_duplicates=isomorphic,
        suggest_seconds=thought / asks,
        suggest_share=share,
        idle_seconds=float(runs["idle_seconds"].sum()),
        warnings=tuple(warnings),
    )


def _disguise(origins: "pd.Series[str]", new: int, by_chance: int) -> str:
    """Where most of what an optimizer chose anew was chance."""
    given = {"initial design": INITIAL, "trials that it began with": WARM_START}
    before = [words for words, origin in given.items() if (origins == origin).any()]
    start = f"after the {before[0]} " if before else ""
    part = "all" if by_chance == new else "most"
    return f"{start}chance chose {by_chance} of its {new} new configurations: {part} of it was random search"


def _mixed(how: pd.DataFrame) -> list[str]:
    """Where its trials were trained in more than one way: then what differs between them is not the trial alone."""
    ways = Counter(way for way in zip(*(how[name] for name in WAY_COLUMNS), strict=True) if any(way))
    if len(ways) < 2:
        return []
    most_first = sorted(ways.items(), key=lambda way: (-way[1], way[0]))
    told = ", ".join(f"{count} {arrangement} on {device}" for (device, arrangement), count in most_first)
    return [f"its trials were trained in {len(ways)} ways, whose results differ by rounding: {told}"]


def _slow(extra: "pd.Series[float]") -> list[str]:
    """Where first trials of workers were slow: imports and the like are in its training time."""
    if extra.empty:
        return []
    return [
        f"{len(extra)} of its trials {'was' if len(extra) == 1 else 'were'} the first of a worker and took more than "
        f"{SLOW_START:g} times as long as the others there, {duration(float(extra.sum()))} more in all: what a process "
        "does once (imports, compiling) is probably in its training time"
    ]


def clock_remarks(trials: pd.DataFrame) -> list[str]:
    """What the reader of wall-clock times must know, in sentences; none where all is well."""
    trained = trials[trials["origin"] != WARM_START]  # the others took no time here
    known = trained[trained["started_at"].notna() & trained["finished_at"].notna()]
    elapsed = (known["finished_at"] - known["started_at"]).dt.total_seconds()
    measured = known["train_seconds"].fillna(0.0)
    back = int((elapsed < 0.5 * measured - SLACK).sum())
    ahead = int((known["train_seconds"].notna() & (elapsed > 2.0 * measured + STILL)).sum())
    slept = "a clock was set ahead, or a machine slept"
    remarks = [
        f"{count} trial{'' if count == 1 else 's'} {what}. Do not believe wall-clock times."
        for count, what in (
            (back, "ended before the start, or sooner than the training can have: a clock was set back"),
            (ahead, f"lasted by the clock more than an hour longer than twice the training: {slept}"),
        )
        if count
    ]
    still = sum(_standstill(together) for _, together in known.groupby(SOURCE, sort=False))
    if still:
        remarks.append(
            f"For {duration(still)} in all no trial ran: the experiment was interrupted, or a clock was set ahead; "
            "wall-clock times include that."
        )
    return remarks


def _standstill(trials: pd.DataFrame) -> float:
    """The seconds of all gaps of at least STILL between trials, suggestions taken off."""
    ordered = trials.sort_values("started_at")
    asked = ordered["started_at"] - pd.to_timedelta(ordered["suggest_seconds"].fillna(0.0), unit="s")
    gaps = (asked - ordered["finished_at"].cummax().shift()).dt.total_seconds()
    return float(gaps[gaps >= STILL].sum())
