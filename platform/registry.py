"""The optimizers that a configuration can name, and import references: "module:NAME" or "FILE.py:NAME".

Python looks for a module on its path, then in the current folder. A file is run as a module; it can import modules from
its folder. A node without the file gets its text. Another distribution adds optimizers, problems and observers by the
entry points fmnas.optimizers, fmnas.problems and fmnas.observers, whose values are references.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from inspect import Parameter, isabstract
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from fmnas.optimizers.isolation import same_working_directory
from fmnas.optimizers.optimizer import Optimizer, SearchPlan
from fmnas.optimizers.options import get_options, get_parameters, yaml_types
from fmnas.platform.errors import LET_THROUGH, ConfigError, call_user_code, code_location, one_line

if TYPE_CHECKING:
    from pydantic import BaseModel

    from fmnas.search_spaces import Configuration, Space

IN_MEMORY = "<minimize>"
"""The module in a reference to an object that was passed to `fmnas.api.minimize`."""
RECORDED = "recorded"
"""The module in a reference to a file of recorded results, e.g. "recorded:runs/table.npz"."""
OPTUNA, OPTUNA_SAMPLERS = "optuna:", "optuna.samplers:"
"""The short and the full module of Optuna's samplers."""

_LOGGER = logging.getLogger(__name__)
_replacements: ContextVar[Mapping[str, Any]] = ContextVar("replacements", default=MappingProxyType({}))
_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


@dataclass(frozen=True)
class SourceFile:
    """A user's Python file: its absolute path on the driver's machine, and its text."""

    path: str
    text: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text).hexdigest()


def split_reference(use: str) -> tuple[str, str]:
    """The module or file of a reference, and the name in it; either may be empty."""
    if use.startswith(f"{RECORDED}:"):
        return RECORDED, use.removeprefix(f"{RECORDED}:")
    if use.endswith(".py"):
        return use, ""
    module, _, name = use.rpartition(":")
    return module, name


def absolute_reference(use: str) -> str:
    """The reference with the absolute path of its file."""
    file = _file_of(use)
    if not file:
        return use
    try:
        return _with_file(use, file, Path(file).expanduser().resolve())
    except (OSError, ValueError, RuntimeError):  # an unknown user's home, or not a path
        return use  # importing it reports the error


def resolve_beside(use: str, folder: Path) -> str:
    """The reference with its file taken from a folder, if the current folder lacks the file and that one has it."""
    file = _file_of(use)
    if not file or Path(file).is_absolute() or file.startswith("~"):
        return use
    with suppress(OSError):  # the name is too long for a file
        if not Path(file).exists() and (folder / file).is_file():
            return _with_file(use, file, folder / file)
    return use


def _file_of(use: str) -> str:
    """The Python file or the recorded results of a reference; empty if it names a module."""
    module, name = split_reference(use)
    if module == RECORDED:
        return name
    return module if module.endswith(".py") else ""


def _with_file(use: str, file: str, path: Path) -> str:
    """The reference with another path of its file."""
    before, _, after = use.rpartition(file)
    return f"{before}{path}{after}"


def import_reference(use: str) -> Any:
    """The object that a reference names. Raises ConfigError if it names nothing."""
    if is_registered(use):
        return _replacements.get()[use]
    module, name = split_reference(use)
    if not module or not name:
        raise ConfigError("write MODULE:NAME, or FILE.py:NAME")
    if module == IN_MEMORY:
        raise ConfigError(
            f"{name} was passed to fmnas.api.minimize and is not in a file: call minimize again with the same "
            "function, space and out=DIR to resume it or to get its results"
        )
    if module == RECORDED:
        from fmnas.trainers.recorded import recorded_problem

        return recorded_problem(Path(name))
    namespace = _import_module(module)
    if not hasattr(namespace, name):
        raise ConfigError(f"{module} has no {name}")
    return getattr(namespace, name)


@contextmanager
def replace_references(targets: Mapping[str, Any], imports: bool = True) -> Iterator[None]:
    """Let references name these objects while in the block.

    imports: whether other references may import code that is not part of fmnas.
    """
    before = _replacements.set({**_replacements.get(), **targets})
    imports_before = _may_import.set(imports and _may_import.get())
    try:
        yield
    finally:
        _replacements.reset(before)
        _may_import.reset(imports_before)


def is_registered(use: str) -> bool:
    """Whether a reference names an object in memory now."""
    return use in _replacements.get()


def find_names(module: str, kind: Any) -> list[str]:
    """The first name of each public object of a kind in a module or file. Raises ConfigError as import_reference."""
    names: dict[int, str] = {}
    for name, value in vars(_import_module(module)).items():
        if not name.startswith("_") and isinstance(value, kind):
            names.setdefault(id(value), name)
    return list(names.values())


