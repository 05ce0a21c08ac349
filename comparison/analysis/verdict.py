"""The result in words: which optimizer leads, and what the data can and cannot support.

An optimizer is called better only after a significant test.
"""

from collections.abc import Sequence
from math import isfinite, isnan

from fmnas.comparison.analysis.checkpoints import FinalTable
from fmnas.comparison.analysis.float_ties import is_equal
from fmnas.comparison.analysis.formatting import format_duration, format_with_error, join_names
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

INTERIM_NOTE = (
    "This is an interim result: repeated looks at the tests make p too small. Only the tests at the end count."
)
ORDER_NOTE = "The order of the means alone is not evidence."


def headline(table: FinalTable, tests: Comparisons, seconds: float | None = None, waiting: Sequence[str] = ()) -> str:
    """One or two sentences on a `final_table`: the lowest mean objective, its cost, and what the tests say about it.

    seconds: the budget's limit, if any. waiting: as in `caution`. While an optimizer has no mean yet, none is lowest.
    """
    ranked = {name: row for name, row in table.rows.items() if not isnan(row.mean)}
    is_over = table.common_epochs == table.budget.epochs
    missing = [*([] if is_over else table.rows), *waiting]
    missing = [name for name in dict.fromkeys(missing) if name not in ranked]
    if ranked and missing:
        return f"No comparison yet: {join_names(missing)} without a full-fidelity result in every repeat."
    if not ranked:
        return "No comparison yet: no optimizer has a full-fidelity result in every repeat."
    leader, first = next(iter(ranked.items()))
    at, which = table.common_epochs, "each repeat" if first.repeats > 1 else "one repeat"
    spent = "after" if first.epochs >= at else "within"
    if seconds is not None:
        spent = f"within {format_duration(seconds)} of training and suggestion and"
    cost = f"{spent} {table.budget.format_cost(at)} in {which}"
    value = format_with_error(first.mean, first.standard_error)
    mean = f"{'mean ' if first.repeats > 1 else ''}objective: {value}, {cost}"
    if len(table.rows) == 1:
        return f"{leader} reached this {mean}."
    tested = first.repeats > 1 or tests.most_repeats > 1
    return _describe_lowest([(name, row.mean) for name, row in ranked.items()], mean, tests if tested else None)


def caution(table: FinalTable, tests: Comparisons, waiting: Sequence[str] = ()) -> str:
    """What the data of a `final_table` can support, in sentences.

    waiting: optimizers with planned runs that have not begun.
    """
    sentences, at, rows = [], table.common_epochs, list(table.rows.values())
    if all(isnan(row.best) for row in rows):
        return ""  # the headline says that there is no result
    if at != table.budget.epochs:
        sentences.append(
            f"Compared at {at} of {table.budget.format_cost(table.budget.epochs)}, the least that any unfinished run "
            "has spent so far; the shares by method are of all trials."
        )
    if waiting:
        sentences.append(f"Not all runs of {join_names(waiting)} have begun.")
    if sentences and tests.most_repeats > 1:
        sentences.append(INTERIM_NOTE)
    if len(rows) == 1:
        return " ".join([*sentences, "There is only one optimizer: nothing to compare it with."])
    repeats = [{repeat for repeat, value in row.values.items() if isfinite(value)} for row in rows]
    if any(other != repeats[0] for other in repeats):
        counts = ", ".join(f"{name} {len(mine)}" for name, mine in zip(table.rows, repeats, strict=True))
        sentences.append(
            f"The repeats with a full-fidelity result differ ({counts}; {len(set.intersection(*repeats))} shared by "
            "all): the means are not over the same repeats, so they are not a fair comparison."
        )
    return " ".join([*sentences, describe_power(tests), _describe_tests(tests)]).rstrip()


def retrained_headline(retrained: Retrained | None) -> str:
    """The result of the retraining; "" without one."""
    if retrained is None:
        return ""
    means, tests, first = retrained.means, retrained.tests, retrained.means[0]
    error = format_with_error(first.error, first.standard_error)
    start = "Retrained with new seeds and measured on test images:"
    if len(means) == 1:
        return f"{start} {first.optimizer} has a test error of {error}."
    mean = f"{'mean ' if first.repeats > 1 else ''}test error, {error}"
    ranked = [(row.optimizer, row.error) for row in means]
    return f"{start} {_describe_lowest(ranked, mean, tests if tests.most_repeats > 1 else None)}"


