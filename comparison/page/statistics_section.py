"""What the repeats can and cannot tell: differences of pairs, how soon who got where, errors of fresh trainings."""

from collections.abc import Mapping
from html import escape
from typing import Any

from fmnas.comparison.numbers.efficiency import AREA_FROM
from fmnas.comparison.numbers.notation import MISSING, count, interval, number, seconds, share
from fmnas.comparison.numbers.paired_tests import ALL
from fmnas.comparison.page.html_parts import Pictures, Section, figures, filled, hint, joined, subtitle
from fmnas.comparison.page.result_section import mean_of
from fmnas.comparison.summary import Summary


def pairs_section(summary: Summary, pictures: Pictures) -> Section | None:
    """A row per pair of optimizers, with the verdict in words; and what so many repeats can show at all."""
    tests = summary.get("tests")
    if not tests or not tests["pairs"]:
        return None
    told = (
        f"Two-sided paired Wilcoxon tests over repeats of {_family(tests)}; p corrected by "
        f"{tests['correction'].capitalize()} for these {len(tests['pairs'])}, held against {tests['level']:.0%}. "
        "Difference: mean of first − second; below 0 the first is lower. Effect: matched-pairs rank-biserial "
        "correlation, −1 where the first is lower in every repeat, 1 where it never is. Differ: the repeats that are "
        "no ties, which are all that the test can use. These p hold where the hypotheses and the number of repeats "
        "were chosen before any result was known; repeats added until a test shows something make p too small."
    )
    body = joined(_tested(tests), hint(told), figures(pictures.get("statistics", ())))
    return Section("statistics", "Differences", body)


def _tested(tests: Mapping[str, Any]) -> str:
    """What so many repeats can show at all, and a row per pair."""
    header = ("pair", "verdict", "difference", "95% interval", "p", "p corrected", "effect", "repeats", "differ")
    power = f"<p class='caution'>{escape(tests['power'])}</p>" if tests.get("power") else ""
    return joined(power, filled(header, [_pair_row(pair) for pair in tests["pairs"]]))


_LIKE_THE_OTHERS = (
    "The same tests of the same pairs, over the repeats in which both were trained again, corrected among themselves."
)


def _family(tests: Mapping[str, Any]) -> str:
    """The hypotheses that were tested, in words."""
    one = tests.get("hypotheses", ALL)
    return "all pairs" if one == ALL else f"{one} against each of the others, as `hypotheses: {one}` has it"


def _pair_row(pair: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{pair['first']} − {pair['second']}",
        _verdict(pair),
        number(pair["difference"], digits=3),
        interval(pair["low"], pair["high"]),
        number(pair["p"], digits=2),
        number(pair["p_corrected"], digits=2),
        MISSING if pair["effect"] is None else f"{pair['effect']:+.2f}",
        str(pair["repeats"]),
        count(pair.get("differing")),
    )


def _verdict(pair: Mapping[str, Any]) -> str:
    names = {"first better": f"{pair['first']} is better", "second better": f"{pair['second']} is better"}
    return names.get(pair["verdict"], str(pair["verdict"]))


def speed_section(summary: Summary, _: Pictures) -> Section | None:
    """Area under the curve, evaluations to reach a target, and who is where another one was."""
    body = joined(_area(summary), _targets(summary), _equivalents(summary))
    return Section("speed", "How soon", body) if body else None


def _area(summary: Summary) -> str:
    if not summary.get("area"):
        return ""
    rows = [
        (row["optimizer"], mean_of(row), "  ".join(number(value) for value in row["values"].values()))
        for row in sorted(summary["area"], key=lambda row: (row["mean"] is None, row["mean"]))
    ]
    told = (
        f"Mean height of the best-so-far curve, from {AREA_FROM:g} evaluation to where all are compared: the same for "
        "whoever takes part. A run whose first full result comes later is charged that result from the start, which "
        "flatters it. Low: good soon, and good at the end; the two cannot be told apart by it."
    )
    return joined(
        subtitle("Area under the curve"), filled(("optimizer", "mean height", "each repeat"), rows, "wide"), hint(told)
    )


