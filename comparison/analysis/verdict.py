"""The final table in words: who leads, and what the data can and cannot support.

Nothing is called better but by a test that says so.
"""

from collections.abc import Sequence
from math import isfinite, isnan

from fmnas.comparison.analysis.checkpoints import FinalTable
from fmnas.comparison.analysis.float_ties import equal
from fmnas.comparison.analysis.formatting import duration, listed, with_error
from fmnas.comparison.analysis.paired_tests import (
    ALL,
    FIRST,
    LEVEL,
    NONE,
    SECOND,
    TOO_FEW,
    Comparisons,
    can_show,
    smallest_p,
)
from fmnas.comparison.analysis.retrained import Retrained

PEEKING = (
    "This is not the end: tests that are looked at before it, as often as one likes, make p too small. They count "
    "once, at the end."
)
"""Of optional stopping."""


def headline(table: FinalTable, tests: Comparisons, seconds: float | None = None) -> str:
    """A `final_table` in a sentence or two: who has the lowest mean objective at what cost, and whether it is better.

    seconds: the budget's, if it has any.
    """
    ranked = {name: row for name, row in table.rows.items() if not isnan(row.mean)}
    if not ranked:
        return "No comparison yet: no optimizer has a full-fidelity result in every repeat."
    leader, first = next(iter(ranked.items()))
    at, which = table.common_epochs, "each repeat" if first.repeats > 1 else "one repeat"
    spent = "after" if first.epochs >= at else "within"
    if seconds is not None:
        spent = f"within {duration(seconds)} of training and suggestion and"
    cost = f"{spent} {at} epoch{'' if at == 1 else 's'} in {which}"
    mean = f"{'mean ' if first.repeats > 1 else ''}objective: {with_error(first.mean, first.standard_error)}, {cost}"
    if len(table.rows) == 1:
        return f"{leader} reached this {mean}."
    tested = first.repeats > 1 or tests.most_repeats > 1
    return _lowest([(name, row.mean) for name, row in ranked.items()], mean, tests if tested else None)


def caution(table: FinalTable, tests: Comparisons, waiting: Sequence[str] = ()) -> str:
    """What the data of a `final_table` can support, in plain words.

    waiting: optimizers with planned runs that have not begun.
    """
    told, at, rows = [], table.common_epochs, list(table.rows.values())
    if rows and at != table.budget_epochs:
        told.append(
            f"Compared at {at} of {table.budget_epochs} epochs, the least that any run on its way has spent so far; "
            "the shares by method are of all trials."
        )
    if rows and waiting:
        told.append(f"Not all runs of {listed(waiting)} have begun.")
    if told and tests.most_repeats > 1:
        told.append(PEEKING)
    if all(isnan(row.best) for row in rows):
        return " ".join([*told, "There is no full-fidelity result to compare."])
    if len(rows) == 1:
        return " ".join([*told, "There is one optimizer: nothing to compare it with."])
    repeats = [{repeat for repeat, value in row.values.items() if isfinite(value)} for row in rows]
    if any(other != repeats[0] for other in repeats):
        counts = ", ".join(f"{name} {len(mine)}" for name, mine in zip(table.rows, repeats, strict=True))
        told.append(
            f"The repeats with a full-fidelity result differ ({counts}; {len(set.intersection(*repeats))} shared by "
            "all): the means are not over the same repeats, so they are not a fair comparison."
        )
    return " ".join([*told, power(tests), *([_found(tests)] if tests.most_repeats > 1 else [])])


def retrained_headline(retrained: Retrained | None) -> str:
    """What was found when the best were trained again; "" where none were."""
    if retrained is None:
        return ""
    if retrained.differ:
        return "The best were trained again, but not all in the same way: their test errors are not compared."
    means, tests, first = retrained.means, retrained.tests, retrained.means[0]
    error = with_error(first.error, first.standard_error)
    start = "Trained again with fresh seeds and measured on test images:"
    if len(means) == 1:
        return f"{start} {first.optimizer} has a test error of {error}."
    mean = f"{'mean ' if first.repeats > 1 else ''}test error, {error}"
    ranked = [(each.optimizer, each.error) for each in means]
    return f"{start} {_lowest(ranked, mean, tests if tests.most_repeats > 1 else None)}"


def retrained_caution(retrained: Retrained | None, search: Comparisons, less: Sequence[str] = ()) -> str:
    """Which results to believe, and what the tests of the test errors say.

    search: the tests of the objectives. less: in what the new trainings had less than the search's, as `shortfalls`.
    """
    if retrained is None:
        return ""
    tests = retrained.tests
    told = "The objective of a search is the lowest of many noisy values, and too good: " + (
        f"yet the configurations trained again had less than in the search ({', '.join(less)}), so their test errors "
        "are not the ones to believe, either."
        if less
        else "the test errors of the configurations trained again are the ones to believe."
    )
    if retrained.differ:
        told += (
            f" They were not all trained in the same way ({listed(retrained.differ)} differ): neither their means nor "
            "the order of these tell which optimizer is better. Retrain all with the same options."
        )
    if not tests.pairs:
        return told
    if len({mean.repeats for mean in retrained.means}) > 1:
        told += " They are not there for the same repeats of every optimizer: their means are no fair comparison."
    shown = [_found(tests)] if tests.most_repeats > 1 else []
    found = " ".join(shown if power(tests) == power(search) else [power(tests), *shown])
    return f"{told} Among them, {found[:1].lower()}{found[1:]}" if found else told