def read_source_file(use: str) -> SourceFile | None:
    """The file of a reference; None for a module, which each node must have. Raises ConfigError if it is missing."""
    module, _ = split_reference(use)
    if not module.endswith(".py"):
        return None
    try:
        return SourceFile(module, Path(module).read_bytes())
    except OSError as error:
        raise ConfigError(f"{module} cannot be read: {one_line(error)}") from None


def load_source(file: SourceFile) -> ModuleType:
    """Import a file from its text, on a node that may lack the file. Raises ConfigError."""
    return _import_module(file.path, file.text)


def _import_module(module: str, text: bytes | None = None) -> ModuleType:
    """The module, or the file as one. Raises ConfigError for any failure in it, and where imports are not allowed."""
    if not _may_import.get() and (module.endswith(".py") or not module.startswith("fmnas.")):
        raise ConfigError(f"{module} is not imported: reading a run directory runs none of the code that it names")
    try:
        with same_working_directory():
            if module.endswith(".py"):
                return _run_file(Path(module), text)
            if find_spec(module.partition(".")[0]) is None:
                _append_to_path(str(Path.cwd()))  # a console script has its own folder on the path, not the current one
            return import_module(module)
    except LET_THROUGH:
        raise
    except BaseException as error:
        if module.endswith(".py") and text is None and not Path(module).is_file():
            raise ConfigError(f"{module}: no such file") from None
        raise ConfigError(f"{module} cannot be imported: {one_line(error)}{code_location(error)}") from error


def _run_file(path: Path, text: bytes | None) -> ModuleType:
    """The module of a file, run once. Its name follows from the absolute path, so each file has its own."""
    name = f"fmnas_own.{sha256(os.fsencode(path.resolve())).hexdigest()[:16]}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    code = compile(path.read_bytes() if text is None else text, str(path), "exec", dont_inherit=True)
    _append_to_path(str(path.resolve().parent))
    module = sys.modules[name] = ModuleType(name)  # before it runs: pickle and dataclasses look for it
    module.__file__ = str(path)
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _append_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def find_plugins(group: str) -> dict[str, str]:
    """Name -> reference of the entry points of a group in other distributions; of equal names the first on the path.

    A distribution whose entry points cannot be read is left out, with a warning.
    """
    plugins: dict[str, str] = {}
    for distribution in distributions():
        try:
            points = [(point.name, point.value) for point in distribution.entry_points.select(group=group)]
        except Exception as error:  # of a malformed file, importlib raises one of many
            _warn_once(
                f"entry points of {getattr(distribution, '_path', 'a distribution')} are left out: {one_line(error)}"
            )
            continue
        for name, use in points:
            plugins.setdefault(name, use)
    return plugins


@cache
def _warn_once(text: str) -> None:
    _LOGGER.warning(text)


@dataclass(frozen=True)
class OptimizerContext:
    """What the platform passes to an optimizer's constructor, if that has a parameter of the name.

    seed: of this run. epochs: full fidelity. evaluations: the budget. log_objective: whether models see the logarithm.
    initial_design: the points that the optimizers of a repeat share.
    """

    seed: int
    epochs: int
    evaluations: int
    log_objective: bool
    initial_design: "tuple[Configuration, ...]"


