"""BO-FM as a Ray Tune search algorithm. Requires ray[tune]: pip install 'fmnas[tune]'.

    tuner = tune.Tuner(
        trainable,
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "op": tune.choice(["a", "b"])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=50, search_alg=BOFMSearch(seed=0)),
    )

The objective of a trial:

| end of the trial | objective for BO-FM |
|---|---|
| with a result, even if a scheduler stopped it | the last metric; negated if mode is "max" |
| an error, or a metric that is not a finite number | the worst so far; without results, the trial is dropped |
| no result | none: the trial is dropped and may be suggested again |

Running trials are pending; their number is not limited. Domains at any depth of the configuration become ranges:

| domain | range |
|---|---|
| uniform, loguniform | Interval |
| quniform, qloguniform | Grid of multiples of q |
| randint, lograndint | Grid of step 1, without the upper bound |
| qrandint, qlograndint | Grid of multiples of q, with the upper bound unless q is 1 |
| choice | Choices |

Normal distributions (no bounds), sample_from, grid_search and domains in lists are refused.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fmnas.integrations import MissingPackageError
from fmnas.integrations.ranges import Choices, Grid, Interval, Range, SpaceTranslator
from fmnas.optimizers import BOFM, OptimizerError, random_design
from fmnas.optimizers.bofm import ModeName
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Trial

try:
    from ray import cloudpickle
    from ray.tune.search import Searcher
    from ray.tune.search.sample import Categorical, Domain, Float, Integer, LogUniform, Normal, Quantized
    from ray.tune.search.variant_generator import parse_spec_vars
except ImportError as error:
    raise MissingPackageError("fmnas.integrations.ray_tune", "ray[tune]", "tune", error) from error

Keys = tuple[str, ...]
"""The path of a parameter in nested dictionaries."""

MULTIPLE_TOLERANCE = 1e-9  # rounding error of a bound that is a multiple of q


class BOFMSearch(Searcher):  # type: ignore[misc]  # ray has no types
    """The BO-FM search algorithm. Raises OptimizerError for invalid options, domains and calls.

    space: the parameters, if not given as the Tuner's param_space. metric, mode: if not given in its TuneConfig.
    n_startup_trials: number of random trials at the start.
    kernel, bofm_mode: BOFM's kernel and mode.

    optimizer: the BOFM object, once the space is known.
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        *,
        seed: int = 0,
        n_startup_trials: int = 10,
        kernel: KernelName = "modlap",
        bofm_mode: ModeName = "default",
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        self._metric, self._mode = metric, mode
        if n_startup_trials < 1:
            raise OptimizerError(f"n_startup_trials = {n_startup_trials}: it must be at least 1")
        check_options(BOFM, kernel=kernel, mode=bofm_mode)
        self._n_startup_trials = n_startup_trials
        self._seed = seed
        self._options: dict[str, Any] = {"kernel": kernel, "mode": bofm_mode}
        self._ranges: dict[Keys, Range] = {}
        self._asked: list[Trial] = []
        self._live: dict[str, Trial] = {}  # by Tune's trial id
        self._reported: dict[str, float] = {}  # last objectives of running trials
        if space:
            self._create_optimizer(ranges_of(space))

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Set the properties from Tune; return False, and keep the space, if it is already set."""
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._ranges:
            return False
        self._create_optimizer(ranges_of(config))
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return the next values of the parameters."""
        if not self._ranges:
            raise OptimizerError("BOFMSearch has no space: pass space=..., or a param_space with domains to the Tuner")
        if not isinstance(self._metric, str) or self._mode not in ("min", "max"):
            settings = f"metric = {self._metric!r}, mode = {self._mode!r}"
            raise OptimizerError(f'BOFMSearch with {settings}: one metric and the mode "min" or "max" are required')
        trial = self.optimizer.ask()
        assert trial is not None, "BO-FM always has a suggestion"
        self._asked.append(trial)
        self._live[trial_id] = trial
        parameters = self._translator.parameters(trial.configuration)
        return _nest((keys, parameters.get(keys, range_.decode(0))) for keys, range_ in self._ranges.items())

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Store the objective: a paused trial may end without a final result."""
        self._reported[trial_id] = self._objective(result)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Report the objective by the module's table to BO-FM; trials that are not running are ignored."""
        trial, reported = self._live.pop(trial_id, None), self._reported.pop(trial_id, None)
        if trial is None:
            return
        objective = math.nan if error else self._objective(result) if result else reported
        if objective is not None and not math.isfinite(objective):
            objective = max((evaluation.objective for _, evaluation in self.optimizer.history), default=None)
        if objective is None:
            self.optimizer.forget(trial)
        else:
            self.optimizer.tell(trial, objective)

    def save(self, checkpoint_path: str) -> None:
        """Save the search space, the trials and their results."""
        history = self.optimizer.history if self._ranges else []
        state = (self._metric, self._mode, self._ranges, self._asked, history, self._live, self._reported)
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save` with the options of this object."""
        state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        self._metric, self._mode, ranges, self._asked, history, self._live, self._reported = state
        if not ranges:
            return
        self._create_optimizer(ranges)
        for trial in self._asked:
            self.optimizer.restore(trial)
        for trial, evaluation in history:
            self.optimizer.tell(trial, evaluation)
        live = {trial.id for trial in self._live.values()}
        for trial in [t for t in self.optimizer.pending.values() if t.id not in live]:
            self.optimizer.forget(trial)

    def _create_optimizer(self, ranges: Mapping[Keys, Range]) -> None:
        """Create the optimizer for these ranges."""
        self._ranges = dict(ranges)
        searched = {keys: range_ for keys, range_ in ranges.items() if range_.count > 1}
        if not searched:
            names = list(map(_join, ranges))
            raise OptimizerError(f"parameters {names}: at least one must have two values or more; add a domain")
        self._translator = SpaceTranslator(searched)
        space = self._translator.space
        design = random_design(space, self._n_startup_trials, self._seed)
        self.optimizer = BOFM(space, seed=self._seed, initial_design=design, **self._options)

    def _objective(self, result: Mapping[str, Any]) -> float:
        """Return the value to minimise; NaN if the result has no numeric metric."""
        try:
            value = float(result.get(str(self._metric), math.nan))
        except (TypeError, ValueError):
            return math.nan
        return -value if self._mode == "max" else value


def ranges_of(config: Mapping[str, Any]) -> dict[Keys, Range]:
    """Return the ranges of a Tune configuration's domains by path. Raises OptimizerError for unsupported domains."""
    _, domains, grids = parse_spec_vars(dict(config))
    for keys, _ in grids:
        raise OptimizerError(f"{_join(keys)}: grid_search is not supported; use tune.choice")
    for keys, _ in domains:
        if not all(isinstance(key, str) for key in keys):
            raise OptimizerError(
                f"{_join(keys)}: domains in lists or under non-string keys are not supported; use string keys"
            )
    ranges = {tuple(keys): _to_range(_join(keys), domain) for keys, domain in domains}
    for keys, range_ in ranges.items():
        if range_.count < 1:
            raise OptimizerError(f"{_join(keys)}: {range_} is empty; its low must not be above its high")
    return ranges


def _to_range(name: str, domain: Domain) -> Range:
    """Return the range of a domain."""
    sampler, q = domain.get_sampler(), None
    if isinstance(sampler, Quantized):
        sampler, q = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Categorical):
        return Choices(tuple(domain.categories))
    if isinstance(sampler, Normal) or not isinstance(domain, Float | Integer):
        raise OptimizerError(
            f"{name}: {type(domain).__name__} with {sampler} is not supported; use uniform, loguniform, "
            "quniform, qloguniform, randint, lograndint, qrandint, qlograndint or choice"
        )
    low, high = domain.lower, domain.upper
    if isinstance(domain, Integer) and q in (None, 1):
        return Grid(low, high - 1, 1, log)  # Tune's integers end before the upper bound
    if q is None:
        return Interval(low, high, log)
    q = q if isinstance(domain, Integer) else float(q)
    return Grid(math.ceil(low / q - MULTIPLE_TOLERANCE) * q, math.floor(high / q + MULTIPLE_TOLERANCE) * q, q, log)


def _join(keys: Iterable[Any]) -> str:
    """Join a path to one name."""
    return "/".join(map(str, keys))


def _nest(values: Iterable[tuple[Keys, Any]]) -> dict[str, Any]:
    """Return nested dictionaries from (path, value) pairs."""
    root: dict[str, Any] = {}
    for (*parents, last), value in values:
        node = root
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
    return root
