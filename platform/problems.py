"""The problems that a configuration can name.

    p = problem("func3c")
    p.space
    p.trainer.evaluate(trial).objective

A problem's own file is imported on first use. The name of a user's problem is its import reference.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

from fmnas.platform.errors import ConfigError, call_user_code
from fmnas.platform.references import IN_MEMORY, RECORDED, import_reference, split_reference
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings

OBJECTIVE_HINT = "decorate a function with @objective([VARIABLE, ...]) of fmnas.trainers"


@dataclass(frozen=True)
class ProblemEntry:
    """A problem by name. use: the import reference of a Problem or ConfigurableProblem. summary: one line."""

    name: str
    use: str
    summary: str

    @cached_property
    def target(self) -> Problem | ConfigurableProblem:
        """The object that the reference names. Raises ConfigError if it is not a problem."""
        target = import_reference(self.use)
        if not isinstance(target, Problem | ConfigurableProblem):
            raise ConfigError(f"{self.use} is a {type(target).__name__}, not a problem: {OBJECTIVE_HINT}")
        return target

    @property
    def takes_milliseconds(self) -> bool:
        """Whether it is one of trainers/functions, which are formulas."""
        return self.use.startswith("fmnas.trainers.functions.")

    @property
    def is_recorded(self) -> bool:
        """Whether its evaluations are recorded results, or drawn from a surrogate of them: nothing is trained."""
        return split_reference(self.use)[0] == RECORDED or self.use.startswith("fmnas.trainers.surrogate.")

    @property
    def configurable(self) -> ConfigurableProblem:
        """What a configuration can set; nothing of a plain Problem."""
        target = self.target
        return target if isinstance(target, ConfigurableProblem) else ConfigurableProblem(lambda _: target)

    def with_defaults(self, settings: ProblemSettings) -> ProblemSettings:
        """The settings with this problem's values in place of None."""
        defaults = self.configurable
        data = {key: value for key, value in defaults.data.items() if getattr(settings.data, key) is None}
        weight = defaults.flops_weight if settings.flops_weight is None else settings.flops_weight
        return replace(settings, data=replace(settings.data, **data), flops_weight=weight)

    def problem(self, settings: ProblemSettings | None = None) -> Problem:
        """The problem with these settings. Raises ConfigError if a user's problem fails to build."""
        settings = self.with_defaults(settings or ProblemSettings())
        if not is_user_defined(self.name):
            return self.configurable.make(settings)
        task = call_user_code(f"{self.use}: its make failed", self.configurable.make, settings)
        if not isinstance(task, Problem):
            raise ConfigError(f"{self.use}: its make returned a {type(task).__name__}, not a problem")
        return replace(
            task,
            load=partial(call_user_code, f"{self.use}: its load failed", task.load),
            build=partial(call_user_code, f"{self.use}: its build failed", task.build),
        )