@dataclass(frozen=True)
class OptimizerEntry:
    """An optimizer by name. use: the reference to its class, which is imported on first use. summary: one line."""

    name: str
    use: str
    summary: str

    @cached_property
    def optimizer(self) -> type[Optimizer]:
        """The class. Raises ConfigError if the reference names something else, or nothing."""
        is_short = self.use.startswith(OPTUNA) and not is_registered(self.use)
        target = import_reference(OPTUNA_SAMPLERS + self.use.removeprefix(OPTUNA) if is_short else self.use)
        if isabstract(target):
            raise ConfigError(f"{self.use} is abstract: implement {', '.join(sorted(target.__abstractmethods__))}")
        return _as_optimizer_class(target, self.use)

    @cached_property
    def is_own(self) -> bool:
        """Whether it is fmnas's: then its constructor has a typed option for each key of a configuration."""
        return self.use.startswith("fmnas.") and not is_registered(self.use)

    @cached_property
    def options(self) -> "type[BaseModel]":
        """The schema of the options of fmnas's own: types, bounds and defaults are those of the constructor."""
        from pydantic import ConfigDict, create_model

        strict = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())
        fields: dict[str, Any] = {
            name: (yaml_types(option.annotation), option.default)
            for name, option in get_options(self.optimizer).items()
        }
        return create_model(f"{self.optimizer.__name__}Options", __config__=strict, **fields)

    @cached_property
    def takes_initial_design(self) -> bool:
        """Whether it starts from given points."""
        return "initial_design" in get_parameters(self.optimizer)

    @property
    def takes_budget(self) -> bool:
        """Whether it uses the number of evaluations."""
        return self.optimizer.uses_budget and "evaluations" in get_parameters(self.optimizer)

    def validate_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with defaults for the rest. Those of a user-defined optimizer are checked by its constructor.

        Raises pydantic's ValidationError for a wrong option, and OptimizerError for a combination that is not allowed.
        """
        if self.is_own:
            validated = dict(self.options.model_validate(dict(options)))
            self.optimizer.check_combination(options)
            return validated
        defaults = {name: option.default for name, option in get_options(self.optimizer).items()}
        return {name: value for name, value in {**defaults, **options}.items() if value is not Parameter.empty}

    def caveat(self, options: Mapping[str, Any]) -> str:
        """What it says of itself with all its options. Raises ConfigError if a user's method fails."""
        return call_user_code(f"{self.name}.caveat", self.optimizer.caveat, options)

    def config_warning(self, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """What it says of a plan. Raises ConfigError if a user's method fails."""
        return call_user_code(f"{self.name}.config_warning", self.optimizer.config_warning, options, plan)

    def build(self, space: "Space", context: OptimizerContext, options: Mapping[str, Any]) -> Optimizer:
        """A new optimizer with these options. Raises ConfigError if a user's constructor fails."""
        taken = get_parameters(self.optimizer)
        provided = {name: value for name, value in vars(context).items() if name in taken}

        def build() -> Optimizer:
            return self.optimizer(space, **provided, **self.validate_options(options))

        return build() if self.is_own else call_user_code("it cannot be built", build)  # ours fails by a bug alone


def _as_optimizer_class(target: Any, use: str) -> type[Optimizer]:
    """The class itself, or an adapter of a sampler of Optuna or of a factory of an ask/tell object.

    Raises ConfigError for anything else.
    """
    from fmnas.baselines.optuna_sampler import is_sampler, optimizer_from_sampler
    from fmnas.optimizers.ask_tell import is_factory, optimizer_from_factory

    if isinstance(target, type) and issubclass(target, Optimizer):
        return target
    if is_sampler(target):
        return optimizer_from_sampler(target)
    if is_factory(target):
        return optimizer_from_factory(target)
    raise ConfigError(
        f"{use} is not an optimizer: give a subclass of fmnas.optimizers.Optimizer, a sampler of Optuna, or a class or "
        "function make(space, seed) of an object with ask() and tell(configuration, objective)"
    )


OPTIMIZERS = {
    name: OptimizerEntry(name, f"fmnas.{use}", summary)
    for name, use, summary in (
        ("bo-fm", "optimizers.bofm:BOFM", "Bayesian optimization with frequency-modulated kernels"),
        (
            *("regularized-evolution", "baselines.regularized_evolution:RegularizedEvolution"),
            "aging evolution with mixed mutations",
        ),
        ("bohb", "baselines.bohb:BOHB", "Hyperband with kernel density models (hpbandster)"),
        ("dehb", "baselines.dehb:DEHB", "differential evolution in Hyperband's brackets"),
        ("hyperband", "baselines.hyperband:Hyperband", "brackets of successive halving, random configurations"),
        ("asha", "baselines.asha:ASHA", "asynchronous successive halving, random configurations"),
        ("cocabo", "baselines.cocabo:CoCaBO", "bandits for discrete variables, a Gaussian process for the rest"),
        ("casmopolitan", "baselines.casmopolitan:Casmopolitan", "Bayesian optimization in trust regions"),
        ("bodi", "baselines.bodi:BODi", "a Gaussian process on distances to a dictionary of random anchors"),
        ("hybo", "baselines.hybo:HyBO", "additive hybrid kernels over all subsets of variables, sampled"),
        ("gebo", "baselines.gebo:GEBO", "a Gaussian process in the latent space of graph autoencoders"),
        ("rounding-gp", "baselines.rounding_gp:RoundingGP", "a Gaussian process on relaxed codes, rounded"),
        ("mivabo", "baselines.mivabo:MiVaBO", "Thompson sampling with a linear model of bits and Fourier features"),
        ("gp-sa", "baselines.gp_annealing:GPAnnealing", "a Gaussian process, its acquisition by simulated annealing"),
        ("tpe", "baselines.tpe:TPE", "tree-structured Parzen estimators (Optuna)"),
        ("smac", "baselines.smac:SMAC", "a random forest and expected improvement (smac)"),
        ("botorch", "baselines.botorch:BoTorch", "BoTorch's Gaussian process for mixed spaces"),
        ("nsga2", "baselines.nsga2:NSGA2", "a genetic algorithm for several objectives (Optuna)"),
        ("parego", "baselines.parego:ParEGO", "BO-FM on random scalarisations of several objectives"),
        ("random", "baselines.random_search:RandomSearch", "random search"),
    )
}
