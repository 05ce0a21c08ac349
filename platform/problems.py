"""The registry of problems: a row each, what can be optimised, by name.

    p = problem("func3c")
    p.space
    p.trainer.evaluate(trial).objective

Everything else about a problem stands in its own file, which is loaded when it is asked for. One that a user brings is
a row that the registry does not hold, its name being where it stands: "module:NAME" or "FILE.py:NAME".
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from fmnas.platform.errors import ConfigError, explained
from fmnas.platform.named import HANDED_OVER, named, parted
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings

HOW = "decorate a function with @objective([VARIABLE, ...]) of fmnas.trainers"
"""How to have a problem of one's own."""


@dataclass(frozen=True)
class Row:
    """A problem that a configuration can name: where it stands, as "module:NAME", and what it is in a few words."""

    name: str
    use: str
    summary: str

    @cached_property
    def found(self) -> Problem | ConfigurableProblem:
        """What stands there. Raises ConfigError where that is no problem, or nothing."""
        there = named(self.use)
        if not isinstance(there, Problem | ConfigurableProblem):
            raise ConfigError(f"{self.use} is a {type(there).__name__}, no problem: {HOW}")
        return there

    @property
    def takes_milliseconds(self) -> bool:
        """Whether an evaluation is known to take milliseconds at most: all in trainers/functions are plain formulas."""
        return self.use.startswith("fmnas.trainers.functions.")

    @property
    def settable(self) -> ConfigurableProblem:
        """What a configuration may set of it; of a problem as it is, nothing."""
        found = self.found
        return found if isinstance(found, ConfigurableProblem) else ConfigurableProblem(lambda _: found)

    def complete(self, settings: ProblemSettings) -> ProblemSettings:
        """The settings with this problem's values where they are None."""
        data = {key: value for key, value in self.settable.data.items() if getattr(settings.data, key) is None}
        weight = self.settable.flops_weight if settings.flops_weight is None else settings.flops_weight
        return replace(settings, data=replace(settings.data, **data), flops_weight=weight)

    def problem(self, settings: ProblemSettings) -> Problem:
        """The problem with these settings. Raises ConfigError for one of a user's that cannot be made."""
        found = explained(f"{self.use}: its make failed", self.settable.make, self.complete(settings))
        if not is_own(self.name):
            return found
        if not isinstance(found, Problem):
            raise ConfigError(f"{self.use}: its make returned a {type(found).__name__}, no problem")
        return replace(
            found,
            load=partial(explained, f"{self.use}: its load failed", found.load),
            build=partial(explained, f"{self.use}: its build failed", found.build),
        )


SUMMARIES = {
    "images.problem": {"joint": "NASNet cell and SGD schedule on images: 12 discrete and 6 continuous variables"},
    "functions.synthetic": {
        "func2c": "two of Rosenbrock, camel, beale added: 2 discrete, 2 continuous",
        "func3c": "three of Rosenbrock, camel, beale added: 3 discrete, 2 continuous",
        "ackley5c": "Ackley: 5 discrete of 17 values, 1 continuous",
        "ackley53c": "Ackley: 50 binary, 3 continuous",
        "ackley53c_gebo": "Ackley in GEBO's form, never to be compared with ackley53c: 50 binary, 3 continuous",
    },
    "functions.engineering": {
        "pressure_vessel": "cost of a pressure vessel, its constraints left out as published: 2 integer, 2 continuous",
        "pressure_vessel_constrained": "cost of a pressure vessel, its constraints as penalties: "
        "2 integer, 2 continuous",
        "speed_reducer": "weight of a speed reducer, its constraints left out as published: 1 integer, 6 continuous",
        "speed_reducer_constrained": "weight of a speed reducer, its constraints as penalties: 1 integer, 6 continuous",
    },
    "functions.environmental_model": {
        "environmental_model": "two spills found from concentrations, "
        "with the slip of the published code: 1 integer, 3 continuous",
        "environmental_model_correct": "two spills found from concentrations, its formula mended: "
        "1 integer, 3 continuous",
    },
    "tables.support_vectors": {
        "nusvr_diabetes": "support vector regression on scikit-learn's diabetes table: 3 discrete, 3 continuous",
        "svm_boston": "support vector regression on the Boston table, from a file of yours (data.root)",
    },
    "tables.decision_trees": {"dt_wine": "a decision tree on scikit-learn's wine table: 2 discrete, 2 continuous"},
    "tables.multilayer_perceptron": {
        "mlp_digits": "a multilayer perceptron on scikit-learn's digits: 5 discrete, 3 continuous",
    },
    "tables.boosting": {
        "xgb_digits": "boosted trees on scikit-learn's digits: 4 discrete, 4 continuous; "
        "an epoch is a round, full are 100",
        "xgb_fashion_mnist": "boosted trees on all of FashionMNIST: 4 discrete, 4 continuous; "
        "an epoch is a round, full are 50",
        "xgb_fashion_mnist_small": "boosted trees on 9,000 images, never to be compared with "
        "xgb_fashion_mnist: 4 discrete, 4 continuous",
    },
}
"""Module of fmnas.trainers -> problem -> what it is. A problem is called there by its name, in capitals."""


def rows(summaries: Mapping[str, Mapping[str, str]]) -> dict[str, Row]:
    """Of every problem by its name. summaries: as `SUMMARIES`."""
    return {
        name: Row(name, f"fmnas.trainers.{module}:{name.upper()}", summary)
        for module, held in summaries.items()
        for name, summary in held.items()
    }


PROBLEMS = rows(SUMMARIES)
ALIASES = {"fashion_mnist": "joint"}


def is_own(name: str) -> bool:
    """Whether a name is of a problem that a user brings."""
    return ":" in name or name.endswith(".py")


def row_of(name: str) -> Row | None:
    """Of the problem of that name; None if the registry has none."""
    return Row(name, name, "") if is_own(name) else PROBLEMS.get(ALIASES.get(name, name))


def short_name(name: str) -> str:
    """A problem's name as people read it: of a file, without its folder; of what was given, without its place."""
    module, inside = parted(name)
    if module == HANDED_OVER:
        return inside
    return f"{Path(module).name}:{inside}" if module.endswith(".py") else name


def problem(name: str, settings: ProblemSettings | None = None) -> Problem:
    """The problem of that name, with default settings unless given; ConfigError if there is none."""
    row = row_of(name)
    if row is None:
        raise ConfigError(f"problem {name!r}: it must be one of {', '.join([*PROBLEMS, *ALIASES])}")
    return row.problem(settings or ProblemSettings())
