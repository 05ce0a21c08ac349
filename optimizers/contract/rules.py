"""The rules in the order in which `fmnas check` goes through them, each with what it is tried on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, nan

from fmnas.optimizers.contract import checks
from fmnas.optimizers.contract.play import CONSTRAINED, EPOCHS, SPACES, BrokenRuleError, Subject, played
from fmnas.search_spaces import FmnasError, Space, Trial

OnSpace = Callable[[Subject, Space], object]
Told = Callable[[], checks.Suggested]
"""What another process suggests."""


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
        _on_each(SPACES, rule, subject)
        return ""

    return Rule(name, examine, parallel)


def _on_each(spaces: Mapping[str, Space], rule: OnSpace, subject: Subject) -> None:
    """With the name of the space in what is raised."""
    for label, space in spaces.items():
        try:
            rule(subject, space)
        except Exception as error:  # whatever the optimizer raises breaks the rule
            kind = "" if isinstance(error, BrokenRuleError | FmnasError) else f"{type(error).__name__}: "
            raise BrokenRuleError(f"{label} space: {kind}{error}") from error


def of_trials(name: str, rule: Callable[[Subject, Space, list[Trial]], None]) -> Rule:
    """A rule about the first trials that it is asked for."""
    return on_every_space(name, lambda it, space: rule(it, space, played(it.build(space, 0), checks.EXAMINED)))


def _constraints(subject: Subject) -> str:
    for label, space in CONSTRAINED.items():
        try:
            subject.build(space, 0)
        except FmnasError as error:
            return f"it refuses spaces with constraints: {error}"
        for seed in checks.SEEDS:
            meets = partial(checks.meets_constraints, seed=seed, asks=20)
            _on_each({f"constrained {label}": space}, meets, subject)
    return ""


def _initial_design(subject: Subject) -> str:
    if not subject.takes_design:
        return "it takes no initial design, and so begins with other points than the rest"
    _on_each(SPACES, checks.begins_with_the_initial_design, subject)
    return ""


def _fidelities(subject: Subject) -> str:
    epochs: set[int] = set()
    _on_each(SPACES, lambda it, space: epochs.update(checks.asks_for_its_fidelities(it, space)), subject)
    shorter = sorted(epochs - {EPOCHS})
    return f"it also trains for {', '.join(map(str, shorter))} of {EPOCHS} epochs" if shorter else ""


def _finite(subject: Subject, space: Space) -> None:
    for bad in (nan, inf, -inf):
        for whole in (False, True):
            checks.takes_finite_results_alone(subject, space, bad, whole)


def _histories(subject: Subject, space: Space) -> None:
    for cut in (0, 1, 5, 13):
        checks.goes_on_the_same_from_a_history(subject, space, cut, cut)


def rules(told: Told) -> Mapping[str, Rule]:
    """Every rule by its name. told: what another process suggests."""

    def another_process(subject: Subject) -> str:
        checks.same_in_another_process(checks.suggested_everywhere(subject), told())
        return ""

    return {rule.name: rule for rule in (*RULES, Rule("another process suggests the same", another_process))}


RULES: tuple[Rule, ...] = (
    of_trials("suggestions lie in the space", lambda _, space, trials: checks.inside_the_space(space, trials)),
    Rule("constraints are met", _constraints),
    of_trials("trials are numbered from 0", lambda _, __, trials: checks.numbered(trials)),
    of_trials("trials are plain JSON", lambda _, __, trials: checks.plain_json(trials)),
    of_trials("origins are known", lambda it, _, trials: checks.of_known_origin(it, trials)),
    Rule("the epochs of a trial are within its fidelity", _fidelities),
    Rule("the initial design comes first", _initial_design),
    on_every_space("the same seed gives the same trials", checks.same_seed_same_trials),
    on_every_space("another seed gives other trials", checks.another_seed_other_trials),
    on_every_space("global random state is untouched", checks.leaves_global_random_state_alone),
    on_every_space("global random state has no influence", checks.does_not_heed_global_random_state),
    on_every_space("many trials may be pending", checks.suggests_while_many_are_pending, parallel=True),
    on_every_space("results may come in any order", checks.takes_results_in_any_order, parallel=True),
    on_every_space("a result is taken once", checks.takes_a_result_once),
    on_every_space("an objective is finite", _finite),
    on_every_space("a forgotten trial is gone", checks.forgets),
    on_every_space("restored at any point it goes on the same", checks.goes_on_the_same_from_any_point),
    on_every_space("restored from any history it goes on the same", _histories),
    Rule("repeats are allowed", checks.repeats),
)
"""All but the one that needs another process."""
