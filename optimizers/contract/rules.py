"""The rules in the order in which `fmnas check` goes through them, each with what it is tried on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, nan

from fmnas.optimizers.contract import bookkeeping, randomness, suggestions
from fmnas.optimizers.contract.play import CONSTRAINED, EPOCHS, SPACES, BrokenRuleError, Subject, played
from fmnas.search_spaces import FmnasError, Space, Trial

OnSpace = Callable[[Subject, Space], object]
Told = Callable[[], randomness.Suggested]
"""What another process suggests."""

BAD = (nan, inf, -inf)
CUTS = (0, 1, 5, 13)
ASKS = 20


@dataclass(frozen=True)
class Rule:
    """A rule: its name, and what examines a subject by it.

    examine: raises BrokenRuleError, or whatever the optimizer raises; else says what its author should know of it, if
    anything. Of several examples that break a rule the first, which is the smallest, is told.
    parallel: whether it is about several trials pending, and so for optimizers that suggest some alone.
    """

    name: str
    examine: Callable[[Subject], str]
    parallel: bool = False


def on_every_space(name: str, rule: OnSpace, parallel: bool = False) -> Rule:
    """A rule that is tried on each of SPACES, the simplest first."""

    def examine(subject: Subject) -> str:
        for label, space in SPACES.items():
            _on(label, rule, subject, space)
        return ""

    return Rule(name, examine, parallel)


def _on(label: str, rule: OnSpace, subject: Subject, space: Space) -> object:
    """With the name of the space in what is raised."""
    try:
        return rule(subject, space)
    except Exception as error:  # whatever the optimizer raises breaks the rule
        kind = "" if isinstance(error, BrokenRuleError | FmnasError) else f"{type(error).__name__}: "
        raise BrokenRuleError(f"{label} space: {kind}{error}") from error


def of_trials(name: str, rule: Callable[[Subject, Space, list[Trial]], None]) -> Rule:
    """A rule about the first trials that it is asked for."""
    return on_every_space(name, lambda it, space: rule(it, space, played(it.build(space, 0), suggestions.PLAYED)))


def _constraints(subject: Subject) -> str:
    for label, space in CONSTRAINED.items():
        try:
            subject.build(space, 0)
        except FmnasError as error:
            return f"it refuses spaces with constraints: {error}"
        for seed in randomness.SEEDS:
            _on(f"constrained {label}", partial(suggestions.meets_constraints, seed=seed, asks=ASKS), subject, space)
    return ""


def _initial_design(subject: Subject) -> str:
    if not subject.takes_design:
        return "it takes no initial design, and so begins with other points than the rest"
    for label, space in SPACES.items():
        _on(label, suggestions.begins_with_the_initial_design, subject, space)
    return ""


def _fidelities(subject: Subject) -> str:
    epochs: set[int] = set()
    for label, space in SPACES.items():
        _on(label, lambda it, space: epochs.update(suggestions.asks_for_its_fidelities(it, space)), subject, space)
    shorter = sorted(epochs - {EPOCHS})
    return f"it also trains for {', '.join(map(str, shorter))} of {EPOCHS} epochs" if shorter else ""


def _finite(subject: Subject, space: Space) -> None:
    for bad in BAD:
        for whole in (False, True):
            bookkeeping.takes_finite_results_alone(subject, space, bad, whole)


def _histories(subject: Subject, space: Space) -> None:
    for cut in CUTS:
        bookkeeping.goes_on_the_same_from_a_history(subject, space, cut, cut)


def _repeats(subject: Subject) -> str:
    count = suggestions.repeats(subject, SPACES["discrete"])
    return f"{count} of its first 24 suggestions were tried before; each costs an evaluation" if count else ""


def another_process(told: Told) -> Rule:
    """The rule for which a second process is needed."""

    def examine(subject: Subject) -> str:
        randomness.same_in_another_process(randomness.suggested_everywhere(subject), told())
        return ""

    return Rule("another process suggests the same", examine)


def rules(told: Told) -> Mapping[str, Rule]:
    """Every rule by its name. told: what another process suggests."""
    return {rule.name: rule for rule in (*RULES, another_process(told))}


RULES: tuple[Rule, ...] = (
    of_trials("suggestions lie in the space", lambda _, space, trials: suggestions.inside_the_space(space, trials)),
    Rule("constraints are met", _constraints),
    of_trials("trials are numbered from 0", lambda _, __, trials: suggestions.numbered(trials)),
    of_trials("trials are plain JSON", lambda _, __, trials: suggestions.plain_json(trials)),
    of_trials("origins are known", lambda it, _, trials: suggestions.of_known_origin(it, trials)),
    Rule("the epochs of a trial are within its fidelity", _fidelities),
    Rule("the initial design comes first", _initial_design),
    on_every_space("the same seed gives the same trials", randomness.same_seed_same_trials),
    on_every_space("another seed gives other trials", randomness.another_seed_other_trials),
    on_every_space("global random state is untouched", randomness.leaves_global_random_state_alone),
    on_every_space("global random state has no influence", randomness.does_not_heed_global_random_state),
    on_every_space("many trials may be pending", suggestions.suggests_while_many_are_pending, parallel=True),
    on_every_space("results may come in any order", bookkeeping.takes_results_in_any_order, parallel=True),
    on_every_space("a result is taken once", bookkeeping.takes_a_result_once),
    on_every_space("an objective is finite", _finite),
    on_every_space("a forgotten trial is gone", bookkeeping.forgets),
    on_every_space("restored at any point it goes on the same", bookkeeping.goes_on_the_same_from_any_point),
    on_every_space("restored from any history it goes on the same", _histories),
    Rule("repeats are allowed", _repeats),
)
"""All but the one that needs another process."""