def power(tests: Comparisons) -> str:
    """What so many repeats can show at all, whatever the results."""
    if not tests.pairs and tests.hypotheses != ALL:
        return f"Only {tests.hypotheses} is to be tested against the rest, and it has no trial yet: no test."
    if not tests.pairs:
        return "There is one optimizer: nothing to compare it with."
    fewest, most, pairs, needed = tests.repeats, tests.most_repeats, len(tests.pairs), tests.repeats_needed
    if fewest == 0 and most < 2:
        return (
            "Not all optimizers that are to be compared share a repeat: no test; "
            f"{needed} paired repeats can show a difference{_corrected(tests)}, without ties."
        )
    if most == 1:
        return "1 repeat: no standard error, no test; the order is an anecdote."
    least = smallest_p(most)
    given = f"{most} paired repeats" if fewest == most else f"{fewest} to {most} paired repeats, by pair"
    with_most = "" if fewest == most else f" with {most}"
    start = f"{given}: the smallest p that a two-sided paired Wilcoxon test can give{with_most} is {least:.3g}"
    if least > LEVEL:
        can = f"so no difference between two optimizers can be significant at {LEVEL:.0%} by it"
        return f"{start}, {can}; {needed} repeats can show one{_corrected(tests)}, without ties."
    if least * pairs >= LEVEL:
        above = f"which is above {LEVEL:.0%} once{_corrected(tests).lstrip(',')}"
        return f"{start}, {above}; {needed} repeats without ties suffice."
    return f"{start}{f', {least * pairs:.3g}{_corrected(tests)[1:]}' if pairs > 1 else ''}."


def _lowest(ranked: Sequence[tuple[str, float]], what: str, tests: Comparisons | None) -> str:
    """Of optimizers and their means, the lowest first: whose is the lowest, and what the tests say of it."""
    leader, lowest = ranked[0]
    others = [name for name, mean in ranked[1:] if equal(mean, lowest)]
    if others:
        return f"{listed([leader, *others])} share the lowest {what}."
    found = f"{leader} has the lowest {what}."
    return f"{found} {_standing(leader, tests)}".rstrip() if tests else found


def _corrected(tests: Comparisons) -> str:
    """How many hypotheses there are, and of what kind."""
    if len(tests.pairs) < 2:
        return ""
    whose = "" if tests.hypotheses == ALL else f" ({tests.hypotheses} with each of the others)"
    return f", corrected for {len(tests.pairs)} comparisons{whose}"


def _standing(leader: str, tests: Comparisons) -> str:
    """What the tests say of the optimizer with the lowest mean."""
    verdicts: dict[str, list[str]] = {}
    ps = [0.0]
    for test in tests.pairs:
        if leader in (test.first, test.second):
            led = test.first == leader
            verdict = {FIRST: SECOND, SECOND: FIRST}.get(test.verdict, test.verdict) if not led else test.verdict
            verdicts.setdefault(verdict, []).append(test.second if led else test.first)
            ps += [test.p_corrected] if verdict == FIRST else []
    at_most = "≤" if len(verdicts.get(FIRST, ())) > 1 else "="
    sentences = {
        FIRST: f"it is better than {{}} (corrected p {at_most} {max(ps):.2g})",
        SECOND: "yet on the repeats that both have, {} is better",
        NONE: "no difference to {} is shown",
        TOO_FEW: "too few repeats to tell whether it is better than {}",
    }
    parts = [text.format(listed(verdicts[verdict])) for verdict, text in sentences.items() if verdict in verdicts]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _found(tests: Comparisons) -> str:
    """What the tests found."""
    better = [(test, test.verdict == FIRST) for test in tests.pairs if test.verdict in (FIRST, SECOND)]
    tied = _tied(tests)
    if all(test.verdict == TOO_FEW for test in tests.pairs):
        return f"{tied}The order of the means alone is not evidence."
    if not better:
        return f"{tied}No test shows a difference: the order of the means alone is not evidence."
    found = [
        f"{test.first if first else test.second} is better than {test.second if first else test.first} "
        f"(p = {test.p_corrected:.2g})"
        for test, first in better
    ]
    others = len(tests.pairs) - len(better)
    rest = f" The other {'pair is' if others == 1 else f'{others} pairs are'} not told apart." if others else ""
    holm = ", after Holm's correction" if len(tests.pairs) > 1 else ""
    return f"{tied}By the tests{holm}: {'; '.join(found)}.{rest}"


def _tied(tests: Comparisons) -> str:
    """The pairs whose ties leave too few repeats that differ, where all of their repeats would have been enough."""
    few = [test for test in tests.pairs if test.verdict == TOO_FEW and can_show(test.repeats, len(tests.pairs))]
    told = "; ".join(f"{test.first} and {test.second} in {test.differing} of {test.repeats}" for test in few)
    return f"Ties are evidence of nothing, and leave too few repeats that differ: {told}. " if few else ""
