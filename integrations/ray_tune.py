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
| randint, lograndint | Grid of step 1, without the upper bound |
| choice | Choices |

Others are refused: quantized domains, normal distributions, sample_from, grid_search, and domains in lists.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge
from ray import cloudpickle
from ray.tune.search import Searcher
from ray.tune.search.sample import Categorical, Float, Integer, LogUniform, Uniform
from ray.tune.search.variant_generator import parse_spec_vars

from fmnas.integrations.ranges import Choices, Grid, Interval, Range, SpaceTranslator
from fmnas.optimizers import BOFM, OptimizerError, random_design
from fmnas.optimizers.bofm import ModeName
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Trial

NO_SPACE = "BOFMSearch has no space to search: pass a param_space with domains of two or more values to the Tuner"

Keys = tuple[str, ...]
"""The path of a parameter in nested dictionaries."""


class BOFMSearch(Searcher):  # type: ignore[misc]  # ray has no types
    """The BO-FM search algorithm. Raises OptimizerError for invalid options, domains and calls.

    The parameters are the Tuner's param_space; metric and mode are its TuneConfig's.
    n_startup_trials: number of random trials at the start.
    kernel, bofm_mode: BOFM's kernel and mode.

    optimizer: the BOFM object, once the space is known.
    """

    def __init__(
        self,
        *,
        seed: Annotated[int, Ge(0)] = 0,
        n_startup_trials: Annotated[int, Ge(1)] = 10,
        kernel: KernelName = "modlap",
        bofm_mode: ModeName = "default",
    ) -> None:
        super().__init__()
        self._metric: str | None = None
        self._mode: str | None = None
        check_options(type(self), seed=seed, n_startup_trials=n_startup_trials)
        check_options(BOFM, kernel=kernel, mode=bofm_mode)
        self._n_startup_trials = n_startup_trials
        self._seed = seed
        self._options: dict[str, Any] = {"kernel": kernel, "mode": bofm_mode}
        self._ranges: dict[Keys, Range] = {}
        self._live: dict[str, Trial] = {}  # by Tune's trial id
        self._reported: dict[str, float] = {}  # last objectives of running trials

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
            raise OptimizerError(NO_SPACE)
        if not isinstance(self._metric, str) or self._mode not in ("min", "max"):
            settings = f"metric = {self._metric!r}, mode = {self._mode!r}"
            raise OptimizerError(f'BOFMSearch with {settings}: one metric and the mode "min" or "max" are required')
        trial = self.optimizer.ask()
        assert trial is not None, "BO-FM always has a suggestion"
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
        """Save the search with its options, trials and results."""
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(vars(self)))

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file of `save`."""
        self.__dict__.update(cloudpickle.loads(Path(checkpoint_path).read_bytes()))

    def _create_optimizer(self, ranges: Mapping[Keys, Range]) -> None:
        """Create the optimizer for these ranges; one with a single value is not searched."""
        searched = {keys: range_ for keys, range_ in ranges.items() if range_.count > 1}
        if not searched:
            raise OptimizerError(NO_SPACE)
        self._ranges, self._translator = dict(ranges), SpaceTranslator(searched)
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
    ranges: dict[Keys, Range] = {}
    for keys, domain in (*domains, *((keys, "grid_search") for keys, _ in grids)):
        range_ = _to_range(domain) if all(isinstance(key, str) for key in keys) else None
        if range_ is None or range_.count < 1:
            raise OptimizerError(
                f"{'/'.join(map(str, keys))} = {domain}: not supported; use uniform, loguniform, randint, lograndint "
                "or choice with low <= high, in dictionaries with string keys"
            )
        ranges[tuple(keys)] = range_
    return ranges


def _to_range(domain: Any) -> Range | None:
    """Return the range of a domain; None if it is not supported."""
    if isinstance(domain, Categorical):
        _, domains, grids = parse_spec_vars({"choice": list(domain.categories)})
        return None if domains or grids else Choices(tuple(domain.categories))
    sampler = domain.get_sampler() if isinstance(domain, Float | Integer) else None
    if not isinstance(sampler, Uniform | LogUniform):
        return None
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Integer):
        return Grid(domain.lower, domain.upper - 1, 1, log)  # Tune's integers end before the upper bound
    return Interval(domain.lower, domain.upper, log)


def _nest(values: Iterable[tuple[Keys, Any]]) -> dict[str, Any]:
    """Return nested dictionaries from (path, value) pairs."""
    root: dict[str, Any] = {}
    for (*parents, last), value in values:
        node = root
        for key in parents:
            node = node.setdefault(key, {})
        node[last] = value
    return root
