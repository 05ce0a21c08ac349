"""BO-FM as a search algorithm of Ray Tune. It needs ray[tune]: pip install 'fmnas[tune]'.

    tuner = tune.Tuner(
        trainable,
        param_space={"lr": tune.loguniform(1e-4, 1e-1), "op": tune.choice(["a", "b"])},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=50, search_alg=BOFMSearch(seed=0)),
    )

What BO-FM hears of a trial:

| how it ended | it hears |
|---|---|
| with a result, also of a trial that a scheduler stopped | the metric of the last one; negated where mode is "max" |
| in an error, or with a metric that is not a finite number | the worst so far; nothing if there is none yet |
| before any result | nothing: it may be suggested again |

Trials that run are pending: any number may. Of a domain, wherever it stands in the configuration, it makes a range:

| domain | range |
|---|---|
| uniform, loguniform | Interval |
| quniform, qloguniform | Grid of the multiples of q |
| randint, lograndint | Grid of step 1, without the upper bound |
| qrandint, qlograndint | Grid of the multiples of q, with the upper bound unless q is 1 |
| choice | Choices |

Normal distributions are refused, for they have no bounds; so are sample_from and grid_search, which leave nothing to
suggest, and domains in lists, which a suggestion could not be merged into.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fmnas.integrations import MissingPackageError
from fmnas.integrations.ranges import Choices, Grid, Interval, Range, Translation
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
"""What leads to a parameter, in a dictionary of dictionaries."""

MULTIPLE_TOLERANCE = 1e-9  # of a bound that is a multiple of q but for rounding


class BOFMSearch(Searcher):  # type: ignore[misc]  # ray has no types
    """BO-FM. Raises OptimizerError for options, domains and calls that make no sense.

    space: the parameters, unless the Tuner has them as its param_space. metric, mode: unless its TuneConfig has them.
    n_startup_trials: random trials to begin with.
    kernel, bofm_mode: as BOFM's kernel and mode.

    optimizer: BO-FM itself, once there is a space: what it was told, and what is pending.
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
        self._live: dict[str, Trial] = {}  # by Tune's ids
        self._reported: dict[str, float] = {}  # the last of each of these
        if space:
            self._search(ranges_of(space))

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        """Take from Tune what it has; False where a space was given before, which stays."""
        self._metric, self._mode = metric or self._metric, mode or self._mode
        if self._ranges:
            return False
        self._search(ranges_of(config))
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """The next configuration, of the parameters alone."""
        if not self._ranges:
            raise OptimizerError("BOFMSearch has no space: give it one, or the Tuner a param_space with domains")
        if not isinstance(self._metric, str) or self._mode not in ("min", "max"):
            given = f"metric = {self._metric!r}, mode = {self._mode!r}"
            raise OptimizerError(f'BOFMSearch with {given}: give it or the TuneConfig one metric, and "min" or "max"')
        trial = self.optimizer.ask()
        assert trial is not None, "BO-FM always has a suggestion"
        self._asked.append(trial)
        self._live[trial_id] = trial
        searched = self._translation.parameters(trial.configuration)
        return _nested((keys, searched.get(keys, each.decode(0))) for keys, each in self._ranges.items())

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Remember it: a paused trial may end without another."""
        self._reported[trial_id] = self._objective(result)

    def on_trial_complete(self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False) -> None:
        """Tell BO-FM, as the module's table has it. Of a trial that is not running any more nothing is told."""
        trial, reported = self._live.pop(trial_id, None), self._reported.pop(trial_id, None)
        if trial is None:
            return
        heard = math.nan if error else self._objective(result) if result else reported
        if heard is not None and not math.isfinite(heard):
            heard = max((told.objective for _, told in self.optimizer.history), default=None)
        if heard is None:
            self.optimizer.forget(trial)
        else:
            self.optimizer.tell(trial, heard)

    def save(self, checkpoint_path: str) -> None:
        """Write what was searched, asked and told; Tune puts the file in its place."""
        told = self.optimizer.history if self._ranges else []
        state = (self._metric, self._mode, self._ranges, self._asked, told, self._live, self._reported)
        Path(checkpoint_path).write_bytes(cloudpickle.dumps(state))

    def restore(self, checkpoint_path: str) -> None:
        """Go on from a file of `save`; the options are those of this object."""
        state = cloudpickle.loads(Path(checkpoint_path).read_bytes())
        self._metric, self._mode, ranges, self._asked, told, self._live, self._reported = state
        if not ranges:
            return
        self._search(ranges)
        for trial in self._asked:
            self.optimizer.restore(trial)
        for trial, evaluation in told:
            self.optimizer.tell(trial, evaluation)
        live = {trial.id for trial in self._live.values()}
        for trial in [each for each in self.optimizer.pending.values() if each.id not in live]:
            self.optimizer.forget(trial)

    def _search(self, ranges: Mapping[Keys, Range]) -> None:
        """Begin anew, on these ranges."""
        self._ranges = dict(ranges)
        searched = {keys: each for keys, each in ranges.items() if each.count > 1}
        if not searched:
            raise OptimizerError(f"of the parameters {list(map(_in_words, ranges))} none has two values: add a domain")
        self._translation = Translation(searched)
        space = self._translation.space
        design = random_design(space, self._n_startup_trials, self._seed)
        self.optimizer = BOFM(space, seed=self._seed, initial_design=design, **self._options)

    def _objective(self, result: Mapping[str, Any]) -> float:
        """What is minimised; NaN where the result lacks the metric, or it is no number."""
        try:
            value = float(result.get(str(self._metric), math.nan))
        except (TypeError, ValueError):
            return math.nan
        return -value if self._mode == "max" else value