def retrained_caution(retrained: Retrained | None, reduced: Sequence[str] = ()) -> str:
    """Which errors are unbiased, and what the tests of the test errors say; "" without a retraining.

    reduced: the `reduced_settings` of the retraining.
    """
    if retrained is None:
        return ""
    tests = retrained.tests
    text = "The best objective of a search is the lowest of many noisy values, so it is optimistically biased: " + (
        f"but the retraining had less than the search ({', '.join(reduced)}), so do not rely on its test errors either."
        if reduced
        else "rely on the test errors of the retrained configurations."
    )
    if not tests.pairs:
        return text
    if len({row.repeat for row in retrained.rows}) > min(mean.repeats for mean in retrained.means):
        text += " Not every optimizer has the same retrained repeats: their means are not a fair comparison."
    return f"{text} For the test errors: {_describe_tests(tests) or describe_power(tests)}"


def describe_power(tests: Comparisons) -> str:
    """What this number of repeats can show at all; the results count only where their ties leave too few."""
    fewest, most, pairs = tests.repeats, tests.most_repeats, len(tests.pairs)
    if not pairs and tests.hypotheses != ALL:
        return f"Only {tests.hypotheses} is tested against the others, and one side has no result: no test."
    if not pairs:
        return "There is only one optimizer: nothing to compare it with."
    if most < 2:
        missing = "standard error, no test" if most else "test"
        return f"{most or 'No shared'} repeat: no {missing}; the order is anecdotal."
    repeats = f"{most} paired repeats" if fewest == most else f"{fewest} to {most} paired repeats, by pair"
    p = f"{min(1.0, smallest_p(most) * pairs):.3g}{f' after correction for {pairs} comparisons' if pairs > 1 else ''}"
    text = f"{repeats}: the smallest p that a two-sided paired Wilcoxon test can give is {p}"
    if can_show(most, pairs):
        has_too_many_ties = all(test.verdict == TOO_FEW for test in tests.pairs)
        return f"{text}{' without ties, of which there are too many' * has_too_many_ties}."
    needed = f"{tests.repeats_needed} repeats without ties can show one"
    return f"{text}, so no difference between two optimizers can be significant at {LEVEL:.0%}; {needed}."


def _describe_lowest(ranked: Sequence[tuple[str, float]], what: str, tests: Comparisons | None) -> str:
    """Which optimizer has the lowest mean, and what the tests say about it. ranked: the lowest first."""
    leader, lowest = ranked[0]
    ties = [name for name, mean in ranked[1:] if is_equal(mean, lowest)]
    if ties:
        return f"{join_names([leader, *ties])} share the lowest {what}."
    text = f"{leader} has the lowest {what}."
    return f"{text} {_describe_leader(leader, tests)}".rstrip() if tests else text


def _describe_leader(leader: str, tests: Comparisons) -> str:
    """What the tests say about the optimizer with the lowest mean."""
    verdicts: dict[str, list[str]] = {}
    ps = [0.0]
    for test in tests.pairs:
        if leader in (test.first, test.second):
            is_first = test.first == leader
            verdict = test.verdict if is_first else {FIRST: SECOND, SECOND: FIRST}.get(test.verdict, test.verdict)
            verdicts.setdefault(verdict, []).append(test.second if is_first else test.first)
            ps += [test.p_corrected] if verdict == FIRST else []
    at_most = "≤" if len(verdicts.get(FIRST, ())) > 1 else "="
    sentences = {
        FIRST: f"it is better than {{}} (corrected p {at_most} {max(ps):.2g})",
        SECOND: "yet on the repeats that both have, {} is better",
        NONE: "no difference to {} is shown",
        TOO_FEW: "too few repeats to tell whether it is better than {}",
    }
    parts = [text.format(join_names(verdicts[verdict])) for verdict, text in sentences.items() if verdict in verdicts]
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _describe_tests(tests: Comparisons) -> str:
    """The significant differences; "" where no pair shares two repeats."""
    if tests.most_repeats < 2:
        return ""
    better = [test for test in tests.pairs if test.verdict in (FIRST, SECOND)]
    if not better:
        shown = "" if all(test.verdict == TOO_FEW for test in tests.pairs) else "No test shows a difference. "
        return f"{shown}{ORDER_NOTE}"
    names = [(test.first, test.second) if test.verdict == FIRST else (test.second, test.first) for test in better]
    differences = [
        f"{winner} is better than {loser} (p = {test.p_corrected:.2g})"
        for (winner, loser), test in zip(names, better, strict=True)
    ]
    undecided = f" Undecided: {len(tests.pairs) - len(better)} of {len(tests.pairs)} pairs."
    holm = ", after Holm's correction" if len(tests.pairs) > 1 else ""
    return f"By the tests{holm}: {'; '.join(differences)}.{undecided if len(better) < len(tests.pairs) else ''}"