def _targets(summary: Summary) -> str:
    """A row per target, a column per optimizer."""
    targets = summary.get("targets") or ()
    if not targets:
        return ""
    names = [row["optimizer"] for row in targets[0]["rows"]]
    rows = []
    for target in targets:
        reached = {row["optimizer"]: row for row in target["rows"]}
        cells = [_reached(reached[name]) for name in names]
        rows.append((number(target["target"]), *cells, target["from"]))
    told = (
        "Mean over the repeats that reached the target, and how many did: where not all did, the mean flatters. Each "
        "repeat's number is in summary.json."
    )
    shown = filled(("target", *names, "which is"), rows, "wide")
    return joined(subtitle("Evaluations to reach a target"), shown, hint(told))


def _reached(row: Mapping[str, Any]) -> str:
    return f"{count(row['evaluations'])} ({row['reached']} of {row['repeats']})" if row["reached"] else "never"


def _equivalents(summary: Summary) -> str:
    """A row per optimizer and checkpoint, a column per other optimizer."""
    given = summary.get("equivalents") or ()
    if not given:
        return ""
    names = [name for name in summary["optimizers"] if any(row["other"] == name for row in given)]
    rows: dict[tuple[str, float], dict[str, str]] = {}
    for row in given:
        cells = rows.setdefault((row["optimizer"], row["at"]), {"value": number(row["value"])})
        cells[row["other"]] = _matched(row)
    shown = [
        (f"{name} at {count(at)}", cells["value"], *(cells.get(other, MISSING) for other in names))
        for (name, at), cells in rows.items()
    ]
    told = (
        "The evaluations after which the mean curve of the optimizer above is as low as that of the one on the left; "
        "never: not within the budget. In brackets: the 95% bootstrap interval over the repeats of the optimizer "
        "above and, where some were late, the share of resamples that were not there in time; the mean on the left is "
        "taken as it stands. With few repeats such an interval is too short."
    )
    header = ("evaluations", "mean objective", *names)
    return joined(subtitle("Who is where another one was"), filled(header, shown), hint(told))


def _matched(row: Mapping[str, Any]) -> str:
    """ "12 (8 to 20; late 3%)"."""
    found = "never" if row["evaluations"] is None else count(row["evaluations"])
    low, high, late = row.get("low"), row.get("high"), row.get("late")
    between = "" if low is None else f"{count(low)} to {'never' if high is None else count(high)}"
    told = [between, f"late {share(late)}" if late else ""]
    return f"{found} ({'; '.join(each for each in told if each)})" if any(told) else found


def retrained_section(summary: Summary, pictures: Pictures) -> Section | None:
    """The winner's curse: errors for which configurations were selected, beside those of fresh trainings."""
    retrained = summary.get("retrained")
    if not retrained or not retrained["rows"]:
        return None
    told = (
        f"Trained afresh with {retrained['seeds']} seeds, {retrained['images']} images and {retrained['epochs']} "
        f"epochs; test error on {retrained['test_images']} images that no optimizer has seen. These are the errors to "
        "believe: the objective of a search is the lowest of many noisy values."
    )
    means = [
        (
            row["optimizer"],
            number(row["selected_error"]),
            mean_of(row, "error"),
            interval(row.get("low"), row.get("high")),
        )
        for row in retrained["means"]
    ]
    tests = retrained.get("tests") or {"pairs": ()}
    header = ("run", "trial", "selected objective", "selected error", "test error", "training")
    rows = [
        (
            row["run"],
            str(row["trial"]),
            number(row["selected_objective"]),
            number(row["selected_error"]),
            mean_of(row, "error"),
            seconds(row["seconds"]),
        )
        for row in retrained["rows"]
    ]
    body = joined(
        hint(told),
        figures(pictures.get("retrained", ())),
        subtitle("Mean over repeats"),
        filled(("optimizer", "selected error", "test error", "95% interval"), means),
        *((subtitle("Test errors, pair by pair"), _tested(tests), hint(_LIKE_THE_OTHERS)) if tests["pairs"] else ()),
        subtitle("Each configuration"),
        filled(header, rows),
    )
    return Section("retrained", "Selected and retrained", body)