SUMMARIES = {
    "images.problem": {"joint": "NASNet cell and SGD schedule on images: 12 discrete and 6 continuous variables"},
    "surrogate.problem": {
        "joint_recorded": "the joint problem without training: a surrogate of recorded trainings, with their noise",
    },
    "images.vae": {
        "vae_fmnist_small": "MiVaBO's variational autoencoder on 6,000 images: 25 discrete (constrained), 3 continuous",
    },
    "functions.synthetic": {
        "func2c": "two of Rosenbrock, camel, beale added: 2 discrete, 2 continuous",
        "func3c": "three of Rosenbrock, camel, beale added: 3 discrete, 2 continuous",
        "ackley5c": "Ackley: 5 discrete of 17 values, 1 continuous",
        "ackley53c": "Ackley: 50 binary, 3 continuous",
        "ackley53c_gebo": "Ackley in GEBO's form, not comparable with ackley53c: 50 binary, 3 continuous",
    },
    "functions.combinatorial": {
        "labs": "low-autocorrelation binary sequences: 50 binary",
        "pest_control": "COMBO's pest control, the same draws at each of 25 stages: 25 discrete of 5 values",
        "contamination": "COMBO's contamination control over 25 stages: 25 binary",
        "maxsat": "a random instance of weighted satisfiability: 60 binary",
    },
    "functions.linear_features": {
        "mivabo_gaussian": "MiVaBO's synthetic function, Gaussian weights: 8 binary, 8 continuous",
        "mivabo_gaussian_at_most_2": "the same, at most two binaries 1 (a constraint of the space)",
        "mivabo_laplace": "MiVaBO's synthetic function, sparse weights: 8 binary, 8 continuous",
        "mivabo_laplace_at_most_2": "the same, at most two binaries 1 (a constraint of the space)",
    },
    "functions.engineering": {
        "pressure_vessel": "cost of a pressure vessel, without constraints as published: 2 integer, 2 continuous",
        "pressure_vessel_constrained": "cost of a pressure vessel, constraints as penalties: 2 integer, 2 continuous",
        "speed_reducer": "weight of a speed reducer, without constraints as published: 1 integer, 6 continuous",
        "speed_reducer_constrained": "weight of a speed reducer, constraints as penalties: 1 integer, 6 continuous",
    },
    "functions.environmental_model": {
        "environmental_model": "two spills found from concentrations, with the published code's slip: "
        "1 integer, 3 continuous",
        "environmental_model_correct": "two spills found from concentrations, formula corrected: "
        "1 integer, 3 continuous",
    },
    "functions.robot_pushing": {
        "robot_pushing": "two simulated robots push two objects, by the package box2d: 10 integer, 4 continuous",
    },
    "functions.two_objectives": {"zdt1_mixed": "ZDT1 with two objectives, known front: 4 discrete, 3 continuous"},
    "tables.support_vectors": {
        "nusvr_diabetes": "support vector regression on scikit-learn's diabetes table: 3 discrete, 3 continuous",
        "svm_boston": "support vector regression on the Boston table, from your file (data.root)",
    },
    "tables.decision_trees": {"dt_wine": "a decision tree on scikit-learn's wine table: 2 discrete, 2 continuous"},
    "tables.multilayer_perceptron": {
        "mlp_digits": "a multilayer perceptron on scikit-learn's digits: 5 discrete, 3 continuous",
    },
    "tables.boosting": {
        "xgb_digits": "boosted trees on scikit-learn's digits, of up to 100 rounds (epochs): 4 discrete, 4 continuous",
        "xgb_fashion_mnist": "boosted trees on all of FashionMNIST, of up to 50 rounds (epochs): "
        "4 discrete, 4 continuous",
    },
    "tables.boosting_table": {
        "xgb_table": "MiVaBO's xgboost task from a table of 2,000 recorded trainings: 3 discrete, 7 continuous",
    },
}
"""Module of fmnas.trainers -> problem -> summary. The module holds the problem under its name in capitals."""

PROBLEMS = {
    name: ProblemEntry(name, f"fmnas.trainers.{module}:{name.upper()}", summary)
    for module, summaries in SUMMARIES.items()
    for name, summary in summaries.items()
}
ALIASES = {"fashion_mnist": "joint"}


def is_user_defined(name: str) -> bool:
    """Whether a problem's name is an import reference."""
    return ":" in name or name.endswith(".py")


def resolve_alias(name: str) -> str:
    """The name that an alias stands for; any other name unchanged."""
    return ALIASES.get(name, name)


def find_problem(name: str) -> ProblemEntry | None:
    """The entry of a name or reference; None for an unknown name."""
    return ProblemEntry(name, name, "") if is_user_defined(name) else PROBLEMS.get(resolve_alias(name))


def display_name(name: str) -> str:
    """A problem's name without the folder of its file, or without its module if it is in memory."""
    module, inside = split_reference(name)
    if module == IN_MEMORY:
        return inside
    if module == RECORDED:
        return f"{RECORDED}:{Path(inside).name}"
    return f"{Path(module).name}:{inside}" if module.endswith(".py") else name


def problem(name: str, settings: ProblemSettings | None = None) -> Problem:
    """The problem of a name or reference, with default settings unless given. Raises ConfigError for another name."""
    entry = find_problem(name)
    if entry is None:
        raise ConfigError(f"problem {name!r}: it must be one of {', '.join([*PROBLEMS, *ALIASES])}")
    return entry.problem(settings)