def ranges_of(config: Mapping[str, Any]) -> dict[Keys, Range]:
    """The domains in a configuration of Tune's by their keys; OptimizerError for others."""
    _, domains, grids = parse_spec_vars(dict(config))
    for keys, _ in grids:
        raise OptimizerError(f"{_in_words(keys)}: BOFMSearch takes no grid_search; use tune.choice")
    for keys, _ in domains:
        if not all(isinstance(key, str) for key in keys):
            raise OptimizerError(f"{_in_words(keys)}: a domain in a list, or under a key that is no string; name it")
    found = {tuple(keys): _range(_in_words(keys), domain) for keys, domain in domains}
    for keys, each in found.items():
        if each.count < 1:
            raise OptimizerError(f"{_in_words(keys)}: {each} has no value; its low must not be above its high")
    return found


def _range(name: str, domain: Domain) -> Range:
    """What a domain allows."""
    sampler, q = domain.get_sampler(), None
    if isinstance(sampler, Quantized):
        sampler, q = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Categorical):
        return Choices(tuple(domain.categories))
    if isinstance(sampler, Normal) or not isinstance(domain, Float | Integer):
        kind = f"{type(domain).__name__}, {sampler}"
        raise OptimizerError(
            f"{name}: a {kind} distribution: BOFMSearch takes uniform, loguniform, quniform, qloguniform, randint, "
            "lograndint, qrandint, qlograndint and choice"
        )
    low, high = domain.lower, domain.upper
    if isinstance(domain, Integer) and q in (None, 1):
        return Grid(low, high - 1, 1, log)  # Tune's integers end before the upper bound
    if q is None:
        return Interval(low, high, log)
    q = q if isinstance(domain, Integer) else float(q)
    return Grid(math.ceil(low / q - MULTIPLE_TOLERANCE) * q, math.floor(high / q + MULTIPLE_TOLERANCE) * q, q, log)


def _in_words(keys: Iterable[Any]) -> str:
    """The keys as one name."""
    return "/".join(map(str, keys))


def _nested(values: Iterable[tuple[Keys, Any]]) -> dict[str, Any]:
    """Parameters, each with the keys that lead to it, as a dictionary of dictionaries."""
    root: dict[str, Any] = {}
    for (*folders, last), value in values:
        node = root
        for key in folders:
            node = node.setdefault(key, {})
        node[last] = value
    return root
